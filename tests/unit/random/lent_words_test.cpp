// SPDX-License-Identifier: Apache-2.0
#include "random/lent_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "captures/registry.h"
#include "reprise/stream.h"

// What captures that are underway at once know of the words that they draw from.

namespace reprise::random::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LentWordsTest : public ::testing::Test {
 protected:
  using Registration = captures::Registration;

  static std::uintptr_t address(const std::uint64_t& word) { return reinterpret_cast<std::uintptr_t>(&word); }

  const GraphOptions relaxed_{.capture_error_mode = CaptureMode::relaxed};
  Stream first_, second_;
  std::uint64_t word_ = 0;
};

TEST_F(LentWordsTest, AreKnownToACaptureThatIsUnderway) {
  const Registration first(first_, relaxed_, {}), second(second_, relaxed_, {});
  const auto lender = LentWords::open(first.capture()), other = LentWords::open(second.capture());
  EXPECT_THAT(other->of_others(), IsEmpty());
  lender->lend(&word_);
  EXPECT_THAT(other->of_others(), ElementsAre(address(word_)));
}

TEST_F(LentWordsTest, AreKnownToACaptureThatBeginsLater) {
  const Registration first(first_, relaxed_, {});
  const auto lender = LentWords::open(first.capture());
  lender->lend(&word_);
  const Registration second(second_, relaxed_, {});
  EXPECT_THAT(LentWords::open(second.capture())->of_others(), ElementsAre(address(word_)));
}

TEST_F(LentWordsTest, AreNotOfOthersInTheCaptureThatLentThem) {
  const Registration first(first_, relaxed_, {});
  const auto lender = LentWords::open(first.capture());
  lender->lend(&word_);
  EXPECT_THAT(lender->of_others(), IsEmpty());
}

TEST_F(LentWordsTest, AreUnknownToACaptureThatBeginsAfterTheirOwn) {
  {
    const Registration first(first_, relaxed_, {});
    LentWords::open(first.capture())->lend(&word_);
  }
  const Registration second(second_, relaxed_, {});
  EXPECT_THAT(LentWords::open(second.capture())->of_others(), IsEmpty());
}

TEST_F(LentWordsTest, OfNoCaptureInTheRegistryAreAddedByHand) {
  const Registration first(first_, relaxed_, {});
  const auto words = LentWords::open(first.capture());
  words->add_foreign(address(word_));
  words->add_foreign(0);
  EXPECT_THAT(words->of_others(), ElementsAre(address(word_)));
}

}  // namespace
}  // namespace reprise::random::test
