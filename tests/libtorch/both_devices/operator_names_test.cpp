// SPDX-License-Identifier: Apache-2.0
#include <ATen/record_function.h>

#include <functional>

#include "backend/framework.h"
#include "tests/libtorch/both_devices/device_fixture.h"
#include "tests/libtorch/support/error_text.h"

// Reports and errors of captures name the operator.

// As programs write it, with both namespaces or with one of them.
namespace {
namespace both {

using namespace reprise;            // NOLINT(google-build-using-namespace)
using namespace reprise::libtorch;  // NOLINT(google-build-using-namespace)
void record(CUDAGraph& cuda_graph, const std::function<void()>& body) {
  capture(cuda_graph, [&] { body(); });
}

}  // namespace both
namespace one {

using namespace reprise;  // NOLINT(google-build-using-namespace)
void record(CUDAGraph& cuda_graph, const std::function<void()>& body) {
  capture(cuda_graph, [&] { body(); });
}

}  // namespace one
}  // namespace

namespace reprise::libtorch::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class OperatorsInCaptures : public OnDevice {
 protected:
  std::string error_of(const std::function<void()>& body) {
    return error_text([&] { capture(graph_, body); });
  }

  // Everything is usable again.
  void TearDown() override {
    graph_.reset();
    capture(graph_, [&] { x_.detach().fill_(7); });
    graph_.replay();
    EXPECT_TRUE(same(x_, torch::full({4}, 7.0F)));
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
  const auto as_plain_capture = [&](const std::function<void()>& body) { reprise::capture(graph_, body); };
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

TEST_F(OperatorsInCaptures, OneWhoseResultDependsOnValuesIsNamed) {
  const std::string error = error_of([&] {
    x_.add_(1);
    static_cast<void>(x_.nonzero());
  });
  EXPECT_THAT(error, HasSubstr("aten::nonzero"));
}

TEST_F(OperatorsInCaptures, ACopyFromPageableMemoryIsNamed) {
  const auto pageable = torch::ones({4});
  const std::string error = error_of([&] {
    x_.add_(1);
    x_.copy_(pageable);
  });
  EXPECT_THAT(error, HasSubstr("aten::copy_"));
}

TEST_F(OperatorsInCaptures, OneWhoseErrorWasCaughtIsNamedWhenTheCaptureEnds) {
  const std::string error = error_of([&] {
    x_.add_(1);
    EXPECT_THROW(x_.sum().item<float>(), c10::Error);
    try {
      x_.mul_(2);
    } catch (const std::exception&) {  // the capture is over
    }
  });
  EXPECT_THAT(error, HasSubstr("  operator aten::item, aten::_local_scalar_dense\n"));
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

TEST_F(OperatorsInCaptures, ACallThatBreaksTheCaptureOutsideOfOperatorsGetsNoneNamed) {
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
                EXPECT_THROW(torch::mm(x_, x_), c10::Error);  // caught, and the capture continues
                x_.add_(1);
                TORCH_CHECK(false, "mine");
              }),
              Not(HasSubstr("aten::")));
  EXPECT_FALSE(graph_.capture_report());
}

TEST_F(OperatorsInCaptures, AreNotObservedOutsideOfCaptures) {
  const auto observed = [] { return at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION).has_value(); };
  EXPECT_FALSE(observed());
  capture(graph_, [&] {
    EXPECT_TRUE(observed());
    x_.add_(1);
  });
  EXPECT_FALSE(observed());
  graph_.reset();
  error_of([] { throw std::runtime_error("the body"); });
  EXPECT_FALSE(observed());
}

}  // namespace
}  // namespace reprise::libtorch::test
