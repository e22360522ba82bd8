// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <thread>
#include <variant>
#include <vector>

#include "tests/support/faulty_backend.h"
#include "tests/support/sanitizer.h"
#include "tests/support/warnings.h"
#include "tests/unit/inspect/liveness_fixture.h"

// Memory of the host that copies of a graph use at each replay.

namespace reprise::graphs::test {
namespace {

using reprise::test::Warnings;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

class HostCopies : public ::testing::Test {
 protected:
  // A frame of its own, in every build.
  [[gnu::noinline]] void copy_a_local() {
    volatile int local = 7;
    local_ = const_cast<const int*>(&local);
    copy_async(x_.data(), local_, sizeof local);
  }
  [[gnu::noinline]] void copy_a_local_to(Buffer<int>& to) {
    volatile int local[2] = {7, 8};
    local_ = const_cast<const int*>(local);
    copy_async(to.data(), local_, sizeof local);
  }
  [[gnu::noinline]] void copy_to_a_local() {
    volatile int local = 7;
    local_ = const_cast<const int*>(&local);
    copy_async(const_cast<int*>(local_), x_.data(), sizeof local);
  }
  template <class Body>
  std::string refused(const Body& body, const GraphOptions& options = {}) {
    return text_of<UsageError>([&] { capture(graph_, options, body); });
  }
  static GraphOptions full() {
    GraphOptions options;
    options.report = ReportDetail::full;
    return options;
  }

  const SideStream stream_;
  Buffer<int> x_ = zeros(8);
  const int* local_ = nullptr;
  CUDAGraph graph_;
};

TEST_F(HostCopies, OfALocalOfTheBodyAreRefusedWithAddressAndNode) {
  const std::string text = refused([&] {
    add(x_);
    int local = 5;
    local_ = &local;
    copy_async(x_.data(), &local, sizeof local);
  });
  char address[32];
  std::snprintf(address, sizeof address, "%p", static_cast<const void*>(local_));
  EXPECT_THAT(text, AllOf(HasSubstr(std::string("  memcpy source (node 1) reads 4 bytes at ") + address),
                          HasSubstr("HostBuffer"), HasSubstr("inputs.allow_stack")));
  capture(graph_, [&] { add(x_); });  // it is empty, and works
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(HostCopies, OfALocalOfAFunctionThatTheBodyCallsAreRefusedInBothDirections) {
  EXPECT_THAT(refused([&] { copy_a_local(); }), HasSubstr("memcpy source (node 0) reads 4 bytes"));
  EXPECT_THAT(refused([&] { copy_to_a_local(); }), HasSubstr("memcpy destination (node 0) writes 4 bytes"));
  EXPECT_THAT(refused([&] {
                copy_a_local();
                copy_to_a_local();
              }),
              HasSubstr("its copies read or write 2 ranges of this thread's stack"));
}

TEST_F(HostCopies, ThatOtherCallsOfTheRuntimeCapturedAreRefusedToo) {
  EXPECT_THAT(
      refused([&](const StreamRef& stream) {
        int local = 5;
        backend::Checked(stream.device().backend()).copy_async(x_.data(), &local, sizeof local, stream.native());
      }),
      HasSubstr("memcpy source (node 0)"));
}

/// A device whose copies are of two rows, between which a gap of 12 bytes lies on both sides, or to an array.
class Pitched final : public backend::test::FaultyBackend {
 public:
  using FaultyBackend::FaultyBackend;
  backend::Result graph_node_params(GraphNodeHandle node, backend::NodeParams* params) override {
    backend::Result result = FaultyBackend::graph_node_params(node, params);
    const auto* const copy = std::get_if<backend::MemcpyNodeParams>(params);
    if (result != ErrorCode::success || copy == nullptr) return result;
    const std::size_t row = copy->bytes / 2;
    backend::PitchedCopyNodeParams pitched{{}, {}, row, 2};
    pitched.source = {static_cast<std::byte*>(const_cast<void*>(copy->source)), row + 12 + row};
    if (!to_array) pitched.destination = {static_cast<std::byte*>(copy->destination), row + 12 + row};
    *params = pitched;
    return result;
  }
  bool to_array = false;
};

class PitchedHostCopies : public HostCopies {
 protected:
  static Pitched& runtime() {
    static auto& runtime = *new Pitched(default_device().backend());  // devices live until the process ends
    return runtime;
  }
  ~PitchedHostCopies() override {
    runtime().to_array = false;
    runtime().heal();
  }

  const DeviceGuard guard_{Device(runtime())};
  const SideStream pitched_stream_;
  Buffer<int> y_ = zeros(8);
};

TEST_F(PitchedHostCopies, OfAGoneLocalAreRefused) {
  const auto body = [&] { copy_a_local_to(y_); };
  EXPECT_THAT(refused(body), HasSubstr("memcpy source (node 0) reads 20 bytes at "));
  EXPECT_THAT(refused([&] {
                int local = 5;
                copy_async(&local, y_.data(), sizeof local);
              }),
              HasSubstr("memcpy destination (node 0) writes 16 bytes at "));
  runtime().to_array = true;
  EXPECT_THAT(refused(body), HasSubstr("memcpy source (node 0) reads 20 bytes at "));
}

TEST_F(PitchedHostCopies, OfOtherMemoryAreListedInFullReports) {
  static int alive[8] = {};
  capture(graph_, full(), [&] { copy_async(y_.data(), alive, 8); });
  const auto report = graph_.capture_report();
  ASSERT_TRUE(report.has_value());
  ASSERT_THAT(report->host_accesses, SizeIs(1));
  EXPECT_EQ(report->host_accesses[0].address, alive);
  EXPECT_EQ(report->host_accesses[0].bytes, 20U);
  EXPECT_THAT(report->notes, IsEmpty());
}

TEST_F(PitchedHostCopies, HaveInputsOnBothEnds) {
  Buffer<int> x = zeros(8);
  capture(graph_, with_check(), [&] { copy_async(y_.data(), x.data(), 8); });
  EXPECT_THAT(addresses(graph_.inputs()), ::testing::UnorderedElementsAre(x.data(), y_.data()));
  const void* const memory = x.data();
  x.reset();
  EXPECT_THAT(addresses(dead_inputs(graph_)), ::testing::ElementsAre(memory));
}

TEST_F(PitchedHostCopies, OfArraysAreListedAmongTheInputsWithTheReason) {
  runtime().to_array = true;
  const Warnings warnings;
  Buffer<int> x = zeros(8);
  capture(graph_, with_check(), [&] { copy_async(y_.data(), x.data(), 8); });
  const std::vector<GraphInput> inputs = graph_.inputs();
  ASSERT_THAT(inputs, SizeIs(2));
  EXPECT_EQ(inputs[0].address, x.data());
  EXPECT_EQ(inputs[1].not_checked, "its destination is an array");
  EXPECT_THAT(warnings.texts(), Contains(HasSubstr("its destination is an array")));
}

TEST_F(PitchedHostCopies, CannotBeReadAsOneRowOrChanged) {
  capture(graph_, [&] { copy_async(y_.data(), y_.data() + 4, 8); });
  const auto rule = HasSubstr("CUDA changes one-dimensional copies and sets only");
  EXPECT_THAT(text_of<UsageError>([&] { (void)graph_.nodes()[0].memcpy_params(); }), rule);
  EXPECT_THAT(text_of<UsageError>([&] {
                graph_.nodes()[0].set_params(MemcpyNodeParams{y_.data(), x_.data(), 4});
              }),
              rule);
}

TEST_F(PitchedHostCopies, ThatCannotBeReadAreANoteOfTheReport) {
  runtime().fail(backend::Call::graph_node_params, ErrorCode::not_supported);
  capture(graph_, [&] { copy_a_local_to(y_); });
  const auto report = graph_.capture_report();
  ASSERT_TRUE(report.has_value());
  EXPECT_THAT(report->notes, ::testing::ElementsAre(
                                 "Copies from or to host memory that no longer exists may not be found: the parameters "
                                 "of the memcpy (node 0) are not known, cuGraphKernelNodeGetParams failed with "
                                 "cudaErrorNotSupported (801)."));
}

TEST_F(HostCopies, AreRefusedAtEachWayToEndACapture) {
  {
    graph scope(graph_);
    copy_a_local();
    EXPECT_THROW(scope.end(), UsageError);
  }
  EXPECT_THROW(
      {
        const graph scope(graph_);
        copy_a_local();
      },
      UsageError);
  graph_.capture_begin();
  copy_a_local();
  EXPECT_THROW(graph_.capture_end(), UsageError);
  GraphOptions options = with_check();
  options.check_frozen_values = no_next;
  EXPECT_THAT(refused([&] { copy_a_local(); }, options), HasSubstr("host memory that no longer exists"));
}

TEST_F(HostCopies, OfLocalsThatAreAliveAtTheEndArePossible) {
  int local = 3;
  capture(graph_, [&] { copy_async(x_.data(), &local, sizeof local); });
  graph_.replay();
  EXPECT_EQ(first(x_), 3);
  graph_.reset();
  {
    const graph scope(graph_);
    copy_async(x_.data(), &local, sizeof local);
  }
  local = 4;
  graph_.replay();
  EXPECT_EQ(first(x_), 4);
  graph_.reset();
  graph_.capture_begin();
  copy_async(x_.data(), &local, sizeof local);
  graph_.capture_end();
  graph_.replay();
  EXPECT_EQ(first(x_), 4);  // before the local is gone
}

TEST_F(HostCopies, OfGoneLocalsAreAllowedByAnOption) {
  GraphOptions options = full();
  options.inputs.allow_stack = true;
  capture(graph_, options, [&] { copy_a_local(); });
  ASSERT_TRUE(graph_.capture_report().has_value());
  ASSERT_THAT(graph_.capture_report()->host_accesses, SizeIs(1));
  EXPECT_EQ(graph_.capture_report()->host_accesses[0].address, local_);
  options.report = ReportDetail::standard;
  graph_.reset();
  capture(graph_, options, [&] { copy_a_local(); });
  EXPECT_FALSE(graph_.capture_report().has_value());
}

TEST_F(HostCopies, OnAStackOfAnotherThreadAreNotFound) {
  GraphOptions options;
  options.capture_error_mode = CaptureMode::relaxed;
  std::thread([&] {
    const DeviceGuard device(default_device());
    const StreamGuard current(stream_.ref());
    graph_.capture_begin(options);
    copy_a_local();
  }).join();
  graph_.capture_end();
}

TEST_F(HostCopies, AreNamedWithTheCallInFullReports) {
  const std::string text = refused([&] { copy_a_local(); }, full());
  EXPECT_THAT(text, HasSubstr("    captured by:\n      "));
  EXPECT_THAT(text, Not(HasSubstr("ReportDetail::full, the calls")));
  EXPECT_THAT(refused([&] { copy_a_local(); }), HasSubstr("With GraphOptions::report = ReportDetail::full"));
}

TEST_F(HostCopies, OfOtherPageableMemoryAreListedInFullReports) {
  const Warnings warnings;
  static int source = 1;
  std::vector<int> destination(8);
  HostBuffer<int> pinned(8);
  capture(graph_, full(), [&] {
    copy_async(x_.data(), &source, sizeof source);
    copy_async(x_.data(), pinned.data(), sizeof(int));
    x_.read_async(destination);
  });
  EXPECT_THAT(warnings.texts(), IsEmpty()) << "nothing is missing";
  ASSERT_TRUE(graph_.capture_report().has_value());
  const CaptureReport& report = *graph_.capture_report();
  ASSERT_THAT(report.host_accesses, SizeIs(2));
  const CaptureReport::HostAccess& read = report.host_accesses[0];
  EXPECT_EQ(read.address, &source);
  EXPECT_EQ(read.bytes, sizeof source);
  EXPECT_FALSE(read.writes);
  EXPECT_EQ(read.node, "memcpy source (node 0)");
  EXPECT_THAT(read.stack, Not(IsEmpty()));
  EXPECT_THAT(read.stack, Not(Contains(StartsWith("reprise::copy_async("))));
  const CaptureReport::HostAccess& written = report.host_accesses[1];
  EXPECT_EQ(written.address, destination.data());
  EXPECT_EQ(written.bytes, 8 * sizeof(int));
  EXPECT_TRUE(written.writes);
  EXPECT_EQ(written.node, "memcpy destination (node 2)");
  EXPECT_THAT(report.str(),
              AllOf(HasSubstr("ended after 3 nodes."),
                    HasSubstr("Each replay reads pageable memory of the host, which must exist then: 4 bytes at "),
                    HasSubstr("Each replay writes pageable memory of the host"),
                    HasSubstr("  copy     memcpy destination (node 2)\n")));
  EXPECT_THAT(report.refused, IsEmpty());
}

TEST_F(HostCopies, AreNotListedInStandardReports) {
  static int source = 1;
  capture(graph_, [&] { copy_async(x_.data(), &source, sizeof source); });
  EXPECT_FALSE(graph_.capture_report().has_value());
}

TEST_F(HostCopies, OfHeapMemoryThatIsFreedInTheBodyAreRefusedUnderAddressSanitizer) {
#ifdef REPRISE_TESTED_WITH_ASAN
  EXPECT_THAT(refused([&] {
                const std::vector<int> source(8, 1);
                copy_async(x_.data(), source.data(), sizeof(int));
              }),
              AllOf(HasSubstr("AddressSanitizer has poisoned"), HasSubstr("memcpy source (node 0)")));
#else
  GTEST_SKIP() << "built without AddressSanitizer";
#endif
}

TEST_F(HostCopies, OfHeapMemoryThatIsFreedLaterAreFoundByAddressSanitizerAtTheReplay) {
#ifdef REPRISE_TESTED_WITH_ASAN
  if (default_device().type() != DeviceType::host) GTEST_SKIP() << "a device copies without the sanitizer";
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        auto source = std::make_unique<std::vector<int>>(8, 1);
        capture(graph_, [&] { copy_async(x_.data(), source->data(), sizeof(int)); });
        graph_.replay();
        current_stream().synchronize();
        source.reset();
        graph_.replay();
        current_stream().synchronize();
      },
      "heap-use-after-free");
#else
  GTEST_SKIP() << "built without AddressSanitizer";
#endif
}

}  // namespace
}  // namespace reprise::graphs::test
