// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "inspect/annotations/annotation_text.h"
#include "reprise/libtorch/annotated_modules.h"
#include "tests/libtorch/cuda/cuda_tensors_fixture.h"
#include "tests/libtorch/cuda/side_stream.h"

// Annotations of CUDA tensors' work: with the names of modules, and on its backward pass.

namespace reprise::libtorch::test {
namespace {

using ::testing::Contains;

class AnnotationsOfCudaTensors : public OnCudaDevice {
 protected:
  static GraphOptions annotated_options() {
    GraphOptions options;
    options.enable_annotations = true;
    return options;
  }
  static std::vector<std::string> texts(const CUDAGraph& graph) {
    std::vector<std::string> found(graph.node_count());
    for (const AnnotatedNode& each : graph.annotations()) found[each.index] = inspect::annotation_text(each.annotation);
    return found;
  }
  static void expect_in_order(const std::vector<std::string>& found, const std::vector<std::string>& wanted) {
    auto at = found.begin();
    for (const std::string& each : wanted) {
      at = std::find(at, found.end(), each);
      ASSERT_NE(at, found.end()) << each << " is not there, or not in its place, in "
                                 << ::testing::PrintToString(found);
    }
  }

  CUDAGraph graph_;
};

TEST_F(AnnotationsOfCudaTensors, ModulesAndTheirBackwardPassAreNamed) {
  torch::nn::Sequential model(torch::nn::Linear(64, 64), torch::nn::ReLU(), torch::nn::Linear(64, 8));
  model->to(device_);
  const auto x = torch::rand({32, 64}, device_);
  const auto step = [&] { annotated("model", model)(x).sum().backward(); };
  on_side_stream([&] {
    for (int i = 0; i < 3; ++i) step();
  });
  capture(graph_, annotated_options(), step);
  expect_in_order(texts(graph_), {"module=model.0", "module=model.1", "module=model.2", "module=model.2, pass=backward",
                                  "module=model.1, pass=backward", "module=model.0, pass=backward"});
}

TEST_F(AnnotationsOfCudaTensors, TheBackwardPassMayBeCapturedInAnotherGraph) {
  const auto x = torch::rand({64}, device_).requires_grad_();
  torch::Tensor y, gradient;
  capture(graph_, annotated_options(), [&] {
    const annotate scope("forward");
    y = (x * x).sum();
  });
  CUDAGraph backward;
  GraphOptions options = annotated_options();
  options.pool = graph_.pool();
  capture(backward, options, [&] { gradient = torch::autograd::grad({y}, {x})[0]; });
  EXPECT_THAT(texts(backward), Contains("forward, pass=backward"));
}

}  // namespace
}  // namespace reprise::libtorch::test
