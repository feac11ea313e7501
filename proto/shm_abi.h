/* The shared-memory ABI between a client process and its host's daemon.
 *
 * The daemon creates one segment per session (an unnamed memfd), passes it over
 * the control socket, and seals it once the client has mapped it. Both sides
 * map all of it. From its start:
 *
 *   | header, 4096 bytes | submission ring | completion ring | data area |
 *
 * Nothing in it is a pointer: buffers are named by their offset from the start
 * of the segment. There are no locks, so neither side can hold the other up.
 * The data area belongs to the client, which divides it as it likes; a buffer
 * belongs to the daemon from the submit that names it until the completion
 * entry of that submit, and to the client at all other times. An output of
 * which the entry says `step_open` stays the daemon's, who still puts results
 * in place there, until the entry that answers the close of its step, or until
 * the group is left. Buffers that are the daemon's may not overlap.
 *
 * Trust: the daemon takes nothing from the segment but what it copied once and
 * then checked. It keeps geometry, indices and tables of its own, so whatever a
 * client writes here harms its own session only. The client trusts the daemon.
 *
 * Rings: one producer and one consumer each. An index counts entries since the
 * start and wraps at 2^32; entry i lies in slot i % capacity; capacities are
 * powers of two. `tail - head` entries are waiting, never more than capacity.
 *   producer: write the slot; store tail (release)
 *   consumer: load tail (acquire); read the slot; store head (release)
 *   producer, before reusing a slot: load head (acquire)
 * A client has at most as many submissions outstanding (submitted, and their
 * completions not yet passed by completion_head) as a ring has slots; so the
 * completion ring always has room, and a client that reads no completions
 * stalls itself and nobody else. A submission that is refused is answered like
 * any other. A client that breaks these rules loses its session.
 *
 * Sleeping, without lost wake-ups. A consumer that wants to sleep does
 *   store sleeps = 1 (seq_cst); load tail (seq_cst);
 *   if something is there: store sleeps = 0 and go on; else block on the bell;
 *   after waking: store sleeps = 0
 * and a producer
 *   store tail (seq_cst); load sleeps (seq_cst);
 *   if it is 1 and exchange(sleeps, 0) was 1: ring the bell.
 * The four have one order, so either the consumer sees the entry or the
 * producer sees the flag. (A release store and a seq_cst fence behind it do as
 * well as a seq_cst store.)
 * Bells: to the daemon, an eventfd that the client writes 1 to; to the client,
 * a stream socket on which a byte arrives (whose bytes the client discards) and
 * which reports a hang-up when the daemon is gone.
 *
 * Times are in nanoseconds of CLOCK_MONOTONIC unless a name says otherwise.
 * Integers have the host's byte order. Reserved fields are zero. Any change of
 * layout or meaning raises OPTIREDUCE_SHM_VERSION.
 *
 * Valid C11 and C++.
 */

#ifndef OPTIREDUCE_PROTO_SHM_ABI_H_
#define OPTIREDUCE_PROTO_SHM_ABI_H_

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OPTIREDUCE_SHM_MAGIC UINT64_C(0x314D48534954504F) /* "OPTISHM1" */
#define OPTIREDUCE_SHM_VERSION UINT32_C(4)

#define OPTIREDUCE_SHM_HEADER_BYTES 4096
#define OPTIREDUCE_SHM_SUBMISSION_BYTES 128
#define OPTIREDUCE_SHM_COMPLETION_BYTES 320
/* Slots per ring, and submissions outstanding at most; the header repeats
 * them. */
#define OPTIREDUCE_SHM_SUBMISSION_SLOTS 1024
#define OPTIREDUCE_SHM_COMPLETION_SLOTS 1024
/* Ops in flight with a bucket and a step, and those whose step is open. */
#define OPTIREDUCE_SHM_MAX_STEP_OPS 1024
/* The data area starts on a multiple of this. */
#define OPTIREDUCE_SHM_DATA_ALIGNMENT 4096
#define OPTIREDUCE_SHM_MAX_WORLD 1024
#define OPTIREDUCE_SHM_NEVER INT64_MAX

/* Values of OptireduceShmHeader.state, written by the daemon. */
enum {
  OPTIREDUCE_SHM_LIVE = 1,
  /* The session is over; `state_reason` says why. Nothing is taken from the
   * submission ring any more; what is in the completion ring is valid. */
  OPTIREDUCE_SHM_CLOSED = 2,
};

/* Why a session was closed. */
enum {
  OPTIREDUCE_SHM_REASON_NONE = 0,
  OPTIREDUCE_SHM_REASON_LEFT = 1,                /* the client said goodbye */
  OPTIREDUCE_SHM_REASON_SHUTDOWN = 2,            /* the daemon stops */
  OPTIREDUCE_SHM_REASON_BAD_SUBMISSION_TAIL = 3, /* more than fits, or back */
  OPTIREDUCE_SHM_REASON_BAD_COMPLETION_HEAD = 4, /* beyond tail, or back */
  OPTIREDUCE_SHM_REASON_TOO_MANY_OUTSTANDING = 5,
  OPTIREDUCE_SHM_REASON_CONTROL = 6, /* the control connection ended */
};

/* OptireduceShmSubmission.kind. */
enum {
  OPTIREDUCE_SHM_OP = 1,
  OPTIREDUCE_SHM_STEP_CLOSE = 2,
  OPTIREDUCE_SHM_STATE_SAVE = 3,
  OPTIREDUCE_SHM_STATE_LOAD = 4,
  OPTIREDUCE_SHM_VERDICT = 7,
};

/* OptireduceShmSubmission.outcome: what became of the step's results. */
enum {
  OPTIREDUCE_SHM_STEP_USED = 1,
  OPTIREDUCE_SHM_STEP_SKIPPED = 2,
};

/* Bits of OptireduceShmSubmission.verdict: what the ranks of the group have
 * come to about a step. */
enum {
  OPTIREDUCE_SHM_BELOW_FLOOR = 1,
  OPTIREDUCE_SHM_NON_FINITE = 2,
  OPTIREDUCE_SHM_HALT_ADVISED = 4,
};

/* OptireduceShmCompletion.status. Up to CANCELLED the values of
 * core::OpStatus. */
enum {
  OPTIREDUCE_SHM_COMPLETE = 0,
  OPTIREDUCE_SHM_PARTIAL = 1,
  OPTIREDUCE_SHM_HARD_LIMIT = 2,
  OPTIREDUCE_SHM_PEER_LOST = 3,
  OPTIREDUCE_SHM_MISMATCH = 4,
  OPTIREDUCE_SHM_EXPIRED = 5,
  OPTIREDUCE_SHM_CANCELLED = 6,
  /* The submission was refused: no op number was used, no buffer touched;
   * `refusal` says why. */
  OPTIREDUCE_SHM_REFUSED = 64,
};

/* OptireduceShmCompletion.cause: values of core::EndCause. */
enum {
  OPTIREDUCE_SHM_CAUSE_ALL_IN = 0,
  OPTIREDUCE_SHM_CAUSE_EARLY = 1,
  OPTIREDUCE_SHM_CAUSE_DEADLINE = 2,
  OPTIREDUCE_SHM_CAUSE_ERROR = 3,
};

/* OptireduceShmCompletion.refusal. */
enum {
  OPTIREDUCE_SHM_REFUSAL_NONE = 0,
  /* A field has no such value. */
  OPTIREDUCE_SHM_REFUSAL_COLLECTIVE = 1,
  OPTIREDUCE_SHM_REFUSAL_REDUCE_OP = 2,
  OPTIREDUCE_SHM_REFUSAL_DTYPE = 3,
  OPTIREDUCE_SHM_REFUSAL_MODE = 4,
  OPTIREDUCE_SHM_REFUSAL_CODEC = 5,
  /* A reserved field, or one that this kind does not use, is not zero. */
  OPTIREDUCE_SHM_REFUSAL_RESERVED = 6,
  /* The group. */
  OPTIREDUCE_SHM_REFUSAL_GROUP = 7,     /* not one of this session's */
  OPTIREDUCE_SHM_REFUSAL_NOT_READY = 8, /* not formed yet */
  OPTIREDUCE_SHM_REFUSAL_PEER_LOST = 9, /* a rank is gone: form it anew */
  OPTIREDUCE_SHM_REFUSAL_LEFT = 10,     /* this rank has left it */
  /* The op. */
  OPTIREDUCE_SHM_REFUSAL_UNSUPPORTED = 11, /* the fields do not go together */
  OPTIREDUCE_SHM_REFUSAL_ROOT = 12,
  OPTIREDUCE_SHM_REFUSAL_COUNT = 13,
  OPTIREDUCE_SHM_REFUSAL_LIMITS = 14,
  OPTIREDUCE_SHM_REFUSAL_TOO_LARGE = 15, /* for the group's memory budget */
  /* The buffers. `wanted` is the range named, `conflict` what it meets. */
  OPTIREDUCE_SHM_REFUSAL_INPUT_RANGE = 16,  /* conflict: the data area */
  OPTIREDUCE_SHM_REFUSAL_OUTPUT_RANGE = 17, /* conflict: the data area */
  /* Input and output overlap and are not in place: wanted is the output,
   * conflict the input. */
  OPTIREDUCE_SHM_REFUSAL_OVERLAP = 18,
  OPTIREDUCE_SHM_REFUSAL_IN_FLIGHT = 19, /* conflict: a buffer in flight */
  /* The daemon stops: what is in flight still ends, nothing new begins. */
  OPTIREDUCE_SHM_REFUSAL_SHUTDOWN = 20,
  OPTIREDUCE_SHM_REFUSAL_KIND = 21,
  OPTIREDUCE_SHM_REFUSAL_LOSS_SCALE = 22, /* not positive, finite and normal */
  OPTIREDUCE_SHM_REFUSAL_STEP = 23,       /* a close or verdict of step 0 */
  OPTIREDUCE_SHM_REFUSAL_OUTCOME = 24,
  /* OPTIREDUCE_SHM_MAX_STEP_OPS: close a step first. */
  OPTIREDUCE_SHM_REFUSAL_STEPS_OPEN = 25,
  /* The group's residuals and debts. */
  OPTIREDUCE_SHM_REFUSAL_NOT_QUIET = 26,  /* ops are open, or owed something */
  OPTIREDUCE_SHM_REFUSAL_STATE_ROOM = 27, /* `elements` bytes are needed */
  OPTIREDUCE_SHM_REFUSAL_STATE_DAMAGED = 28,
  OPTIREDUCE_SHM_REFUSAL_STATE_VERSION = 29,
  OPTIREDUCE_SHM_REFUSAL_STATE_GROUP = 30, /* of another world or rank */
  /* It does not fit the daemon's memory for it: all is zero now. */
  OPTIREDUCE_SHM_REFUSAL_STATE_MEMORY = 31,
  OPTIREDUCE_SHM_REFUSAL_VERDICT = 32, /* it has other bits */
};

/* What the segment is. Written by the daemon before it passes the segment;
 * only `state` and `state_reason` change later. */
typedef struct OptireduceShmHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t header_bytes;
  uint64_t segment_bytes;
  uint64_t session; /* the session's number, never used again */
  uint64_t submission_offset;
  uint32_t submission_slots;
  uint32_t submission_bytes; /* of an entry */
  uint64_t completion_offset;
  uint32_t completion_slots;
  uint32_t completion_bytes; /* of an entry */
  uint64_t data_offset;
  uint64_t data_bytes;
  uint64_t reserved0[6];

  /* Written by the daemon: reason first, then state (release). */
  uint32_t state;
  uint32_t state_reason;
  uint64_t reserved1[15];

  /* One line of 128 bytes per writer and purpose: no false sharing, also with
   * the adjacent-line prefetcher. */
  uint32_t submission_tail; /* written by the client */
  uint32_t reserved2[31];
  uint32_t submission_head; /* written by the daemon */
  uint32_t reserved3[31];
  uint32_t engine_sleeps; /* set by the daemon, cleared by both */
  uint32_t reserved4[31];

  uint32_t completion_tail; /* written by the daemon */
  uint32_t reserved5[31];
  uint32_t completion_head; /* written by the client */
  uint32_t reserved6[31];
  uint32_t client_sleeps; /* set by the client, cleared by both */
  uint32_t reserved7[31];

  uint8_t reserved8[3072];
} OptireduceShmHeader;

/* An op to do: all ranks of the group submit the same one, in the same order;
 * limits, loss scale and buffers are each rank's own. Or what is each rank's
 * own affair: a step to close, for all ops of that group and step that were
 * submitted before; the group's residuals and debts to be saved in `count`
 * bytes from output_offset, or loaded from input_offset; a verdict on a step,
 * for the daemon's telemetry alone. Fields that a kind does not use are zero.
 */
typedef struct OptireduceShmSubmission {
  uint64_t cookie; /* the client's; comes back in the completion */
  uint32_t group;  /* as the control socket named it */
  uint8_t kind;    /* OPTIREDUCE_SHM_OP, ... */
  uint8_t outcome; /* of a step that is closed; else 0 */
  uint16_t root;   /* broadcast; else 0 */
  uint64_t step;   /* 0: none */

  /* The op. */
  uint8_t collective; /* core::Collective */
  uint8_t reduce_op;  /* gradcodec::ReduceOp; SUM where nothing is reduced */
  uint8_t dtype;      /* gradcodec::Dtype; UINT8 for a barrier */
  uint8_t mode;       /* core::Mode */
  uint8_t codec;      /* core::Codec */
  uint8_t reserved0[3];
  uint32_t count; /* elements: see core::OpDescriptor.count */
  /* What the values were multiplied by; 1 if by nothing. Positive, finite and
   * normal. */
  float loss_scale;
  /* From the submit, in microseconds; 0: the group's. */
  uint32_t soft_limit_us;
  uint32_t hard_limit_us;
  uint64_t bucket; /* 0: one-shot */
  /* Offsets in the segment, inside the data area; any alignment. Without
   * overlap, or in place: equal, or the smaller buffer is the own rank's part
   * of the larger one. Ignored for a buffer of 0 bytes. */
  uint64_t input_offset;
  uint64_t output_offset;

  /* The verdict. */
  uint32_t verdict;     /* OPTIREDUCE_SHM_BELOW_FLOOR, ... */
  uint32_t bad_steps;   /* in a row, this one included */
  uint32_t present_ppm; /* the least share of a rank's results, in millionths */
  uint32_t divergence_ppb; /* of the replicas, in thousand millionths; 0: none,
                              or not known */
  uint64_t reserved1[5];
} OptireduceShmSubmission;

/* A range of the segment. */
typedef struct OptireduceShmRange {
  uint64_t offset;
  uint64_t bytes;
} OptireduceShmRange;

/* How a submission ended. Of an op: its full account (core::OpReport). Of
 * others: status COMPLETE and `closed_ops`, or `elements` for the bytes that
 * were saved or loaded; or a refusal. */
typedef struct OptireduceShmCompletion {
  uint64_t cookie;
  uint32_t group;
  uint32_t op_seq; /* 0 if refused, or no op */
  uint8_t status;
  uint8_t cause;
  uint8_t refusal;
  uint8_t kind; /* of the submission; as it came, if refused */
  uint16_t world;
  uint16_t min_contributors; /* least over the elements not absent */

  uint64_t elements;
  uint64_t absent;        /* elements whose reduced value did not arrive */
  uint64_t contributions; /* summed, added over the elements not absent */

  int64_t submitted_ns; /* when the engine took it */
  int64_t quorum_ns;    /* OPTIREDUCE_SHM_NEVER: there was none */
  int64_t deadline_ns;  /* the limit in force; OPTIREDUCE_SHM_NEVER: none */
  int64_t closed_ns;
  /* By how much it closed after its limit, or after its submit if that was
   * later; 0 if before. decision_late_ns leaves out the time for which the
   * engine had no CPU. */
  int64_t wall_late_ns;
  int64_t decision_late_ns;

  /* OPTIREDUCE_SHM_MISMATCH: a rank that submitted something else, and what. */
  uint16_t mismatch_rank;
  uint16_t mismatch_root;
  uint8_t mismatch_collective;
  uint8_t mismatch_reduce_op;
  uint8_t mismatch_dtype;
  uint8_t mismatch_mode;
  uint8_t mismatch_codec;
  uint8_t step_open; /* 1: the output is the daemon's until the step's close */
  uint8_t reserved0[2];
  uint32_t closed_ops; /* step close: ops whose step was open until then */
  uint64_t mismatch_count;
  uint64_t mismatch_bucket;
  uint64_t mismatch_step;

  /* Refusals about buffers. */
  OptireduceShmRange wanted;
  OptireduceShmRange conflict;

  /* Bit r % 64 of word r / 64: rank r was late or silent, or is an owner whose
   * result lacks. */
  uint64_t missing[OPTIREDUCE_SHM_MAX_WORLD / 64];
  /* Of the op, as submitted. */
  uint64_t bucket;
  uint64_t step;
  /* Packets of contributions and results that came only when sent again. */
  uint64_t repaired;
} OptireduceShmCompletion;

#define OPTIREDUCE_SHM_AT(type, field, offset)     \
  static_assert(offsetof(type, field) == (offset), \
                #type "." #field " moved: a new ABI version is due")

static_assert(sizeof(OptireduceShmHeader) == OPTIREDUCE_SHM_HEADER_BYTES,
              "header size");
OPTIREDUCE_SHM_AT(OptireduceShmHeader, magic, 0);
OPTIREDUCE_SHM_AT(OptireduceShmHeader, version, 8);
OPTIREDUCE_SHM_AT(OptireduceShmHeader, header_bytes, 12);
OPTIREDUCE_SHM_AT(OptireduceShmHeader, segment_bytes, 16);
OPTIREDUCE_SHM_AT(OptireduceShmHeader, session, 24);
OPTIREDUCE_SHM_AT(OptireduceShmHeader, submission_offset, 32);
OPTIREDUCE_SHM_AT(OptireduceShmHeader, submission_slots, 40);
OPTIREDUCE_SHM_AT(OptireduceShmHeader, submission_bytes, 44);
OPTIREDUCE_SHM_AT(OptireduceShmHeader, completion_offset, 48);
OPTIREDUCE_SHM_AT(OptireduceShmHeader, completion_slots, 56);
OPTIREDUCE_SHM_AT(OptireduceShmHeader, completion_bytes, 60);
OPTIREDUCE_SHM_AT(OptireduceShmHeader, data_offset, 64);
OPTIREDUCE_SHM_AT(OptireduceShmHeader, data_bytes, 72);
OPTIREDUCE_SHM_AT(OptireduceShmHeader, state, 128);
OPTIREDUCE_SHM_AT(OptireduceShmHeader, state_reason, 132);
OPTIREDUCE_SHM_AT(OptireduceShmHeader, submission_tail, 256);
OPTIREDUCE_SHM_AT(OptireduceShmHeader, submission_head, 384);
OPTIREDUCE_SHM_AT(OptireduceShmHeader, engine_sleeps, 512);
OPTIREDUCE_SHM_AT(OptireduceShmHeader, completion_tail, 640);
OPTIREDUCE_SHM_AT(OptireduceShmHeader, completion_head, 768);
OPTIREDUCE_SHM_AT(OptireduceShmHeader, client_sleeps, 896);

static_assert(sizeof(OptireduceShmSubmission) ==
                  OPTIREDUCE_SHM_SUBMISSION_BYTES,
              "submission size");
OPTIREDUCE_SHM_AT(OptireduceShmSubmission, cookie, 0);
OPTIREDUCE_SHM_AT(OptireduceShmSubmission, group, 8);
OPTIREDUCE_SHM_AT(OptireduceShmSubmission, kind, 12);
OPTIREDUCE_SHM_AT(OptireduceShmSubmission, outcome, 13);
OPTIREDUCE_SHM_AT(OptireduceShmSubmission, root, 14);
OPTIREDUCE_SHM_AT(OptireduceShmSubmission, step, 16);
OPTIREDUCE_SHM_AT(OptireduceShmSubmission, collective, 24);
OPTIREDUCE_SHM_AT(OptireduceShmSubmission, reduce_op, 25);
OPTIREDUCE_SHM_AT(OptireduceShmSubmission, dtype, 26);
OPTIREDUCE_SHM_AT(OptireduceShmSubmission, mode, 27);
OPTIREDUCE_SHM_AT(OptireduceShmSubmission, codec, 28);
OPTIREDUCE_SHM_AT(OptireduceShmSubmission, reserved0, 29);
OPTIREDUCE_SHM_AT(OptireduceShmSubmission, count, 32);
OPTIREDUCE_SHM_AT(OptireduceShmSubmission, loss_scale, 36);
OPTIREDUCE_SHM_AT(OptireduceShmSubmission, soft_limit_us, 40);
OPTIREDUCE_SHM_AT(OptireduceShmSubmission, hard_limit_us, 44);
OPTIREDUCE_SHM_AT(OptireduceShmSubmission, bucket, 48);
OPTIREDUCE_SHM_AT(OptireduceShmSubmission, input_offset, 56);
OPTIREDUCE_SHM_AT(OptireduceShmSubmission, output_offset, 64);
OPTIREDUCE_SHM_AT(OptireduceShmSubmission, verdict, 72);
OPTIREDUCE_SHM_AT(OptireduceShmSubmission, bad_steps, 76);
OPTIREDUCE_SHM_AT(OptireduceShmSubmission, present_ppm, 80);
OPTIREDUCE_SHM_AT(OptireduceShmSubmission, divergence_ppb, 84);
OPTIREDUCE_SHM_AT(OptireduceShmSubmission, reserved1, 88);

static_assert(sizeof(OptireduceShmCompletion) ==
                  OPTIREDUCE_SHM_COMPLETION_BYTES,
              "completion size");
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, cookie, 0);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, group, 8);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, op_seq, 12);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, status, 16);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, cause, 17);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, refusal, 18);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, kind, 19);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, world, 20);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, min_contributors, 22);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, elements, 24);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, absent, 32);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, contributions, 40);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, submitted_ns, 48);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, quorum_ns, 56);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, deadline_ns, 64);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, closed_ns, 72);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, wall_late_ns, 80);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, decision_late_ns, 88);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, mismatch_rank, 96);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, mismatch_root, 98);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, mismatch_collective, 100);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, mismatch_reduce_op, 101);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, mismatch_dtype, 102);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, mismatch_mode, 103);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, mismatch_codec, 104);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, step_open, 105);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, reserved0, 106);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, closed_ops, 108);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, mismatch_count, 112);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, mismatch_bucket, 120);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, mismatch_step, 128);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, wanted, 136);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, conflict, 152);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, missing, 168);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, bucket, 296);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, step, 304);
OPTIREDUCE_SHM_AT(OptireduceShmCompletion, repaired, 312);

#undef OPTIREDUCE_SHM_AT

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* OPTIREDUCE_PROTO_SHM_ABI_H_ */
