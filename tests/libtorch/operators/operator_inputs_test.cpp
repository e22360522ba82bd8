// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

#include "backend/backend.h"
#include "captures/registry.h"
#include "graph/listeners/capture_listener.h"
#include "libtorch/operators/operator_inputs.h"
#include "reprise/libtorch/graph.h"
#include "tests/libtorch/host/host_device_fixture.h"

// What operators in a capture were given, and which nodes they made.

namespace reprise::libtorch::test {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

/// Listens to the operators of the capture of the current stream.
std::shared_ptr<OperatorInputs> listen() {
  const StreamRef stream = current_stream();
  auto inputs = std::make_shared<OperatorInputs>(stream.device());
  inputs->open(*captures::find(stream).capture);
  return inputs;
}

/// Counts the operators of a capture.
class Count final : public OperatorWatch {
 public:
  Count() : OperatorWatch(default_device()) {}
  void began(const RunningOperator& /*op*/, const at::RecordFunction& /*call*/, const Nodes* /*tails*/) override {
    ++begun;
  }
  void ended(const RunningOperator& /*op*/, const End& /*end*/) override { ++over; }

  std::atomic<int> begun = 0, over = 0;
};

std::vector<GraphNodeHandle> nodes_of(const CUDAGraph& graph) {
  std::vector<GraphNodeHandle> nodes;
  EXPECT_EQ(default_device().backend().graph_nodes(graph.raw_cuda_graph(), &nodes), ErrorCode::success);
  return nodes;
}

std::uintptr_t address_of(const torch::Tensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.data_ptr());
}

struct Add {
  REPRISE_KERNEL void operator()(Thread t, float* x, std::size_t n) const {
    if (t.global_x() < n) x[t.global_x()] += 1;
  }
};

class InputsOfOperators : public OnHostDevice {
 protected:
  /// Which nodes of what the body captures were made by operators.
  std::vector<bool> made_by_operators(const std::function<void()>& body) {
    reprise::capture(graph_, [&] {
      inputs_ = listen();
      body();
      inputs_->close();
    });
    inputs_->look_at(graph_.raw_cuda_graph());
    std::vector<bool> made;
    for (const GraphNodeHandle node : nodes_of(graph_)) made.push_back(inputs_->made_by_operator(node));
    return made;
  }
  void launch_raw() { launch(4, Add{}, raw_.data_ptr<float>(), std::size_t{4}); }

  torch::Tensor raw_ = torch::ones({4}, device_);
  CUDAGraph graph_{KeepGraph::yes};
  std::shared_ptr<OperatorInputs> inputs_;
};

TEST_F(InputsOfOperators, AreTheMemoryOfTheTensorsThatTheyWereGiven) {
  const auto x = torch::ones({4, 4}, device_), y = torch::ones({4, 4}, device_), other = torch::ones({4}, device_);
  std::vector<torch::Tensor> parts = {torch::ones({4}, device_), torch::ones({4}, device_)};
  auto out = torch::empty({8}, device_);
  made_by_operators([&] {
    static_cast<void>(torch::mm(x[1].unsqueeze(0), y));
    torch::cat_out(out, parts);
    launch_raw();
  });
  for (const auto& each : {x, y, parts[0], parts[1], out}) {
    EXPECT_TRUE(inputs_->has(address_of(each)));
    EXPECT_TRUE(inputs_->has(address_of(each) + each.nbytes() - 4)) << "all of the storage";
  }
  EXPECT_FALSE(inputs_->has(address_of(raw_)));
  EXPECT_FALSE(inputs_->has(address_of(other)));
}

TEST_F(InputsOfOperators, AreTheOnesOfTheOperatorThatMadeANode) {
  const auto x = torch::ones({4}, device_), y = torch::ones({4}, device_);
  made_by_operators([&] {
    static_cast<void>(x + 1);
    static_cast<void>(y * 2);
    launch_raw();
  });
  const std::vector<GraphNodeHandle> nodes = nodes_of(graph_);
  ASSERT_THAT(nodes, SizeIs(3));
  const auto used = [&](const torch::Tensor& tensor) {
    std::vector<bool> by;
    for (const GraphNodeHandle node : nodes) by.push_back(inputs_->may_use(node, address_of(tensor)));
    return by;
  };
  EXPECT_THAT(used(x), ElementsAre(true, false, true));
  EXPECT_THAT(used(y), ElementsAre(false, true, true));
  EXPECT_THAT(used(raw_), ElementsAre(false, false, true)) << "nothing is known about nodes of others";
}

TEST_F(InputsOfOperators, AreStoragesThatCanBeKeptAsLongAsTheyLive) {
  const auto x = torch::ones({4}, device_);
  auto y = torch::ones({4}, device_);
  const void *const at_x = x.data_ptr(), *const at_y = y.data_ptr();
  made_by_operators([&] {
    static_cast<void>(x + y);
    y.reset();
  });
  ASSERT_THAT(inputs_->storages_in(at_x, 16), SizeIs(1));
  EXPECT_EQ(inputs_->storages_in(at_x, 16)[0].lock().get(), x.storage().unsafeGetStorageImpl());
  ASSERT_THAT(inputs_->storages_in(at_y, 16), SizeIs(1));
  EXPECT_EQ(inputs_->storages_in(at_y, 16)[0].lock(), nullptr);
}

TEST_F(InputsOfOperators, AreOfTheirCaptureAlone) {
  const auto x = torch::ones({4}, device_), y = torch::ones({4}, device_);
  current_stream().synchronize();  // the thread's stream is another
  GraphOptions options;
  options.capture_error_mode = CaptureMode::relaxed;
  reprise::capture(graph_, options, [&] {
    inputs_ = listen();
    raw_.add_(x);
    std::thread([&] {
      const Stream eager;
      const StreamGuard guard(eager);
      static_cast<void>(y + 1);
      eager.synchronize();
    }).join();
    inputs_->close();
    raw_.add_(1);
  });
  inputs_->look_at(graph_.raw_cuda_graph());
  EXPECT_TRUE(inputs_->has(address_of(x)));
  EXPECT_FALSE(inputs_->has(address_of(y)));
}

TEST_F(InputsOfOperators, AreLookedForWhileAnotherThreadRunsOperators) {
  constexpr int operators = 3000;
  const auto count = std::make_shared<Count>();
  GraphOptions options;
  options.capture_error_mode = CaptureMode::relaxed;
  reprise::capture(graph_, options, [&] {
    const StreamRef stream = current_stream();
    count->open(*captures::find(stream).capture);
    raw_.add_(1);
    const int each = count->begun;
    std::atomic<bool> is_over = false;
    std::thread other([&] {
      const StreamGuard guard(stream);
      for (int i = 1; i < operators; ++i) raw_.add_(1);
      is_over = true;
    });
    while (!is_over) listen()->close();
    other.join();
    EXPECT_GT(each, 0);
    EXPECT_EQ(count->begun, each * operators);
    EXPECT_EQ(count->over, each * operators);
    count->close();
  });
}

TEST_F(InputsOfOperators, NodesOfOperatorsAndOthersAreToldApart) {
  const auto x = torch::ones({4}, device_);
  EXPECT_THAT(made_by_operators([&] {
                launch_raw();
                static_cast<void>(x + 1);
                launch_raw();
                launch_raw();
                static_cast<void>((x * 2).sum());
                launch_raw();
              }),
              ElementsAre(false, true, false, false, true, true, false));
}

TEST_F(InputsOfOperators, NodesOfABackwardPassAreThoseOfItsOperators) {
  const auto x = torch::ones({4}, device_).requires_grad_();
  const std::vector<bool> made = made_by_operators([&] {
    static_cast<void>(torch::autograd::grad({(x * x).sum()}, {x}));
    launch_raw();
  });
  ASSERT_GT(made.size(), 3U);
  EXPECT_EQ(std::count(made.begin(), made.end(), false), 1);
  EXPECT_FALSE(made.back());
  EXPECT_TRUE(inputs_->has(address_of(x)));
}

TEST_F(InputsOfOperators, NodesOfASideStreamThatIsJoinedBeforeAnOperatorAreNotItsOwn) {
  const Stream side;
  const auto x = torch::ones({4}, device_);
  EXPECT_THAT(made_by_operators([&] {
                const StreamRef main = current_stream();
                static_cast<void>(x + 1);
                side.wait(main);
                static_cast<void>(x + 2);
                {
                  const StreamGuard guard(side);
                  launch_raw();
                }
                main.wait(side);
                static_cast<void>(x + 3);
              }),
              ElementsAre(true, true, false, true));
}

}  // namespace
}  // namespace reprise::libtorch::test
