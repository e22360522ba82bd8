// SPDX-License-Identifier: Apache-2.0
#include <climits>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/faulty_backend.h"
#include "tests/unit/graph/graph_fixture.h"

// Misuse of nodes and parameters; table.md has what is tested elsewhere.

namespace reprise::graphs::test {
namespace {

/// A call of a view.
struct NodeCall {
  const char* name;
  void (*make)(const GraphNode& kernel, const GraphNode& copy, const GraphNode& set);
  bool changes;
};

/// All but index(), number() and type(). None changes a value.
const NodeCall node_calls[] = {
    {"native", [](const auto& kernel, const auto&, const auto&) { (void)kernel.native(); }, false},
    {"inner", [](const auto& kernel, const auto&, const auto&) { (void)kernel.inner(); }, false},
    {"name", [](const auto& kernel, const auto&, const auto&) { (void)kernel.name(); }, false},
    {"str", [](const auto& kernel, const auto&, const auto&) { (void)kernel.str(); }, false},
    {"annotation", [](const auto& kernel, const auto&, const auto&) { (void)kernel.annotation(); }, false},
    {"dependencies", [](const auto& kernel, const auto&, const auto&) { (void)kernel.dependencies(); }, false},
    {"enabled", [](const auto& kernel, const auto&, const auto&) { (void)kernel.enabled(); }, false},
    {"launch_config", [](const auto& kernel, const auto&, const auto&) { (void)kernel.launch_config(); }, false},
    {"arg_count", [](const auto& kernel, const auto&, const auto&) { (void)kernel.arg_count(); }, false},
    {"args", [](const auto& kernel, const auto&, const auto&) { (void)kernel.args(); }, false},
    {"arg", [](const auto& kernel, const auto&, const auto&) { (void)kernel.template arg<int>(1); }, false},
    {"memcpy_params", [](const auto&, const auto& copy, const auto&) { (void)copy.memcpy_params(); }, false},
    {"memset_params", [](const auto&, const auto&, const auto& set) { (void)set.memset_params(); }, false},
    {"set_arg", [](const auto& kernel, const auto&, const auto&) { kernel.set_arg(1, 1); }, true},
    {"set_arg_bytes",
     [](const auto& kernel, const auto&, const auto&) {
       const int one = 1;
       kernel.set_arg_bytes(1, std::as_bytes(std::span(&one, 1)));
     },
     true},
    {"set_params of a kernel",
     [](const auto& kernel, const auto&, const auto&) { kernel.set_params(LaunchConfig::cover(1)); }, true},
    {"set_params of a copy", [](const auto&, const auto& copy, const auto&) { copy.set_params(copy.memcpy_params()); },
     true},
    {"set_params of a set", [](const auto&, const auto&, const auto& set) { set.set_params(set.memset_params()); },
     true},
    {"set_enabled", [](const auto& kernel, const auto&, const auto&) { kernel.set_enabled(true); }, true},
};

class NodeMisuse : public ::testing::Test {
 protected:
  void capture_all() {
    capture(graph_, [&] {
      add(x_);
      copy_async(y_.data(), x_.data(), sizeof(int));
      fill_async(z_.data(), 0, sizeof(int));
    });
    nodes_ = graph_.nodes();
  }
  void make(const NodeCall& call) const { call.make(nodes_[0], nodes_[1], nodes_[2]); }
  void expect_replays_once() {
    const int before = first(x_);
    graph_.replay();
    EXPECT_EQ(first(x_), before + 1);
  }

  const SideStream side_;
  Buffer<int> x_ = zeros(), y_ = zeros(), z_ = zeros();
  CUDAGraph graph_;
  std::vector<GraphNode> nodes_;
};

TEST_F(NodeMisuse, EveryCallOfAViewWhoseGraphIsGoneIsRefused) {
  capture_all();
  graph_ = CUDAGraph();
  for (const NodeCall& each : node_calls) {
    SCOPED_TRACE(each.name);
    EXPECT_TRUE(contains(text_of<UsageError>([&] { make(each); }), "was reset, destroyed or assigned to"));
  }
}

TEST_F(NodeMisuse, EveryCallWithinAHookOfTheGraphWorksOrIsRefusedAndChangesNothing) {
  capture_all();
  bool called = false;
  graph_.add_hooks({.before_replay = [&](const StreamRef&) {
    called = true;
    for (const NodeCall& each : node_calls) {
      SCOPED_TRACE(each.name);
      if (each.changes)
        EXPECT_TRUE(contains(text_of<UsageError>([&] { make(each); }), "within a hook"));
      else
        EXPECT_NO_THROW(make(each));
    }
  }});
  expect_replays_once();
  EXPECT_TRUE(called);
}

TEST_F(NodeMisuse, AViewThatWasMovedFromIsRefused) {
  capture_all();
  const GraphNode taken = std::move(nodes_[0]);
  EXPECT_EQ(taken.arg<int>(1), 1);
  for (const NodeCall& each : node_calls) {
    SCOPED_TRACE(each.name);
    if (std::string(each.name).find("copy") != std::string::npos ||
        std::string(each.name).find("a set") != std::string::npos ||
        std::string(each.name).find("mem") != std::string::npos)
      continue;
    EXPECT_TRUE(contains(text_of<UsageError>([&] { make(each); }), "moved from"));
  }
}

TEST_F(NodeMisuse, EveryCallWorksOnAnotherThread) {
  capture_all();
  std::thread([&] {
    for (const NodeCall& each : node_calls) {
      SCOPED_TRACE(each.name);
      EXPECT_NO_THROW(make(each));
    }
  }).join();
  expect_replays_once();
}

TEST_F(NodeMisuse, EveryCallDuringACaptureOfAnotherGraphWorksAndTheCaptureGoesOn) {
  capture_all();
  CUDAGraph other;
  Buffer<int> more = zeros();
  capture(other, [&] {
    for (const NodeCall& each : node_calls) {
      SCOPED_TRACE(each.name);
      EXPECT_NO_THROW(make(each));
    }
    nodes_[0].set_arg(1, 3);
    nodes_[0].set_arg(1, 1);
    add(more);
  });
  other.replay();
  EXPECT_EQ(first(more), 1);
  expect_replays_once();
}

TEST_F(NodeMisuse, NumbersAndAddressesThatCannotBeAreRefused) {
  capture_all();
  for (const std::size_t number : {std::size_t{3}, SIZE_MAX}) {
    EXPECT_THROW((void)nodes_[0].arg<int>(number), UsageError);
    EXPECT_THROW(nodes_[0].set_arg(number, 1), UsageError);
    EXPECT_THROW(nodes_[0].set_arg_bytes(number, std::as_bytes(std::span(&number, 1)).first(4)), UsageError);
  }
  EXPECT_THROW(nodes_[0].set_params(LaunchConfig{.grid = Dim3(0)}), BackendError);
  EXPECT_THROW(nodes_[0].set_params(LaunchConfig{.block = Dim3(UINT_MAX)}), BackendError);
  EXPECT_THROW(nodes_[0].set_params(LaunchConfig{.shared_bytes = UINT_MAX}), BackendError);
  EXPECT_THROW(nodes_[1].set_params(MemcpyNodeParams{nullptr, x_.data(), 4}), UsageError);
  EXPECT_THROW(nodes_[1].set_params(MemcpyNodeParams{y_.data(), nullptr, 4}), UsageError);
  EXPECT_THROW(nodes_[1].set_params(MemcpyNodeParams{y_.data(), x_.data(), SIZE_MAX}), UsageError);
  EXPECT_THROW(nodes_[2].set_params(MemsetNodeParams{nullptr, 0, 1, 4}), UsageError);
  EXPECT_THROW(nodes_[2].set_params(MemsetNodeParams{z_.data(), 0, 1, SIZE_MAX}), UsageError);
  EXPECT_THROW(nodes_[2].set_params(MemsetNodeParams{z_.data(), 0, 4, SIZE_MAX / 4}), UsageError);
  EXPECT_THROW(nodes_[2].set_params(MemsetNodeParams{z_.data(), 0, UINT_MAX, 1}), UsageError);
  expect_replays_once();
  EXPECT_EQ(first(y_), 1);
}

TEST_F(NodeMisuse, AddressesOfAnotherDeviceAreRefused) {
  if (!second_device()) GTEST_SKIP() << "there is one device";
  capture_all();
  const DeviceGuard there(*second_device());
  const Buffer<int> far(1);
  EXPECT_THROW(nodes_[1].set_params(MemcpyNodeParams{far.data(), x_.data(), 4}), UsageError);
  EXPECT_THROW(nodes_[2].set_params(MemsetNodeParams{far.data(), 0, 1, 4}), UsageError);
  const Parameter<int*> y = graph_.parameter(y_.data());
  EXPECT_THROW(graph_.set(y, far.data()), UsageError);
}

}  // namespace
}  // namespace reprise::graphs::test
