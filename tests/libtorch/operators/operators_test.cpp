// SPDX-License-Identifier: Apache-2.0
#include <ATen/record_function.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "backend/framework.h"
#include "graph/capture_listener.h"
#include "libtorch/operators/operator_inputs.h"
#include "reprise/libtorch/graph.h"
#include "tests/libtorch/host/host_device_fixture.h"

// What a capture hears of the operators that run in it.

// As programs write it, with both namespaces or with one of them.
namespace {
namespace both {

using namespace reprise;            // NOLINT(google-build-using-namespace)
using namespace reprise::libtorch;  // NOLINT(google-build-using-namespace)
void record(CUDAGraph& cuda_graph, const std::function<void()>& body) {
  capture(cuda_graph, {}, [&] { body(); });
}

}  // namespace both
namespace one {

using namespace reprise;  // NOLINT(google-build-using-namespace)
void record(CUDAGraph& cuda_graph, const std::function<void()>& body) {
  capture(cuda_graph, {}, [&] { body(); });
}

}  // namespace one
}  // namespace

namespace reprise::libtorch::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// --- Reports and errors name the operator ---------------------------------------------------------------------------

class OperatorsInCaptures : public OnHostDevice {
 protected:
  std::string error_of(const std::function<void()>& body) {
    try {
      capture(graph_, {}, body);
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    } catch (const std::exception& error) {
      return error.what();
    }
    return {};
  }

  torch::Tensor x_ = torch::ones({4}, device_);
  CUDAGraph graph_;
};

TEST_F(OperatorsInCaptures, OneThatWaitsForTheDeviceIsNamedByTheErrorAndTheReport) {
  const std::string error = error_of([&] {
    x_.add_(1);
    static_cast<void>(x_.sum().item<float>());
  });
  EXPECT_THAT(error, HasSubstr("within the operator aten::_local_scalar_dense"));
  EXPECT_THAT(error, HasSubstr("aten::item"));
  ASSERT_TRUE(graph_.capture_report());
  EXPECT_THAT(graph_.capture_report()->operators, ElementsAre("aten::item", "aten::_local_scalar_dense"));
  EXPECT_THAT(graph_.capture_report()->str(), HasSubstr("  operator aten::item, aten::_local_scalar_dense\n"));
}

TEST_F(OperatorsInCaptures, AreNamedByTheErrorWhereverTheNamespaceIsVisible) {
  for (const auto& record : {&both::record, &one::record}) {
    try {
      record(graph_, [&] { static_cast<void>(x_.sum().item<float>()); });
      ADD_FAILURE() << "a capture cannot wait";
    } catch (const c10::Error& error) {
      EXPECT_THAT(error.what_without_backtrace(), HasSubstr("within the operator aten::_local_scalar_dense"));
    }
    record(graph_, [&] { x_.add_(1); });
    EXPECT_EQ(graph_.node_count(), 1U);
    graph_.reset();
  }
}

// However a capture begins, it takes the operators in.
TEST_F(OperatorsInCaptures, AreNodesOfEachCaptureAndNamedInItsReport) {
  const auto with_scope = [&](const std::function<void()>& body) {
    class graph scope(graph_);
    body();
    scope.end();
  };
  const auto by_begin_and_end = [&](const std::function<void()>& body) {
    graph_.capture_begin();
    body();
    graph_.capture_end();
  };
  const auto as_plain_capture = [&](const std::function<void()>& body) { reprise::capture(graph_, {}, body); };
  using Way = std::function<void(const std::function<void()>&)>;
  for (const Way& way : {Way(with_scope), Way(by_begin_and_end), Way(as_plain_capture)}) {
    x_.fill_(1);
    way([&] { x_.add_(1).mul_(2); });
    EXPECT_EQ(graph_.node_count(), 2U);
    EXPECT_FALSE(graph_.capture_report());
    graph_.replay();
    EXPECT_TRUE(same(x_, torch::full({4}, 4.0)));
    graph_.reset();
    EXPECT_THROW(way([&] { x_.add_(1).sum().item<float>(); }), c10::Error);
    graph_.capture_abandon();
    ASSERT_TRUE(graph_.capture_report());
    EXPECT_THAT(graph_.capture_report()->operators, ElementsAre("aten::item", "aten::_local_scalar_dense"));
  }
}

TEST_F(OperatorsInCaptures, AreThoseOfTheFrameworkOfTheProcess) {
  ASSERT_NE(backend::installed_framework(), nullptr);
  EXPECT_EQ(backend::installed_framework()->name(), "libtorch");
  EXPECT_TRUE(detail::install()) << "does nothing the second time";
}

TEST_F(OperatorsInCaptures, OneWhoseErrorWasCaughtIsNamedWhenTheCaptureEnds) {
  const std::string error = error_of([&] {
    x_.add_(1);
    EXPECT_THROW(x_.nonzero(), c10::Error);
    try {
      x_.mul_(2);
    } catch (const std::exception&) {  // the capture is over
    }
  });
  EXPECT_THAT(error, HasSubstr("  operator aten::nonzero\n"));
  EXPECT_THAT(error, Not(HasSubstr("aten::mul_")));
}

TEST_F(OperatorsInCaptures, OneOfABackwardPassIsNamed) {
  class Looks : public torch::autograd::Function<Looks> {
   public:
    static torch::Tensor forward(torch::autograd::AutogradContext* /*context*/, const torch::Tensor& x) {
      return x * 2;
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                   torch::autograd::variable_list gradients) {
      static_cast<void>(gradients[0].sum().item<float>());
      return {gradients[0] * 2};
    }
  };
  x_.requires_grad_();
  EXPECT_THAT(error_of([&] { Looks::apply(x_).sum().backward(); }), HasSubstr("aten::_local_scalar_dense"));
  EXPECT_THAT(graph_.capture_report()->operators, ElementsAre("aten::item", "aten::_local_scalar_dense"))
      << graph_.capture_report()->str();
}

TEST_F(OperatorsInCaptures, WhoeverBreaksTheCaptureOutsideOfOperatorsGetsNoneNamed) {
  const std::string error = error_of([&] {
    x_.add_(1);
    current_stream().synchronize();
  });
  EXPECT_THAT(error, Not(HasSubstr("aten::")));
  ASSERT_TRUE(graph_.capture_report());
  EXPECT_THAT(graph_.capture_report()->operators, IsEmpty());
}

TEST_F(OperatorsInCaptures, AnErrorThatIsNoneOfAnOperatorNamesNone) {
  EXPECT_THAT(error_of([&] {
                EXPECT_THROW(torch::mm(x_, x_), c10::Error);  // caught, and the capture goes on
                x_.add_(1);
                TORCH_CHECK(false, "mine");
              }),
              Not(HasSubstr("aten::")));
  EXPECT_FALSE(graph_.capture_report());
}

TEST_F(OperatorsInCaptures, NobodyHearsOfThemOutsideOfCaptures) {
  const auto heard = [] { return at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION).has_value(); };
  EXPECT_FALSE(heard());
  capture(graph_, {}, [&] {
    EXPECT_TRUE(heard());
    x_.add_(1);
  });
  EXPECT_FALSE(heard());
  graph_.reset();
  error_of([] { throw std::runtime_error("the body"); });
  EXPECT_FALSE(heard());
}

// --- What operators were given, and which nodes they made -----------------------------------------------------------

/// Listens to the operators of the capture of the current stream.
std::shared_ptr<OperatorInputs> listen() {
  const StreamRef stream = current_stream();
  backend::CaptureInfo info;
  EXPECT_EQ(stream.device().backend().stream_capture_info(stream.native(), &info), Result::success);
  auto inputs = std::make_shared<OperatorInputs>(stream.device(), info.id);
  inputs->open();
  return inputs;
}

std::vector<GraphNodeHandle> nodes_of(const CUDAGraph& graph) {
  std::vector<GraphNodeHandle> nodes;
  EXPECT_EQ(default_device().backend().graph_nodes(graph.raw_cuda_graph(), &nodes), Result::success);
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
    reprise::capture(graph_, {}, [&] {
      inputs_ = listen();
      body();
      inputs_->close();
    });
    inputs_->look_at(graph_.raw_cuda_graph());
    std::vector<bool> made;
    for (const GraphNodeHandle node : nodes_of(graph_)) made.push_back(inputs_->made_by_operator(node));
    return made;
  }
  void launch_raw() { launch(LaunchConfig::cover(4), Add{}, raw_.data_ptr<float>(), std::size_t{4}); }

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
  GraphOptions options;
  options.capture_error_mode = CaptureErrorMode::relaxed;
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
