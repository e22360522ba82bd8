// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <vector>

#include "tests/support/warnings.h"
#include "tests/unit/graph/graph_fixture.h"

// A host device warns of a copy of captured results that no replay has computed.

namespace reprise::graphs::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class UnwrittenReads : public ::testing::Test {
 protected:
  void SetUp() override {
    if (default_device().type() != DeviceType::host) GTEST_SKIP() << "new memory of CUDA devices has any value";
  }
  Buffer<int> capture_result() {
    Buffer<int> result;
    capture(graph_, [&] {
      result = Buffer<int>(100);
      multiply(x_, 2, result);
    });
    return result;
  }

  Buffer<int> x_ = zeros(100);
  CUDAGraph graph_;
  const reprise::test::Warnings warnings_;
};

TEST_F(UnwrittenReads, OfAResultBeforeTheFirstReplayAreAWarning) {
  const Buffer<int> result = capture_result();
  static_cast<void>(result.read());
  ASSERT_THAT(warnings_.texts(), SizeIs(1));
  EXPECT_THAT(warnings_.texts()[0], HasSubstr("A copy read 400 bytes at "));
  EXPECT_THAT(warnings_.texts()[0], HasSubstr("before anything wrote them"));
  graph_.replay();
  EXPECT_EQ(result.read(), std::vector<int>(100, 0));
  EXPECT_THAT(warnings_.texts(), SizeIs(1));
}

TEST_F(UnwrittenReads, AreNoneOfWhatWasWrittenOutsideOfReplays) {
  Buffer<int> result = capture_result();
  result.write(std::vector<int>(100, 3));
  EXPECT_EQ(result.read().front(), 3);
  EXPECT_THAT(warnings_.texts(), IsEmpty());
}

TEST_F(UnwrittenReads, AreNoneOfAValueThatNewMemoryHappensToHave) {
  x_.fill_bytes_async(0xDB);
  Buffer<int> result;
  capture(graph_, [&] {
    result = Buffer<int>(100);
    multiply(x_, 1, result);
  });
  CUDAGraph parent;
  capture(parent, [&] { add_child(graph_); });
  parent.replay();
  EXPECT_EQ(result.read(), x_.read());
  EXPECT_THAT(warnings_.texts(), IsEmpty());
}

TEST_F(UnwrittenReads, AreNoneOfCapturedCopies) {
  const Buffer<int> result = capture_result();
  std::vector<int> values(100, static_cast<int>(0xDBDBDBDBu));
  CUDAGraph reader;
  capture(reader, [&] { result.read_async(values); });
  EXPECT_THAT(warnings_.texts(), IsEmpty());
}

}  // namespace
}  // namespace reprise::graphs::test
