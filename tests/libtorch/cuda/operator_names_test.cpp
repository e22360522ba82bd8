// SPDX-License-Identifier: Apache-2.0
#include "tests/libtorch/cuda/cuda_tensors_fixture.h"

// Errors of a capture of CUDA tensors name the operator.

namespace reprise::libtorch::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class OperatorsInCudaCaptures : public OnCudaDevice {
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
  void SetUp() override {
    OnCudaDevice::SetUp();
    if (!IsSkipped()) x_ = torch::ones({4}, device_);
  }
  // Everything is usable again.
  void TearDown() override {
    if (IsSkipped()) return;
    graph_.reset();
    capture(graph_, {}, [&] { x_.fill_(7); });
    graph_.replay();
    EXPECT_TRUE(all_are(x_, 7));
    graph_.reset();
    OnCudaDevice::TearDown();
  }

  Tensor x_;
  CUDAGraph graph_;
};

TEST_F(OperatorsInCudaCaptures, OneThatReadsAValueIsNamed) {
  const std::string error = error_of([&] {
    x_.add_(1);
    static_cast<void>(x_.sum().item<float>());
  });
  EXPECT_THAT(error, HasSubstr("within the operator aten::_local_scalar_dense"));
  ASSERT_TRUE(graph_.capture_report());
  EXPECT_THAT(graph_.capture_report()->operators, ElementsAre("aten::item", "aten::_local_scalar_dense"));
}

TEST_F(OperatorsInCudaCaptures, OneWhoseResultDependsOnValuesIsNamed) {
  const std::string error = error_of([&] {
    x_.add_(1);
    static_cast<void>(x_.nonzero());
  });
  EXPECT_THAT(error, HasSubstr("aten::nonzero"));
}

TEST_F(OperatorsInCudaCaptures, ACopyFromPageableMemoryIsNamed) {
  const auto pageable = torch::ones({4});
  const std::string error = error_of([&] {
    x_.add_(1);
    x_.copy_(pageable);
  });
  EXPECT_THAT(error, HasSubstr("aten::copy_"));
}

TEST_F(OperatorsInCudaCaptures, OneWhoseErrorWasCaughtIsNamedWhenTheCaptureEnds) {
  const std::string error = error_of([&] {
    x_.add_(1);
    EXPECT_THROW(x_.sum().item<float>(), c10::Error);
  });
  EXPECT_THAT(error, HasSubstr("  operator aten::item, aten::_local_scalar_dense\n"));
}

TEST_F(OperatorsInCudaCaptures, WhoeverBreaksTheCaptureOutsideOfOperatorsGetsNoneNamed) {
  const std::string error = error_of([&] {
    x_.add_(1);
    current_stream().synchronize();
  });
  EXPECT_THAT(error, Not(HasSubstr("aten::")));
  ASSERT_TRUE(graph_.capture_report());
  EXPECT_THAT(graph_.capture_report()->operators, IsEmpty());
}

}  // namespace
}  // namespace reprise::libtorch::test
