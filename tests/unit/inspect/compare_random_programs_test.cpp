// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "tests/unit/inspect/compare_fixture.h"

// compare() of random programs and of mutants of them.

namespace reprise::inspect::test {
namespace {

/// A program of random kernels, copies and sets, each of which depends on what the ones before left in its memory.
class RandomProgram {
 public:
  RandomProgram(std::uint64_t seed, std::vector<Buffer<int>>& buffers) : buffers_(buffers) {
    std::mt19937_64 random(seed);
    for (std::size_t i = 0, count = 4 + random() % 8; i < count; ++i)
      steps_.push_back({static_cast<int>(random() % 3), random() % buffers.size(), random() % buffers.size()});
  }
  std::size_t size() const { return steps_.size(); }

  /// \param mutant the step that adds another number.
  /// \param input what step `reader` reads instead of a buffer.
  void run(std::size_t mutant, std::size_t reader, const Buffer<int>* input) const {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const Step& step = steps_[i];
      Buffer<int>& to = buffers_[step.to];
      if (i == reader)
        multiply(*input, 3, to);
      else if (i == mutant || step.kind == 0)
        add(to, static_cast<int>(i) + (i == mutant ? 100 : 1));
      else if (step.kind == 1)
        multiply(buffers_[step.from], 3, to);
      else
        copy_async(to.data(), buffers_[(step.to + 1) % buffers_.size()].data(), 8);
    }
  }

 private:
  struct Step {
    int kind;
    std::size_t from, to;
  };
  std::vector<Buffer<int>>& buffers_;
  std::vector<Step> steps_;
};

class CompareRandomPrograms : public CompareTest {
 protected:
  CompareRandomPrograms() {
    for (int i = 0; i < 3; ++i) {
      buffers_.emplace_back(4);
      buffers_.back().write(std::vector<int>{7 * i + 1, 7 * i + 2, 7 * i + 4, 7 * i + 5});
    }
  }
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  std::vector<Buffer<int>> buffers_;
};

TEST_F(CompareRandomPrograms, NameTheMutantWithAWrongParameter) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const RandomProgram program(seed, buffers_);
    const std::size_t mutant = seed % program.size();
    // The right one adds 100 there, and the wrong one 101.
    const auto body = [&] { program.run(mutant, none, nullptr); };
    graph_ = capture(body);
    EXPECT_TRUE(compare_now(body).same()) << "seed " << seed;
    graph_.nodes()[mutant].set_arg(1, static_cast<int>(mutant) + 101);
    const Comparison found = compare_now(body);
    ASSERT_TRUE(found.difference) << "seed " << seed;
    EXPECT_EQ(found.difference->kind, FirstDifferenceKind::result);
    EXPECT_EQ(found.difference->first->index, mutant);
    EXPECT_EQ(found.nodes, mutant);
  }
}

TEST_F(CompareRandomPrograms, NameTheMutantWithAStalePointer) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const RandomProgram program(seed, buffers_);
    const std::size_t mutant = seed % program.size();
    auto input = std::make_unique<Buffer<int>>(zeros(4));
    const auto body = [&] { program.run(none, mutant, input.get()); };
    graph_ = capture(body);
    auto next = std::make_unique<Buffer<int>>(zeros(4));
    if (seed % 2 == 0) {
      input = std::move(next);  // frees the one before
    } else {
      next->write(std::vector<int>{1, 1, 1, 1});
      input.swap(next);  // the graph reads what is out of date
    }
    const Comparison found = compare_now(body);
    ASSERT_TRUE(found.difference) << "seed " << seed;
    EXPECT_EQ(found.difference->kind, seed % 2 == 0 ? FirstDifferenceKind::stale_pointer : FirstDifferenceKind::result);
    EXPECT_EQ(found.difference->first->index, mutant);
  }
}

}  // namespace
}  // namespace reprise::inspect::test
