// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <optional>

#include "tests/support/faulty_backend.h"
#include "tests/unit/graph/graph_fixture.h"

// Misuse of compare().

namespace reprise::graphs::test {
namespace {

class CompareMisuse : public ::testing::Test {
 protected:
  CompareMisuse() {
    graph_.emplace(capture([&] { add(x_); }));
  }
  std::string refusal(CaptureBody body, const std::optional<StreamRef>& stream = {}) {
    return text_of<UsageError>([&] { (void)compare(*graph_, body, stream); });
  }
  void expect_usable() {
    EXPECT_TRUE(compare(*graph_, [&] { add(x_); }).same());
    graph_->replay();
    EXPECT_EQ(first(x_), 1);
  }

  const SideStream side_;
  Buffer<int> x_ = zeros();
  std::optional<CUDAGraph> graph_;
};

TEST_F(CompareMisuse, AnEmptyBodyIsRefused) {
  EXPECT_TRUE(
      contains(refusal(nullptr), "expected the body that the graph was captured from; found an empty function"));
  EXPECT_TRUE(contains(refusal(std::function<void()>()), "found an empty function"));
  expect_usable();
}

TEST_F(CompareMisuse, ABodyThatCapturesNothingIsRefused) {
  EXPECT_THROW((void)compare(*graph_, [] {}), EmptyCaptureError);
  expect_usable();
}

TEST_F(CompareMisuse, AStreamOfAnotherDeviceIsRefused) {
  // Devices live until the process ends.
  static auto& backend = *new backend::test::FaultyBackend(default_device().backend());
  const Stream there{Device(backend)};
  EXPECT_TRUE(contains(refusal([&] { add(x_); }, there.ref()), "compare: expected a stream of"));
  expect_usable();
}

TEST_F(CompareMisuse, WhileACaptureIsUnderwayItIsRefusedAndTheCaptureGoesOn) {
  CUDAGraph other = capture([&] {
    EXPECT_TRUE(contains(refusal([&] { add(x_); }), "might break the capture underway"));
    add(x_, 5);
  });
  other.replay();
  EXPECT_EQ(first(x_), 5);
}

TEST_F(CompareMisuse, AGraphWithoutATemplateIsRefused) {
  graph_.emplace(capture({.discard_template = true}, [&] { add(x_); }));
  EXPECT_TRUE(contains(refusal([&] { add(x_); }), "compare needs the template graph"));
}

TEST_F(CompareMisuse, ABodyThatDestroysOrResetsTheGraphIsAnError) {
  EXPECT_TRUE(contains(refusal([&] {
                         add(x_);
                         graph_->reset();
                       }),
                       "compare"));
  graph_.emplace(capture([&] { add(x_); }));
  EXPECT_TRUE(contains(refusal([&] {
                         add(x_);
                         graph_.reset();
                       }),
                       "compare"));
}

TEST_F(CompareMisuse, ABodyThatComparesTheGraphIsRefused) {
  std::string found;
  const auto body = [&] { add(x_); };
  EXPECT_TRUE(compare(*graph_, [&] {
                body();
                found = refusal(body);
              }).same());
  EXPECT_TRUE(contains(found, "underway"));
  expect_usable();
}

}  // namespace
}  // namespace reprise::graphs::test
