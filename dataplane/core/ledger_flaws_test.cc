// Flaws that earlier forms of the rules had, by the names and numbers that the
// rules' history gives them.

#include <optional>

#include "dataplane/core/ledger.h"
#include "dataplane/core/ledger_testing.h"
#include "gradcodec/residual.h"
#include "gtest/gtest.h"

namespace optireduce::core {
namespace {

using ledger_testing::Config;
using ledger_testing::Debt;
using ledger_testing::Floats;
using ledger_testing::kCount;
using ledger_testing::kWorld;
using ledger_testing::Residual;
using ledger_testing::Stored;
using ledger_testing::StoredIn;
using ledger_testing::TestOp;

// The owner froze without this rank; nothing that comes later flips that.
TEST(LedgerFlawTest, F3LateToOwnE) {
  Ledger ledger(Config());
  TestOp op(&ledger, 0, 3);
  op.Result(0, 2, 2, false, false);
  EXPECT_EQ(op.Result(0, 2, 2, false, true), Placed::kDuplicate);
  op.Complete();
  op.account->CloseUsed();
  op.Result(0, 2, 2, false, true);
  EXPECT_EQ(Residual(ledger, 0), 3);
}

// A holder's answer says nothing about this rank's contribution, unless c does.
TEST(LedgerFlawTest, F4HolderSettles) {
  Ledger ledger(Config());
  TestOp op(&ledger, 0, 3);
  op.Complete();
  op.account->CloseUsed();
  EXPECT_EQ(op.Result(0, 2, 2, false, std::nullopt), Placed::kDebt);
  EXPECT_EQ(op.Result(1, 2, kWorld, true, std::nullopt), Placed::kDebt);
  EXPECT_EQ(op.Result(2, 0, 0, false, std::nullopt), Placed::kDebt);
  EXPECT_TRUE(op.account->LacksBooking(0));
  EXPECT_FALSE(op.account->LacksResult(0));
  EXPECT_FALSE(op.account->LacksBooking(1));
  EXPECT_FALSE(op.account->LacksBooking(2));
  EXPECT_EQ(op.Result(0, 2, 2, false, true), Placed::kDuplicate);
  EXPECT_FALSE(op.account->LacksBooking(0));
  EXPECT_EQ(Residual(ledger, 0), 0) << "it was summed";
  EXPECT_EQ(Residual(ledger, 1), 0);
  EXPECT_EQ(Residual(ledger, 2), 3);
}

// The close takes effect here: nothing changes an output after it.
TEST(LedgerFlawTest, F5ReadAtPost) {
  Ledger ledger(Config());
  TestOp op(&ledger, 0, 3);
  op.Complete();
  EXPECT_EQ(op.Whole(0, 5), Placed::kOutput);
  op.account->CloseUsed();
  const Floats read = op.output;
  EXPECT_EQ(op.Whole(1, 5), Placed::kDebt);
  EXPECT_EQ(op.output, read);
  EXPECT_EQ(Debt(ledger, 0), 0);
  EXPECT_EQ(Debt(ledger, 1), 5);
}

// Bookings of a step wait for its close.
TEST(LedgerFlawTest, F6BookAtOnce) {
  Ledger ledger(Config());
  TestOp op(&ledger, 0, 3);
  op.Result(0, 2, 2, false, false);
  op.Complete();
  op.Result(1, 2, 2, false, false);
  EXPECT_EQ(StoredIn(ledger).residual, Floats(kCount));
  op.account->CloseSkipped();
  EXPECT_EQ(StoredIn(ledger).residual, Floats(kCount));
  op.Result(2, 2, 2, false, false);
  EXPECT_EQ(StoredIn(ledger).residual, Floats(kCount));
  EXPECT_TRUE(op.account->is_settled());
}

// A skipped step leaves residuals and debts as they were before it.
TEST(LedgerFlawTest, F6SkipDrops) {
  Ledger ledger(Config());
  TestOp first(&ledger, 0, 3);
  first.Result(0, 0, 0, false, false);
  first.Complete();
  first.account->CloseUsed();
  first.Whole(1, 7);
  const Stored before = StoredIn(ledger);
  EXPECT_EQ(before.residual[0], 3);
  EXPECT_EQ(before.debt[4], 7);

  TestOp second(&ledger, 1, 10);
  second.Result(0, 1, 2, false, false);
  second.Whole(1, 1);
  second.Complete();
  EXPECT_EQ(second.At(1), 8);
  second.Whole(2, 1);
  second.account->CloseSkipped();
  EXPECT_EQ(StoredIn(ledger).residual, before.residual);
  EXPECT_EQ(StoredIn(ledger).debt, before.debt);
  EXPECT_EQ(second.Whole(3, 1), Placed::kNowhere);
  EXPECT_TRUE(second.account->is_settled());
  EXPECT_EQ(StoredIn(ledger).debt, before.debt);
  second.account->CloseUsed();  // by the next submit: too late
  EXPECT_EQ(StoredIn(ledger).residual, before.residual);
}

// The same for a rank whose op ended in an error, and for one that is told
// before its op ends.
TEST(LedgerFlawTest, F6SkipAfterAnErrorAndBeforeTheEnd) {
  for (bool fails : {false, true}) {
    for (bool early : {false, true}) {
      Ledger ledger(Config());
      TestOp first(&ledger, 0, 3);
      first.Result(0, 0, 0, false, false);
      first.Complete();
      first.account->CloseUsed();
      first.Whole(1, 7);
      const Stored before = StoredIn(ledger);
      TestOp second(&ledger, 1, 10);
      second.Result(0, 2, 2, false, false);
      second.Whole(1, 1);
      if (early) second.account->CloseSkipped();
      if (fails) {
        second.Fail();
        second.Whole(2, 1);
      } else {
        second.Complete();
      }
      if (!early) second.account->CloseSkipped();
      EXPECT_EQ(StoredIn(ledger).residual, before.residual);
      EXPECT_EQ(StoredIn(ledger).debt, before.debt);
      EXPECT_TRUE(second.account->is_settled());
    }
  }
}

// The hard limit ends the wait and nothing else.
TEST(LedgerFlawTest, F7ErrorDrops) {
  Ledger ledger(Config());
  TestOp debtor(&ledger, 0, 0);
  debtor.WholeFrom(1, 0);
  debtor.Complete();
  debtor.account->CloseUsed();
  debtor.Whole(0, 9);

  TestOp op(&ledger, 1, 3);
  op.Whole(0, 5);
  op.Fail();
  op.input.assign(kCount, 55);
  op.output.assign(kCount, 55);
  EXPECT_EQ(op.Sent(1), 3) << "peers may still sum it";
  EXPECT_EQ(op.Result(1, 5, 2, false, false), Placed::kDebt);
  EXPECT_EQ(Debt(ledger, 0), 9) << "an error takes no debt";
  EXPECT_EQ(Debt(ledger, 1), 0) << "the step may still be skipped";
  op.account->CloseUsed();
  EXPECT_EQ(Debt(ledger, 0), 14);
  EXPECT_EQ(Debt(ledger, 1), 5);
  EXPECT_EQ(Residual(ledger, 1), 3);
  EXPECT_EQ(op.Result(2, 5, 2, false, true), Placed::kDebt);
  EXPECT_EQ(Debt(ledger, 2), 5);
  EXPECT_FALSE(op.account->is_settled());
  op.Whole(3, 5);
  EXPECT_TRUE(op.account->is_settled());
}

// Until it is decided what the dead owner's results are, v is held.
TEST(LedgerFlawTest, F8DeadToResidual) {
  Ledger ledger(Config());
  TestOp op(&ledger, 0, 3);
  op.Complete();
  op.account->CloseUsed();
  EXPECT_EQ(Residual(ledger, 0), 0);
  EXPECT_TRUE(op.account->LacksBooking(0));
  // Decided: a survivor holds chunk 0, nobody chunk 1.
  op.account->OwnerGone(op.Info(0));
  EXPECT_TRUE(op.account->LacksBooking(0)) << "the holder's c may tell";
  op.Result(0, 2, 2, false, std::nullopt);
  EXPECT_FALSE(op.account->LacksBooking(0));
  EXPECT_EQ(Residual(ledger, 0), 0) << "forgiven: it may have been summed";
  EXPECT_EQ(ledger.forgiven(ForgivenFor::kOwnerGone),
            (Forgiven{.contributions = 4, .results = 0}));
  op.Result(1, 0, 0, false, false);
  EXPECT_EQ(Residual(ledger, 1), 3) << "void: it returns whole";
  // Chunk 2: the holder's result has everybody in it.
  op.account->OwnerGone(op.Info(2));
  op.Result(2, 2, kWorld, true, std::nullopt);
  EXPECT_EQ(ledger.forgiven(ForgivenFor::kOwnerGone).contributions, 4u);
}

// With a removed rank in the group nothing is imputed.
TEST(LedgerFlawTest, F9ImputeRemoved) {
  EXPECT_TRUE(gradcodec::IsImputed(3, kWorld, false));
  EXPECT_FALSE(gradcodec::IsImputed(3, kWorld, true));
  Ledger ledger(Config());
  TestOp op(&ledger, 0, 3);
  op.Result(0, 2, 3, false, false);
  op.Complete();
  op.account->CloseUsed();
  EXPECT_EQ(Residual(ledger, 0), 3);
}

// A reliable op has no bound: what it lacks can be asked for before its end.
TEST(LedgerFlawTest, F10HolderAfterClose) {
  Ledger ledger(Config());
  TestOp op(&ledger, 0, 0);
  op.WholeFrom(1, 1);
  EXPECT_FALSE(op.account->has_all_results());
  EXPECT_EQ(op.account->FindLacking(0), 0u);
  op.account->OwnerGone(op.Info(0));
  EXPECT_EQ(op.Result(0, 2, 2, false, std::nullopt), Placed::kOutput);
  EXPECT_TRUE(op.account->has_all_results());
  EXPECT_EQ(op.account->FindLacking(0), op.plan.chunk_limit());
}

// When nobody has it, it is forgiven, and the op comes to an end (F16 too: two
// that lack it learn from each other that they do).
TEST(LedgerFlawTest, F12NoGone) {
  Ledger ledger(Config());
  TestOp op(&ledger, 0, 3);
  op.WholeFrom(1, 1);
  op.account->NoHolder(op.Info(0));
  EXPECT_TRUE(op.account->has_all_results()) << "it counts as present: zero";
  EXPECT_EQ(op.Whole(0, 5), Placed::kNowhere) << "forgiven is forgiven";
  op.Complete();
  EXPECT_EQ(op.At(0), 0);
  op.account->CloseUsed();
  EXPECT_TRUE(op.account->is_settled());
  EXPECT_EQ(ledger.forgiven(ForgivenFor::kNoHolder),
            (Forgiven{.contributions = 0, .results = 4}));
  EXPECT_EQ(ledger.forgiven(ForgivenFor::kOwnerGone),
            (Forgiven{.contributions = 4, .results = 0}));
}

}  // namespace
}  // namespace optireduce::core
