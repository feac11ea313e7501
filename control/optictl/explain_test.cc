#include "control/optictl/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace optireduce::control {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Rank 0's view of an op of four ranks. Its host heard of it 2 ms before the
// submit; rank 3 began it 187 ms after the quorum; a packet of rank 2 came 5 ms
// after the first stage's close, and two more were sent again.
OpsReply PartialOp() {
  OpsReply ops;
  OpsReply::Op& op = *ops.add_ops();
  op.set_session(2);
  op.set_group(1);
  op.set_op_seq(17);
  op.set_bucket(4);
  op.set_step(9);
  op.set_status("partial");
  op.set_cause("all_in");
  op.set_world(4);
  op.set_elements(40'000);
  op.set_missing_fraction(0.25893);
  op.set_duration_us(60'500);
  op.add_missing(3);
  op.set_collective("all_reduce");
  op.set_mode("bounded");
  op.set_submitted_us(2'000);
  op.set_quorum_us(2'300);
  op.set_closed_us(62'500);
  OpsReply::Stage& one = *op.mutable_stage1();
  one.set_opened_us(2'100);
  one.set_closed_us(62'300);
  one.set_cause("bound");
  one.set_due(112);
  one.set_came(83);
  one.set_repaired(2);
  one.set_lacking_ranks(2);
  OpsReply::Lack& none = *one.add_lacking();
  none.set_rank(3);
  none.set_packets(28);
  OpsReply::Lack& last = *one.add_lacking();
  last.set_rank(2);
  last.set_begun(true);
  last.set_packets(1);
  last.set_late(1);
  last.set_last_late_us(67'300);
  OpsReply::Stage& two = *op.mutable_stage2();
  two.set_opened_us(2'900);
  two.set_closed_us(62'500);
  two.set_cause("all_in");
  two.set_due(112);
  two.set_came(112);
  for (const auto& [rank, at] : std::vector<std::pair<uint32_t, uint64_t>>{
           {3, 189'300}, {2, 2'300}, {0, 2'000}, {1, 0}}) {
    OpsReply::Opening& opening = *op.add_last_openings();
    opening.set_rank(rank);
    opening.set_at_us(at);
  }
  op.set_openings(4);
  op.mutable_owed();
  return ops;
}

TEST(ExplainTest, ATableHasALineForEachOp) {
  OpsReply ops = PartialOp();
  OpsReply::Op& refused = *ops.add_ops();
  refused.set_status("refused");
  refused.set_group(1);
  EXPECT_EQ(OpsTable(ops),
            "GROUP  OP  BUCKET  STEP  STATUS   TOOK     STAGE1                "
            "STAGE2          MISSING  LATE                         REPAIRED  "
            "RESIDUAL  DEBT  SAVED\n"
            "1      17  4       9     partial  60.5 ms  bound 60.3 ms 83/112  "
            "all_in 60.5 ms  25.9 %   3 +187.0 ms; 2 (1, +5.0 ms)  2         "
            "0         0     unknown\n"
            "1      0   -       -     refused  0 us     -                     "
            "-               -        -                            0         "
            "-         -     -\n");
}

TEST(ExplainTest, SentencesTellTheWholeStory) {
  EXPECT_EQ(
      ExplainOps(PartialOp()),
      "Op 17 of group 1: all_reduce, bounded, 40000 elements, bucket 4, step "
      "9, 4 ranks.\n"
      "It is partial, and took 60.5 ms: 25.9 % is missing, and 0 of the "
      "result's elements are absent. Late, silent or in part: rank 3.\n"
      "This host heard of it 2.0 ms before its trainer submitted it. A quorum "
      "of ranks had begun it 300 us after the submit, when rank 2 did.\n"
      "Rank 3 began it 187.0 ms after the quorum.\n"
      "Stage 1, contributions to its shard: the first packet was in 100 us "
      "after the submit. It closed 60.3 ms after the submit, at its bound: 83 "
      "of 112 packets. 2 of them came only when sent again.\n"
      "  Of rank 3, which was not known to have begun the op, 28 packets "
      "lacked: never came.\n"
      "  Of rank 2 1 packet lacked: the last came 5.0 ms after the close.\n"
      "Stage 2, results of all owners: the first packet was in 900 us after "
      "the submit. It closed 60.5 ms after the submit, with all in: 112 of 112 "
      "packets.\n"
      "Nothing of it became residual or debt.\n"
      "Time saved: unknown, as some packets never came.\n");
}

TEST(ExplainTest, TimeIsSavedOnlyIfTheRestCame) {
  OpsReply ops = PartialOp();
  OpsReply::Op& op = *ops.mutable_ops(0);
  op.set_saved_us(83'000);
  EXPECT_THAT(OpsTable(ops), HasSubstr("83.0 ms\n"));
  EXPECT_THAT(ExplainOps(ops), HasSubstr("Time saved: 83.0 ms, until"));
  op.set_saved_us(0);
  EXPECT_THAT(OpsTable(ops), HasSubstr("     0\n"));
  EXPECT_THAT(ExplainOps(ops), HasSubstr("Time saved: none"));
  op.set_status("hard_limit");
  EXPECT_THAT(OpsTable(ops), HasSubstr(" -\n"));
  EXPECT_THAT(ExplainOps(ops), Not(HasSubstr("Time saved")));
  EXPECT_THAT(ExplainOps(ops),
              HasSubstr("It failed after 60.5 ms: hard_limit."));
}

TEST(ExplainTest, EachReasonHasItsWords) {
  OpsReply ops = PartialOp();
  OpsReply::Stage& stage = *ops.mutable_ops(0)->mutable_stage2();
  for (const auto& [cause, words] :
       std::vector<std::pair<std::string, std::string>>{
           {"early", "early, when nothing more came: 112"},
           {"soft_limit", "at the trainer's soft limit: 112"},
           {"late_submit", "as its bound was over at the submit: 112"},
           {"error", "with the op's error: 112"}}) {
    stage.set_cause(cause);
    EXPECT_THAT(ExplainOps(ops), HasSubstr(words));
    EXPECT_THAT(OpsTable(ops), HasSubstr("  " + cause + " 60.5 ms  "));
  }
}

TEST(ExplainTest, WhatIsOwed) {
  OpsReply ops = PartialOp();
  OpsReply::Owed& owed = *ops.mutable_ops(0)->mutable_owed();
  owed.set_residual(356);
  owed.set_held(1);
  owed.set_in_place(2);
  owed.set_debt(712);
  owed.set_lacking(3);
  owed.set_forgiven_contributions(4);
  owed.set_forgiven_results(5);
  const std::string text = ExplainOps(ops);
  for (const char* sentence :
       {"356 elements of this rank's contribution not summed: residual",
        "1 element of its contribution held",
        "2 elements of the result put in place after the end",
        "712 elements of the result came too late for that: debt",
        "3 elements of the result still to come",
        "4 elements of its contribution given up",
        "5 elements of the result given up"}) {
    EXPECT_THAT(text, HasSubstr(sentence));
  }
  EXPECT_THAT(text, Not(HasSubstr("skipped")));
  EXPECT_THAT(OpsTable(ops), HasSubstr("356       712   unknown"));
  owed.set_skipped(true);
  EXPECT_THAT(ExplainOps(ops),
              HasSubstr("Its step was skipped: none of this is owed."));
}

TEST(ExplainTest, SomeOfWhatLackedMayCome) {
  OpsReply ops = PartialOp();
  OpsReply::Lack& lack =
      *ops.mutable_ops(0)->mutable_stage1()->mutable_lacking(1);
  lack.set_packets(6);
  EXPECT_THAT(OpsTable(ops), HasSubstr("2 (5, lost)"));
  EXPECT_THAT(ExplainOps(ops),
              HasSubstr("Of rank 2 6 packets lacked: 1 came, the last 5.0 ms "
                        "after the close."));
  lack.set_late(0);
  EXPECT_THAT(ExplainOps(ops), HasSubstr("6 packets lacked: never came."));
}

TEST(ExplainTest, OfManyRanksAFewAreNamed) {
  OpsReply ops = PartialOp();
  OpsReply::Stage& stage = *ops.mutable_ops(0)->mutable_stage1();
  stage.set_lacking_ranks(11);
  for (uint32_t rank = 10; rank < 14; ++rank) {
    stage.add_lacking()->set_rank(rank);
  }
  EXPECT_THAT(ExplainOps(ops), HasSubstr("  And 5 more ranks.\n"));
  EXPECT_THAT(OpsTable(ops), HasSubstr("10 (not begun); and 3 more"));
}

TEST(ExplainTest, WhatHasNotEnded) {
  OpsReply ops;
  OpsReply::Op& op = *ops.add_ops();
  op.set_status("in_flight");
  op.set_world(4);
  op.set_submitted_us(0);
  op.set_openings(2);
  op.mutable_stage1()->set_opened_us(10);
  op.mutable_stage2();
  std::string text = ExplainOps(ops);
  EXPECT_THAT(text,
              HasSubstr("It is in flight.\n2 of 4 ranks have begun it: no "
                        "quorum.\n"));
  EXPECT_THAT(text, HasSubstr("10 us after the submit. It is open.\n"));
  EXPECT_THAT(text, Not(HasSubstr("Stage 2")));
  EXPECT_THAT(text, Not(HasSubstr("Time saved")));
  EXPECT_THAT(OpsTable(ops), HasSubstr("in_flight  -     -       -       -"));
  op.set_status("not_submitted");
  op.clear_submitted_us();
  EXPECT_THAT(ExplainOps(ops), HasSubstr("its daemon serves the others"));
  EXPECT_THAT(ExplainOps(ops), HasSubstr("10 us after this host heard of it"));
}

TEST(ExplainTest, AForgottenOpIsWhatItsTraceTells) {
  OpsReply ops;
  OpsReply::Op& op = *ops.add_ops();
  op.set_status("complete");
  op.set_duration_us(2'340'000);
  op.set_wall_late_us(1'200);
  EXPECT_THAT(
      ExplainOps(ops),
      HasSubstr("It is complete, and took 2.34 s. It ended 1.2 ms after "
                "its limit.\nThe daemon remembers no more of it.\n"));
}

}  // namespace
}  // namespace optireduce::control
