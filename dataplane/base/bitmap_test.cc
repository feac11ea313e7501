#include "dataplane/base/bitmap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dataplane/base/rng.h"

namespace optireduce {
namespace {

static_assert(BitmapView::WordsFor(0) == 0);
static_assert(BitmapView::WordsFor(1) == 1);
static_assert(BitmapView::WordsFor(64) == 1);
static_assert(BitmapView::WordsFor(65) == 2);
static_assert(BitmapView::WordsFor(SIZE_MAX) == SIZE_MAX / 64 + 1);

// Words whose bits are all set, and a view of `bits` of them, cleared.
struct Bitmap {
  explicit Bitmap(size_t bits)
      : words(BitmapView::WordsFor(bits), ~uint64_t{0}), view(words, bits) {
    for (size_t bit = 0; bit < bits; ++bit) view.Clear(bit);
  }
  std::vector<uint64_t> words;
  BitmapView view;
};

size_t Find(const std::vector<bool>& bits, size_t from, bool value) {
  size_t bit = from;
  while (bit < bits.size() && bits[bit] != value) ++bit;
  return std::min(bit, bits.size());
}

void ExpectSame(const BitmapView& view, const std::vector<bool>& model) {
  ASSERT_EQ(view.size(), model.size());
  size_t count = 0;
  for (size_t bit = 0; bit < model.size(); ++bit) {
    ASSERT_EQ(view.Test(bit), model[bit]) << bit;
    count += model[bit] ? 1 : 0;
  }
  ASSERT_EQ(view.Count(), count);
  for (size_t from = 0; from < model.size(); ++from) {
    ASSERT_EQ(view.FindFirstSet(from), Find(model, from, true)) << from;
    ASSERT_EQ(view.FindFirstClear(from), Find(model, from, false)) << from;
  }
}

TEST(BitmapTest, EmptyHasNothing) {
  BitmapView view;
  EXPECT_EQ(view.size(), 0u);
  EXPECT_EQ(view.Count(), 0u);
  EXPECT_EQ(view.FindFirstSet(), 0u);
  EXPECT_EQ(view.FindFirstClear(), 0u);
  view.ClearAll();
  view.SetRange(0, 0);
}

TEST(BitmapTest, BitsPastTheEndDoNotCount) {
  for (size_t bits = 1; bits <= 200; ++bits) {
    Bitmap bitmap(bits);  // the rest of the last word is all ones
    EXPECT_EQ(bitmap.view.Count(), 0u) << bits;
    EXPECT_EQ(bitmap.view.FindFirstSet(), bits);
    bitmap.view.SetRange(0, bits);
    EXPECT_EQ(bitmap.view.Count(), bits);
    EXPECT_EQ(bitmap.view.FindFirstClear(), bits);
    bitmap.view.ClearAll();  // and now all zeros
    bitmap.view.SetRange(0, bits);
    EXPECT_EQ(bitmap.view.FindFirstClear(), bits);
  }
}

TEST(BitmapTest, NothingIsFoundPastTheEnd) {
  for (size_t bits = 1; bits < 64; ++bits) {
    for (const uint64_t garbage : {0xAAAAAAAAAAAAAAAAu, 0x5555555555555555u}) {
      uint64_t word = garbage;
      BitmapView view({&word, 1}, bits);
      for (size_t bit = 0; bit < bits; ++bit) view.Clear(bit);
      EXPECT_EQ(view.FindFirstSet(), bits);
      view.SetRange(0, bits);
      EXPECT_EQ(view.FindFirstClear(), bits);
      EXPECT_EQ(word >> bits, garbage >> bits) << "not ours to change";
    }
  }
}

TEST(BitmapTest, FindFromTheEndOrBeyondIsTheEnd) {
  Bitmap bitmap(70);
  EXPECT_EQ(bitmap.view.FindFirstClear(70), 70u);
  EXPECT_EQ(bitmap.view.FindFirstClear(1000), 70u);
  EXPECT_EQ(bitmap.view.FindFirstSet(SIZE_MAX), 70u);
}

TEST(BitmapTest, TestAndSetIsTrueTheSecondTime) {
  Bitmap bitmap(130);
  for (const size_t bit : {0, 63, 64, 127, 128, 129}) {
    EXPECT_FALSE(bitmap.view.TestAndSet(bit)) << bit;
    EXPECT_TRUE(bitmap.view.TestAndSet(bit)) << bit;
    bitmap.view.Clear(bit);
    EXPECT_FALSE(bitmap.view.TestAndSet(bit)) << bit;
  }
  EXPECT_EQ(bitmap.view.Count(), 6u);
}

TEST(BitmapTest, EveryRange) {
  constexpr size_t kBits = 135;
  for (size_t begin = 0; begin <= kBits; ++begin) {
    for (size_t end = begin; end <= kBits; ++end) {
      Bitmap bitmap(kBits);
      bitmap.view.SetRange(begin, end);
      ASSERT_EQ(bitmap.view.Count(), end - begin);
      if (begin == end) continue;
      ASSERT_EQ(bitmap.view.FindFirstSet(), begin);
      ASSERT_EQ(bitmap.view.FindFirstClear(begin), end);
    }
  }
}

TEST(BitmapTest, AgreesWithAVectorOfBool) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const size_t bits = 1 + rng.Below(300);
    Bitmap bitmap(bits);
    std::vector<bool> model(bits);
    for (int step = 0; step < 100; ++step) {
      const size_t bit = rng.Below(bits);
      switch (rng.Below(5)) {
        case 0:
          bitmap.view.Set(bit);
          model[bit] = true;
          break;
        case 1:
          bitmap.view.Clear(bit);
          model[bit] = false;
          break;
        case 2:
          ASSERT_EQ(bitmap.view.TestAndSet(bit), model[bit]);
          model[bit] = true;
          break;
        case 3: {
          const size_t end = bit + rng.Below(bits - bit + 1);
          bitmap.view.SetRange(bit, end);
          for (size_t i = bit; i < end; ++i) model[i] = true;
          break;
        }
        case 4:
          if (!rng.Chance(0.1)) break;
          bitmap.view.ClearAll();
          model.assign(bits, false);
          break;
      }
    }
    ASSERT_NO_FATAL_FAILURE(ExpectSame(bitmap.view, model));
  }
}

}  // namespace
}  // namespace optireduce
