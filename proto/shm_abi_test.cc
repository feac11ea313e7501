// Golden bytes of ring entries, written by hand from proto/shm_abi.h. If one of
// these has to change, so has OPTIREDUCE_SHM_VERSION.

#include "proto/shm_abi.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

namespace {

static_assert(OPTIREDUCE_SHM_VERSION == 4);

// Lines of 16 bytes up to the last one that is not all zero.
template <class T>
std::string Hex(const T& entry) {
  uint8_t bytes[sizeof(T)];
  memcpy(bytes, &entry, sizeof(T));
  size_t end = sizeof(T);
  while (end > 0 && bytes[end - 1] == 0) --end;
  std::string text;
  for (size_t i = 0; i < (end + 15) / 16 * 16; ++i) {
    char digits[4];
    snprintf(digits, sizeof(digits), "%02x%c", bytes[i],
             i % 16 == 15 ? '\n' : ' ');
    text += digits;
  }
  return text;
}

TEST(ShmAbiTest, Op) {
  OptireduceShmSubmission op{};
  op.cookie = 0x0102030405060708;
  op.group = 0x11121314;
  op.kind = OPTIREDUCE_SHM_OP;
  op.root = 0x2122;
  op.step = 0x3132333435363738;
  op.collective = 0x41;
  op.reduce_op = 0x42;
  op.dtype = 0x43;
  op.mode = 0x44;
  op.codec = 0x45;
  op.count = 0x51525354;
  op.loss_scale = 1024;
  op.soft_limit_us = 0x61626364;
  op.hard_limit_us = 0x71727374;
  op.bucket = 0x8182838485868788;
  op.input_offset = 0x9192939495969798;
  op.output_offset = 0xa1a2a3a4a5a6a7a8;
  EXPECT_EQ(Hex(op),
            "08 07 06 05 04 03 02 01 14 13 12 11 01 00 22 21\n"
            "38 37 36 35 34 33 32 31 41 42 43 44 45 00 00 00\n"
            "54 53 52 51 00 00 80 44 64 63 62 61 74 73 72 71\n"
            "88 87 86 85 84 83 82 81 98 97 96 95 94 93 92 91\n"
            "a8 a7 a6 a5 a4 a3 a2 a1 00 00 00 00 00 00 00 00\n");
}

TEST(ShmAbiTest, StepClose) {
  OptireduceShmSubmission close{};
  close.cookie = 1;
  close.group = 2;
  close.kind = OPTIREDUCE_SHM_STEP_CLOSE;
  close.outcome = OPTIREDUCE_SHM_STEP_SKIPPED;
  close.step = 3;
  EXPECT_EQ(Hex(close),
            "01 00 00 00 00 00 00 00 02 00 00 00 02 02 00 00\n"
            "03 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n");
}

TEST(ShmAbiTest, StateLoad) {
  OptireduceShmSubmission load{};
  load.cookie = 1;
  load.group = 2;
  load.kind = OPTIREDUCE_SHM_STATE_LOAD;
  load.count = 0x01020304;
  load.input_offset = 5;
  EXPECT_EQ(Hex(load),
            "01 00 00 00 00 00 00 00 02 00 00 00 04 00 00 00\n"
            "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
            "04 03 02 01 00 00 00 00 00 00 00 00 00 00 00 00\n"
            "00 00 00 00 00 00 00 00 05 00 00 00 00 00 00 00\n");
}

TEST(ShmAbiTest, Verdict) {
  OptireduceShmSubmission verdict{};
  verdict.cookie = 1;
  verdict.group = 2;
  verdict.kind = OPTIREDUCE_SHM_VERDICT;
  verdict.step = 3;
  verdict.verdict = OPTIREDUCE_SHM_BELOW_FLOOR | OPTIREDUCE_SHM_HALT_ADVISED;
  verdict.bad_steps = 0x01020304;
  verdict.present_ppm = 0x11121314;
  verdict.divergence_ppb = 0x21222324;
  EXPECT_EQ(Hex(verdict),
            "01 00 00 00 00 00 00 00 02 00 00 00 07 00 00 00\n"
            "03 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
            "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
            "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
            "00 00 00 00 00 00 00 00 05 00 00 00 04 03 02 01\n"
            "14 13 12 11 24 23 22 21 00 00 00 00 00 00 00 00\n");
}

TEST(ShmAbiTest, CompletionOfAnOp) {
  OptireduceShmCompletion entry{};
  entry.cookie = 0x0102030405060708;
  entry.group = 0x11121314;
  entry.op_seq = 0x21222324;
  entry.status = OPTIREDUCE_SHM_PARTIAL;
  entry.cause = OPTIREDUCE_SHM_CAUSE_DEADLINE;
  entry.kind = OPTIREDUCE_SHM_OP;
  entry.world = 0x3132;
  entry.min_contributors = 0x4142;
  entry.elements = 0x51;
  entry.absent = 0x52;
  entry.contributions = 0x53;
  entry.submitted_ns = 0x54;
  entry.quorum_ns = OPTIREDUCE_SHM_NEVER;
  entry.deadline_ns = 0x55;
  entry.closed_ns = 0x56;
  entry.wall_late_ns = 0x57;
  entry.decision_late_ns = 0x58;
  entry.mismatch_rank = 0x6162;
  entry.mismatch_root = 0x6364;
  entry.mismatch_collective = 0x65;
  entry.mismatch_reduce_op = 0x66;
  entry.mismatch_dtype = 0x67;
  entry.mismatch_mode = 0x68;
  entry.mismatch_codec = 0x69;
  entry.step_open = 1;
  entry.mismatch_count = 0x71;
  entry.mismatch_bucket = 0x72;
  entry.mismatch_step = 0x73;
  entry.wanted = {0x81, 0x82};
  entry.conflict = {0x83, 0x84};
  entry.missing[0] = 0x9192;
  entry.bucket = 0xa1;
  entry.step = 0xa2;
  entry.repaired = 0xa3;
  EXPECT_EQ(Hex(entry),
            "08 07 06 05 04 03 02 01 14 13 12 11 24 23 22 21\n"
            "01 02 00 01 32 31 42 41 51 00 00 00 00 00 00 00\n"
            "52 00 00 00 00 00 00 00 53 00 00 00 00 00 00 00\n"
            "54 00 00 00 00 00 00 00 ff ff ff ff ff ff ff 7f\n"
            "55 00 00 00 00 00 00 00 56 00 00 00 00 00 00 00\n"
            "57 00 00 00 00 00 00 00 58 00 00 00 00 00 00 00\n"
            "62 61 64 63 65 66 67 68 69 01 00 00 00 00 00 00\n"
            "71 00 00 00 00 00 00 00 72 00 00 00 00 00 00 00\n"
            "73 00 00 00 00 00 00 00 81 00 00 00 00 00 00 00\n"
            "82 00 00 00 00 00 00 00 83 00 00 00 00 00 00 00\n"
            "84 00 00 00 00 00 00 00 92 91 00 00 00 00 00 00\n"
            "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
            "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
            "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
            "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
            "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
            "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
            "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
            "00 00 00 00 00 00 00 00 a1 00 00 00 00 00 00 00\n"
            "a2 00 00 00 00 00 00 00 a3 00 00 00 00 00 00 00\n");
}

TEST(ShmAbiTest, CompletionOfAStepClose) {
  OptireduceShmCompletion entry{};
  entry.cookie = 1;
  entry.group = 2;
  entry.kind = OPTIREDUCE_SHM_STEP_CLOSE;
  entry.closed_ops = 0x01020304;
  EXPECT_EQ(Hex(entry),
            "01 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00\n"
            "00 00 00 02 00 00 00 00 00 00 00 00 00 00 00 00\n"
            "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
            "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
            "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
            "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
            "00 00 00 00 00 00 00 00 00 00 00 00 04 03 02 01\n");
}

}  // namespace
