/* liboptireduce: the trainer's side of an optireduced daemon.
 *
 * A process connects to the daemon of its host (a session), allocates buffers
 * in the memory that the two share, joins groups with the processes of other
 * hosts, and submits collectives on those buffers. A collective ends on time:
 * by its soft limit with what has arrived (bounded mode), or with everything,
 * or an error that names the missing ranks, by its hard limit.
 *
 *   or_connect -> or_allocate
 *              -> or_group_create -> or_submit -> or_wait -> or_group_leave
 *              -> or_close
 *
 * Gradients of a training step: each buffer under a bucket's key and the step's
 * number; or_step_close comes between the last or_wait and the optimizer. What
 * ranks must decide alike, whether a step is to be skipped, they learn from its
 * verdict.
 *
 * Rules that hold for every call
 *  - Errors: a call returns OR_OK or another or_status. Negative ones are
 *    errors; or_last_error() then has a sentence for people, kept per thread
 *    until the thread's next failing call. Output arguments are written only
 *    where the call says so.
 *  - Time: spans are int64_t nanoseconds on CLOCK_MONOTONIC. No call blocks
 *    longer than the limit it is given (plus scheduling), whether or not the
 *    daemon is alive. Calls without a limit do not block.
 *  - Threads: every call may be made from any thread; calls on one session
 *    exclude each other for a moment, but not while they wait. The library
 *    starts no thread. or_close must be the last call on its session.
 *  - Fork: a session belongs to the process that opened it. In a forked child
 *    every call on it returns OR_ERR_FORKED, except or_close, which frees the
 *    child's copy and leaves the parent's alone.
 *  - The process is left as it was: no signal handler, affinity, umask, limit
 *    or working directory is touched, no signal is raised (SIGPIPE included),
 *    descriptors are close-on-exec. Nothing throws or aborts.
 *  - Versions: a struct with `struct_size` is set up by its *_init call, with
 *    sizeof(it): fields that a later header appends keep their defaults when an
 *    older program runs with a newer library, and the other way round.
 */

#ifndef OPTIREDUCE_CLIENT_OPTIREDUCE_H_
#define OPTIREDUCE_CLIENT_OPTIREDUCE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- version ------------------------------------------------------------ */

#define OR_VERSION_MAJOR 0
#define OR_VERSION_MINOR 1
#define OR_VERSION_PATCH 0

/* The library's version, major * 1000000 + minor * 1000 + patch. */
uint32_t or_version(void);

/* ---- status ------------------------------------------------------------- */

/* Values never change their meaning; new ones are appended. */
typedef enum or_status {
  OR_OK = 0,
  /* Not an error: an operation ended in time with something missing. */
  OR_PARTIAL = 1,
  /* Not an error: nothing to report yet. */
  OR_PENDING = 2,

  OR_ERR_ARGUMENT = -1,    /* the call is wrong as it stands */
  OR_ERR_UNREACHABLE = -2, /* no daemon answered within the limit */
  OR_ERR_DAEMON_LOST = -3, /* it died, or no longer answers; session over */
  OR_ERR_REFUSED = -4,     /* the daemon said no; the text has its reason */
  OR_ERR_VERSION = -5,     /* library and daemon do not understand each other */
  OR_ERR_TIMEOUT = -6,     /* the call's limit passed; nothing has changed */
  OR_ERR_HARD_LIMIT = -7,  /* the operation's hard limit passed */
  OR_ERR_PEER_LOST = -8,   /* a rank died or left; the group is over */
  OR_ERR_MISMATCH = -9,    /* ranks submitted different operations */
  OR_ERR_EXPIRED = -10,    /* submitted late, or others gave it up */
  OR_ERR_CANCELLED = -11,  /* the group was left meanwhile */
  OR_ERR_NO_MEMORY = -12,  /* segment, quota or process is out of memory */
  OR_ERR_BUSY = -13,       /* buffer in flight, or too many operations */
  OR_ERR_FORKED = -14,     /* the session belongs to the parent process */
  OR_ERR_UNSUPPORTED = -15, /* this dtype, op, mode, codec do not go together */
  OR_ERR_CLOSED = -16,      /* the session was disconnected, the group left */
  OR_ERR_SYSTEM = -17,      /* a system call failed; the text has errno */
  OR_ERR_FORMATION = -18    /* the group did not form; the text names ranks */
} or_status;

/* "ok", "partial", "daemon lost", ...; never NULL. Static storage. */
const char* or_status_name(int status);

/* Why this thread's last failing call failed; "" if none did. Valid until the
 * thread's next call into the library; never NULL. */
const char* or_last_error(void);

/* ---- spans of time ------------------------------------------------------ */

#define OR_MICROSECONDS(n) ((n)*INT64_C(1000))
#define OR_MILLISECONDS(n) ((n)*INT64_C(1000000))
#define OR_SECONDS(n) ((n)*INT64_C(1000000000))

/* ---- session ------------------------------------------------------------ */

/* One connection to the daemon with one segment of shared memory. */
typedef struct or_session or_session;

typedef struct or_connect_options {
  size_t struct_size;
  /* The daemon's control socket. NULL: $OPTIREDUCE_SOCKET, or else
   * /run/optireduce/control.sock. */
  const char* socket_path;
  /* Shown by optictl. NULL: the process's name. */
  const char* client_name;
  /* Room for buffers. 0: the daemon's default (64 MiB). Memory is used when it
   * is touched, but a daemon without enough for all of it refuses. */
  uint64_t segment_bytes;
  /* No daemon yet? It is tried again, ever more rarely, until this limit. */
  int64_t limit_ns;
} or_connect_options;

/* Defaults: a limit of 5 s, the rest 0. `struct_size` is sizeof(*options). */
void or_connect_options_init(or_connect_options* options, size_t struct_size);

/* Connects; `options` may be NULL for the defaults. On OR_OK *session is the
 * caller's, to be closed with or_close; else it is NULL. */
int or_connect(const or_connect_options* options, or_session** session);

/* Ends the connection: operations in flight end as OR_ERR_CLOSED, groups are
 * left. Buffers stay readable and writable until or_close, but are of no more
 * use to others. Doing it twice is not an error. Does not block. */
int or_disconnect(or_session* session);

/* Disconnects and frees everything: buffers of the session must no longer be
 * touched. Sets *session to NULL; NULL is not an error. Does not block. */
int or_close(or_session** session);

/* ---- buffers ------------------------------------------------------------ */

/* `bytes` of shared memory, aligned to 64 bytes, filled with zeros at first
 * use and else with what was there. The session owns the memory; *buffer is
 * valid until or_free or or_close. 0 bytes give a valid address. */
int or_allocate(or_session* session, size_t bytes, void** buffer);

/* Gives a buffer back. OR_ERR_BUSY while an operation uses it, or it holds the
 * output of one whose step is open. NULL is not an error. Also works after
 * or_disconnect. */
int or_free(or_session* session, void* buffer);

/* ---- groups ------------------------------------------------------------- */

/* A group of ranks 0..world-1. The number is unique in its session and never
 * used again. */
typedef uint64_t or_group;

#define OR_MAX_WORLD 1024

/* What a chunk of the result counts as that did not arrive in time. */
typedef enum or_fill {
  OR_FILL_DEFAULT = 0,
  OR_FILL_ZERO = 1,
  OR_FILL_OWN = 2 /* the rank's own input (SUM: world times it) */
} or_fill;

/* 0 stands for the daemon's default. All ranks must end up with the same world,
 * name and settings, but for those called local. */
typedef struct or_group_settings {
  size_t struct_size;
  /* At most 48 bytes. NULL: none. */
  const char* name;
  uint32_t rank;
  uint32_t world; /* 1..OR_MAX_WORLD */
  /* Bounded mode: what is missing this long after most ranks began is left
   * out. If neither this nor stage1_limit_ns is set, the daemon may learn it
   * from the operations before, up to its default. */
  int64_t soft_limit_ns;
  /* The same for the first half of an all-reduce; at most soft_limit_ns. */
  int64_t stage1_limit_ns;
  /* Silence that ends an operation early once the ends of all streams came.
   * By default a tenth of soft_limit_ns. */
  int64_t early_wait_ns;
  /* From the submit: the operation fails, with the ranks that are missing. */
  int64_t hard_limit_ns;
  /* Share of the ranks that must have begun before the soft limit runs. */
  uint32_t quorum_permille;
  /* Operations in progress, 1..256; further ones wait for their turn. */
  uint32_t window;
  int32_t fill;                 /* or_fill */
  uint32_t mtu;                 /* bytes of an IP packet, at most the port's */
  uint64_t memory_budget_bytes; /* at the daemon, for operations in progress */
  /* Local. A silent rank is sent for after heartbeat_ns, no longer waited for
   * after suspect_after_ns, lost after dead_after_ns. */
  int64_t heartbeat_ns;
  int64_t suspect_after_ns;
  int64_t dead_after_ns;
  /* Local: how long or_group_create may take. Half of it is for the exchange,
   * half (also of or_group_form) for the ranks to hear each other. */
  int64_t formation_limit_ns;
  /* Of steps (or_verdict). The least share of any rank's results with which a
   * step is good, 0 to 1; 0: any. Where ranks differ the greatest counts. */
  double min_fraction;
  /* A halt is advised after so many bad steps in a row; 0: 20. Where ranks
   * differ the least counts. */
  uint32_t halt_after;
  /* At the daemon, for what buckets owe (see below). When it is full, the
   * oldest of what was lost is given up, and counted. */
  uint64_t owed_budget_bytes;
} or_group_settings;

/* Defaults: 10 s for the formation, the rest 0. */
void or_group_settings_init(or_group_settings* settings, size_t struct_size);

/* What the other ranks must know of this one: opaque, position-independent,
 * printable by nobody. */
#define OR_MEMBER_BYTES 256
typedef struct or_member {
  uint32_t size; /* bytes of data that are used */
  uint8_t data[OR_MEMBER_BYTES];
} or_member;

/* Formation, step 1 of 2: registers this rank at its daemon. On OR_OK *group
 * and *member are set; *member goes to all other ranks, by whatever the trainer
 * has (MPI, a torch Store, a file). Waits at most `limit_ns` for the daemon. */
int or_group_prepare(or_session* session, const or_group_settings* settings,
                     int64_t limit_ns, or_group* group, or_member* member);

/* Step 2 of 2: `members` are the members of all `world` ranks, by rank, this
 * one's included. Returns when all ranks have answered each other at full
 * packet size, or OR_ERR_FORMATION (the text names ranks and reasons) or
 * OR_ERR_TIMEOUT; after an error the group is gone. */
int or_group_form(or_session* session, or_group group, const or_member* members,
                  int64_t limit_ns);

/* Hands `own` to all ranks and returns when all_members[0..world) are there.
 * Must not take longer than limit_ns. Returns OR_OK or an error, which
 * or_group_create hands on. */
typedef int (*or_exchange)(void* context, uint32_t rank, uint32_t world,
                           const or_member* own, or_member* all_members,
                           int64_t limit_ns);

/* Both steps with an exchange between them, within
 * settings->formation_limit_ns. On OR_OK *group is set. */
int or_group_create(or_session* session, const or_group_settings* settings,
                    or_exchange exchange, void* context, or_group* group);

/* An or_exchange through files in a directory that all ranks see (local, or on
 * NFS and the like). What earlier runs left there, even if killed, does no
 * harm, and the same name may be used again at once. Two groups that form at
 * the same time need different names. */
typedef struct or_rendezvous {
  const char* directory; /* is created if its parent exists */
  const char* name;      /* of the group; any bytes, at most 48 */
} or_rendezvous;
/* Both steps with the directory between them. */
int or_group_create_in_directory(or_session* session,
                                 const or_group_settings* settings,
                                 const or_rendezvous* rendezvous,
                                 or_group* group);

/* Operations in flight end as OR_ERR_CANCELLED; what the other ranks still need
 * of this one is served by the daemon. Leaving twice is not an error. Waits at
 * most `limit_ns` for the daemon; on OR_ERR_TIMEOUT it will still do it. */
int or_group_leave(or_session* session, or_group group, int64_t limit_ns);

typedef enum or_event_kind {
  OR_EVENT_PEER_SUSPECT = 1, /* `rank` is silent */
  OR_EVENT_PEER_HEALTHY = 2, /* `rank` is heard again */
  OR_EVENT_PEER_LOST = 3     /* `rank` died or left: no further operations */
} or_event_kind;

typedef struct or_event {
  size_t struct_size;
  int32_t kind; /* or_event_kind */
  uint32_t rank;
} or_event;

/* The group's next event. OR_OK: *event is filled in (set event->struct_size
 * before). OR_PENDING: there is none. */
int or_group_next_event(or_session* session, or_group group, or_event* event);

/* ---- operations --------------------------------------------------------- */

/* The numbers of the enumerations below are those of the wire. */
typedef enum or_collective {
  OR_ALL_REDUCE = 1,
  OR_REDUCE_SCATTER = 2,
  OR_ALL_GATHER = 3,
  OR_BROADCAST = 4,
  OR_BARRIER = 5
} or_collective;

typedef enum or_reduce_op {
  OR_SUM = 1,
  OR_AVG = 2, /* floating types only */
  OR_MIN = 3, /* exact mode only */
  OR_MAX = 4  /* exact mode only */
} or_reduce_op;

typedef enum or_dtype {
  OR_FLOAT32 = 1,
  OR_FLOAT16 = 2,
  OR_BFLOAT16 = 3,
  OR_FLOAT64 = 4,
  OR_INT8 = 5,
  OR_UINT8 = 6,
  OR_INT16 = 7,
  OR_UINT16 = 8,
  OR_INT32 = 9,
  OR_UINT32 = 10,
  OR_INT64 = 11,
  OR_UINT64 = 12
} or_dtype;

typedef enum or_mode {
  /* All-reduce and reduce-scatter, floating SUM and AVG: ends by the soft
   * limit. */
  OR_BOUNDED = 1,
  OR_EXACT = 2 /* complete and bit-identical on all ranks, or an error */
} or_mode;

/* How values travel, in bounded all-reduces. */
typedef enum or_codec {
  OR_CODEC_NONE = 0,
  OR_CODEC_HADAMARD = 1, /* spreads what is missing */
  /* float32 only: rounded to half as many bytes on the way to the owners, and
   * on the way back. With a bucket, what the rounding takes comes with later
   * operations. */
  OR_CODEC_BFLOAT16 = 2,
  OR_CODEC_FLOAT16 = 3 /* finer, but no more than 65504 at a time */
} or_codec;

/* One operation. All ranks submit the same ones in the same order; only the
 * buffers, the two limits and the loss scale are a rank's own affair. */
typedef struct or_operation {
  size_t struct_size;
  int32_t collective; /* or_collective */
  int32_t reduce_op;  /* or_reduce_op; all-reduce and reduce-scatter */
  int32_t dtype;      /* or_dtype */
  int32_t mode;       /* or_mode */
  int32_t codec;      /* or_codec */
  uint32_t root;      /* broadcast: the rank whose input all receive */
  /* Elements, 0..2^32-1: of the buffer (all-reduce, broadcast), of the whole
   * input (reduce-scatter) or the whole output (all-gather); the last two are
   * multiples of the world. */
  uint64_t count;
  /* In memory from or_allocate (any address inside, any alignment).
   * Reduce-scatter writes count/world elements, all-gather reads as many;
   * broadcast reads its input at the root only, and either may be NULL there.
   * Without overlap, or in place: equal; reduce-scatter and all-gather: the
   * smaller is this rank's part of the larger. NULL where there are 0 bytes. */
  const void* input;
  void* output;
  /* The key of a gradient bucket. 0: none, the operation is a one-shot one, and
   * what it loses is lost. What a bounded all-reduce or reduce-scatter with a
   * bucket loses (of at most 32 bits, without the Hadamard codec) comes with
   * later ones of that bucket, which always has the same count, dtype and
   * reduction. */
  uint64_t bucket;
  /* The training step, for or_step_close. 0: none, the operation is closed at
   * its end. */
  uint64_t step;
  /* From the submit; 0: the group's. */
  int64_t soft_limit_ns;
  int64_t hard_limit_ns;
  /* What the gradients were multiplied by, so that what is kept of them fits
   * later ones with another scale. Positive; 0: they were not, as by 1. */
  float loss_scale;
} or_operation;

/* Defaults: all-reduce, AVG, float32, bounded, no codec, loss scale 1, the rest
 * 0. */
void or_operation_init(or_operation* operation, size_t struct_size);

/* A submitted operation. Unique in its session, never used again. */
typedef uint64_t or_op;

/* Starts an operation. On OR_OK *op is set and the buffers are the daemon's
 * until or_wait or or_poll has reported the end of it; the output for longer if
 * that report says step_open. OR_ERR_BUSY: the buffer is in flight or holds the
 * output of an open step (the text names both ranges), or as many operations as
 * fit are; try again after one has ended, or a step is closed. Does not
 * block. */
int or_submit(or_session* session, or_group group,
              const or_operation* operation, or_op* op);

/* Why an operation ended when it did. */
typedef enum or_cause {
  OR_CAUSE_ALL_IN = 0,
  OR_CAUSE_EARLY = 1,    /* nearly all in, then silence */
  OR_CAUSE_DEADLINE = 2, /* a soft limit */
  OR_CAUSE_ERROR = 3
} or_cause;

/* A time that was not reached. */
#define OR_NEVER INT64_MAX

/* The full account of one operation at this rank. Shares are of its elements
 * (under a codec of its coefficients). */
typedef struct or_report {
  size_t struct_size;
  int32_t status;  /* or_status: OR_OK, OR_PARTIAL or an error */
  int32_t cause;   /* or_cause */
  uint32_t op_seq; /* its number in the group, the same on all ranks */
  uint32_t world;
  uint64_t elements;
  /* Elements whose reduced value did not arrive here: they are 0 (or what the
   * fill policy says). */
  uint64_t absent;
  /* Contributions summed, added up over the other elements; world for each
   * when nothing was lost. */
  uint64_t contributions;
  uint32_t min_contributors; /* over the elements that are not absent */
  uint32_t missing_count;    /* bits that are set in `missing` */
  /* Bit r % 64 of word r / 64: rank r was late or silent, or part of the
   * result that it owns did not come. */
  uint64_t missing[OR_MAX_WORLD / 64];
  double stage1_loss;      /* share of contributions that were not summed */
  double stage2_loss;      /* share of elements that are absent */
  double missing_fraction; /* 1 - (1 - stage1_loss) * (1 - stage2_loss) */
  /* From the submit. OR_NEVER: there was none. */
  int64_t quorum_ns;
  /* The limit that was in force. Negative: it was over before the submit. */
  int64_t deadline_ns;
  int64_t duration_ns; /* until the daemon closed the operation */
  /* How long after its deadline, or its submit if that was later, the operation
   * was closed (0: before it): by the clock, and not counting time in which the
   * engine had no processor. */
  int64_t wall_late_ns;
  int64_t decision_late_ns;
  /* OR_ERR_MISMATCH: the other rank. */
  uint32_t mismatch_rank;
  /* 1: the step is open. Results that come late are still put in place, so the
   * output is the daemon's until or_step_close or or_group_leave. */
  uint32_t step_open;
  /* Packets of contributions and results that were lost on their first way and
   * came in time when sent again. */
  uint64_t repaired;
} or_report;

/* Has it ended? OR_PENDING if not. Else as or_wait. */
int or_poll(or_session* session, or_op op, or_report* report);

/* Waits until the operation has ended, at most `limit_ns` (negative: as long
 * as it takes, which the operation's hard limit bounds).
 *
 * Returns how it ended: OR_OK, OR_PARTIAL or an error, and fills in *report
 * (NULL: not wanted; set report->struct_size before). The op is then forgotten:
 * asking again is OR_ERR_ARGUMENT. OR_ERR_TIMEOUT means that it goes on: wait
 * again.
 *
 * A daemon that died, or that does not end the operation by its hard limit, is
 * OR_ERR_DAEMON_LOST: the session is over; close it and connect again. What is
 * in the buffers of operations in flight is then unspecified. */
int or_wait(or_session* session, or_op op, int64_t limit_ns, or_report* report);

/* ---- steps -------------------------------------------------------------- */

/* What becomes of the results of a step: the same on all ranks. */
typedef enum or_step_outcome {
  OR_STEP_USED = 1,
  /* They are thrown away (an overflow under a loss scale, say): what is owed is
   * as if the step had never been. */
  OR_STEP_SKIPPED = 2
} or_step_outcome;

/* Closes a step: of all operations with that number that this rank has
 * submitted to the group and not closed yet. Until then late results are put in
 * place; from then on they come with later operations. So a trainer waits for
 * the step's operations, closes it, and reads its gradients only after OR_OK:
 * then the outputs are its own again. On OR_OK *closed (NULL: not wanted) is
 * the number of operations that it was closed for; of none is not an error.
 *
 * Submitting to a bucket closes what was open of it before, as used; its output
 * stays the daemon's all the same. An operation in flight goes on, and is
 * closed at its end. 1024 operations of a session may be open at once.
 *
 * Waits at most `limit_ns` for the daemon; on OR_ERR_TIMEOUT it will still do
 * it, and another call waits for that. */
int or_step_close(or_session* session, or_group group, uint64_t step,
                  int32_t outcome, int64_t limit_ns, uint64_t* closed);

/* ---- verdicts on steps -------------------------------------------------- */

/* Operations end on time and alone: how one has ended at this rank the others
 * do not know. What all ranks must do alike (skip a step, lower a loss scale,
 * halt) they decide by the step's verdict: one small exact operation, in which
 * each rank tells the others what its operations of the step have come to, and
 * after which all know the same. It is complete or an error, at the latest by
 * the group's hard limit. After an error a rank does not know what the others
 * know: form the group anew and broadcast the parameters before going on.
 *
 *   or_wait for the step's operations
 *   or_verdict_submit, or_verdict_wait
 *   or_step_close, as skipped if bad_steps is not 0
 *
 * Who wants only to know, and skips nothing, closes the step first, submits the
 * verdict after that, and asks for it one step later: then nobody waits for it.
 * But all ranks take part, so a rank that is late holds the others when they
 * ask, and once their window is full. */

/* A short summary of the parameters by which verdicts tell how far replicas are
 * apart. All zero to begin with. */
#define OR_SKETCH_SUMS 16
typedef struct or_sketch {
  uint64_t elements; /* added so far, each call's rounded up to 16 */
  double sums[OR_SKETCH_SUMS];
} or_sketch;

/* Adds `count` elements of a floating dtype, in any memory. All ranks add the
 * same tensors in the same order. Reads them once; needs no daemon. */
int or_sketch_add(or_sketch* sketch, int32_t dtype, const void* values,
                  uint64_t count);

/* The same on all ranks. */
typedef struct or_verdict {
  size_t struct_size;
  uint64_t step;
  uint32_t world;
  /* So many steps were bad in a row, this one included; 0: it is a good one. A
   * step is bad if below_floor is 1 or non_finite_count not 0. */
  uint32_t bad_steps;
  uint32_t below_floor;  /* 1: least_present is under min_fraction */
  uint32_t halt_advised; /* 1: bad_steps has come to halt_after */
  /* The settings in force. */
  double min_fraction;
  uint32_t halt_after;
  /* The rank that had the least of an operation's results, and its share: 1 -
   * missing_fraction of the report, 0 if it ended in an error. What came
   * after the operation's end is not in it. */
  uint32_t least_present_rank;
  double least_present;
  /* Elements that were absent from outputs, of all ranks. */
  uint64_t absent;
  /* Ranks whose outputs lack elements that others may have: bit r % 64 of word
   * r / 64. */
  uint64_t lacking[OR_MAX_WORLD / 64];
  /* Ranks that had NaN or an infinity in the input of an all-reduce or
   * reduce-scatter, whether or not it has come to anybody. */
  uint64_t non_finite[OR_MAX_WORLD / 64];
  uint32_t lacking_count;
  uint32_t non_finite_count;
  /* By sketches, if all ranks have given one: the greatest distance of a rank's
   * parameters from the mean of all, as a share of the length of that, right
   * within a factor of about 1.5; infinite if a rank's are not finite.
   * Otherwise negative. */
  double divergence;
  uint32_t divergent_rank;
  uint32_t reserved;
} or_verdict;

/* Starts the verdict on a step whose operations have all ended, at the same
 * place among operations on all ranks. `sketch` may be NULL. On OR_OK *op is
 * set, for or_verdict_wait alone. Of a group there is one at a time:
 * OR_ERR_BUSY until the verdict before has been read, or while an operation of
 * the step is in flight. OR_ERR_ARGUMENT if none of the step has ended; the
 * last 16 steps are remembered. Does not block. */
int or_verdict_submit(or_session* session, or_group group, uint64_t step,
                      const or_sketch* sketch, or_op* op);

/* Waits until it is there, at most `limit_ns` (0: not at all; negative: as long
 * as it takes, which the group's hard limit bounds), and fills in *verdict (set
 * verdict->struct_size before). OR_ERR_TIMEOUT: it goes on, ask again. With any
 * other return the op is forgotten, and on errors *verdict is left alone. */
int or_verdict_wait(or_session* session, or_op op, int64_t limit_ns,
                    or_verdict* verdict);

/* ---- saved state -------------------------------------------------------- */

/* What a group's buckets lost and have not got back yet (its residuals and
 * debts), for a checkpoint: opaque bytes, to be loaded by the same rank of a
 * group of the same world, before its first operation. They belong to the
 * parameters and the optimizer's state of the same moment, on all ranks.
 *
 * Both calls start an operation of this rank alone, which or_wait or or_poll
 * ends; its report has the number of bytes in `elements`. The memory is from
 * or_allocate, and the daemon's until then. Do not block. */

/* Ends as OR_ERR_BUSY while operations with a bucket are not closed, or wait
 * for what they lost: let them end, close their steps, and save again a little
 * later. As OR_ERR_NO_MEMORY if `capacity` is not enough: `elements` is. */
int or_state_save(or_session* session, or_group group, void* state,
                  uint64_t capacity, or_op* op);

/* Replaces what there is. Ends as OR_ERR_ARGUMENT if the bytes are damaged, or
 * of another rank or world, OR_ERR_VERSION if another version wrote them: then
 * nothing has changed. As OR_ERR_NO_MEMORY if they do not fit the daemon's
 * memory: then nothing is owed any more. OR_ERR_BUSY as above. */
int or_state_load(or_session* session, or_group group, const void* state,
                  uint64_t bytes, or_op* op);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* OPTIREDUCE_CLIENT_OPTIREDUCE_H_ */
