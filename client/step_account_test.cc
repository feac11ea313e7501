#include "client/step_account.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "proto/shm_abi.h"

namespace optireduce::client {
namespace {

constexpr uint64_t kStep = 5;

// An all-reduce of 100 elements at 4 ranks that has ended with all of it.
Op Ended() {
  Op op;
  op.operation.collective = OR_ALL_REDUCE;
  op.operation.count = 100;
  op.operation.step = kStep;
  op.status = OR_OK;
  op.answered = true;
  op.completion.status = OPTIREDUCE_SHM_COMPLETE;
  op.completion.world = 4;
  op.completion.elements = 100;
  op.completion.contributions = 400;
  return op;
}

Op Partial(uint64_t absent, uint64_t contributions) {
  Op op = Ended();
  op.status = OR_PARTIAL;
  op.completion.status = OPTIREDUCE_SHM_PARTIAL;
  op.completion.absent = absent;
  op.completion.contributions = contributions;
  return op;
}

StepAccount AccountOf(const std::vector<Op>& ops) {
  StepAccounts accounts;
  for (const Op& op : ops) accounts.Note(op);
  const StepAccount* account = accounts.Find(kStep);
  EXPECT_NE(account, nullptr);
  return account == nullptr ? StepAccount() : *account;
}

TEST(StepAccountTest, TheOperationWithTheLeastCounts) {
  // Half of the elements absent; of the others three of four contributions.
  const StepAccount account =
      AccountOf({Ended(), Partial(50, 150), Partial(0, 300), Ended()});
  EXPECT_EQ(account.present, 0.375);
  EXPECT_EQ(account.absent, 50u);
  EXPECT_FALSE(account.non_finite);
  EXPECT_EQ(AccountOf({Ended()}).present, 1);
  EXPECT_EQ(AccountOf({Partial(10, 360), Partial(5, 380)}).absent, 15u);
}

TEST(StepAccountTest, AnErrorHasBroughtNothing) {
  Op failed = Ended();
  failed.status = OR_ERR_EXPIRED;
  failed.completion.status = OPTIREDUCE_SHM_EXPIRED;
  const StepAccount account = AccountOf({Ended(), failed});
  EXPECT_EQ(account.present, 0);
  EXPECT_EQ(account.absent, 100u);
}

TEST(StepAccountTest, NothingLacksOfNothing) {
  Op empty = Ended();
  empty.operation.count = empty.completion.elements = 0;
  empty.completion.contributions = 0;
  EXPECT_EQ(AccountOf({empty}).present, 1);
}

TEST(StepAccountTest, OneInputThatIsNotFiniteIsEnough) {
  Op other = Ended();
  other.non_finite = true;
  EXPECT_TRUE(AccountOf({Ended(), other, Ended()}).non_finite);
}

TEST(StepAccountTest, OnlyReductionsOfAStepCount) {
  StepAccounts accounts;
  Op op = Ended();
  op.operation.step = 0;
  accounts.Note(op);
  for (const int collective : {OR_ALL_GATHER, OR_BROADCAST, OR_BARRIER}) {
    op = Ended();
    op.operation.collective = collective;
    accounts.Note(op);
  }
  op = Ended();
  op.status = OR_ERR_BUSY;
  op.completion.status = OPTIREDUCE_SHM_REFUSED;
  accounts.Note(op);
  op = Ended();
  op.kind = OpKind::kVerdict;
  accounts.Note(op);
  EXPECT_EQ(accounts.Find(kStep), nullptr);
  EXPECT_EQ(accounts.Find(0), nullptr);
  op = Ended();
  op.operation.collective = OR_REDUCE_SCATTER;
  accounts.Note(op);
  EXPECT_NE(accounts.Find(kStep), nullptr);
}

TEST(StepAccountTest, TheLastStepsAreKept) {
  StepAccounts accounts;
  Op op = Ended();
  // Also if numbers begin anew.
  for (const uint64_t start : {1000, 1}) {
    for (uint64_t i = 0; i <= StepAccounts::kMaxSteps; ++i) {
      op.operation.step = start + i;
      accounts.Note(op);
      accounts.Note(op);
    }
    EXPECT_EQ(accounts.Find(start), nullptr);
    for (uint64_t i = 1; i <= StepAccounts::kMaxSteps; ++i) {
      EXPECT_NE(accounts.Find(start + i), nullptr);
    }
  }
  accounts.Forget(3);
  EXPECT_EQ(accounts.Find(3), nullptr);
  EXPECT_NE(accounts.Find(4), nullptr);
}

}  // namespace
}  // namespace optireduce::client
