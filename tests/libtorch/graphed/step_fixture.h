// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "reprise/libtorch/clip_grad.h"
#include "reprise/libtorch/graphed_step.h"
#include "reprise/libtorch/optim.h"
#include "tests/libtorch/graphed/graphed_fixture.h"

// Graphed steps, and what they are without a graph.

namespace reprise::libtorch::test {

class GraphedSteps : public GraphedCallables {
 protected:
  /// A small network with normalization and dropout, in training.
  torch::nn::Sequential make_model() const {
    torch::manual_seed(4);
    torch::nn::Sequential made(torch::nn::Linear(8, 16), torch::nn::BatchNorm1d(16), torch::nn::GELU(),
                               torch::nn::Dropout(0.3), torch::nn::Linear(16, 3));
    made->to(device_);
    return made;
  }

  struct Pair {
    Tensor x, y;
  };
  std::vector<Pair> make_pairs(int count, int size = 6) const {
    torch::manual_seed(5);
    std::vector<Pair> made;
    for (int i = 0; i < count; ++i)
      made.push_back({torch::randn({size, 8}).to(device_), torch::randn({size, 3}).to(device_)});
    return made;
  }

  static optim::AdamWOptions adamw() { return optim::AdamWOptions(0.01).weight_decay(0.05); }

  /// One call without a graph; `call` counts from 0.
  static Tensor eager_step(torch::nn::Sequential& model, optim::CapturableOptimizer& optimizer, const Pair& pair,
                           const GraphedStepOptions& options, int call) {
    Tensor loss;
    {
      std::optional<Autocast> autocast;
      if (options.autocast) autocast.emplace(*options.autocast, pair.x.device().type());
      loss = torch::mse_loss(model->forward(pair.x), pair.y);
    }
    Tensor root = options.accumulate > 1 ? loss / options.accumulate : loss;
    if (options.scaler != nullptr) root = options.scaler->scale(root);
    root.backward();
    if (call % options.accumulate != options.accumulate - 1) return loss.detach();
    if (options.scaler != nullptr) options.scaler->unscale_(optimizer);
    std::vector<Tensor> parameters;
    for (const auto& group : optimizer.param_groups())
      parameters.insert(parameters.end(), group.params().begin(), group.params().end());
    if (const auto* const norm = std::get_if<ClipNorm>(&options.clip)) clip_grad_norm_(parameters, norm->max_norm);
    if (const auto* const value = std::get_if<ClipValue>(&options.clip)) clip_grad_value_(parameters, value->limit);
    if (options.scaler != nullptr) {
      options.scaler->step(optimizer);
      options.scaler->update();
    } else {
      optimizer.step();
    }
    optimizer.zero_grad();
    return loss.detach();
  }

  /// Parameters and buffers.
  static std::vector<Tensor> values_of(const torch::nn::Sequential& model) {
    std::vector<Tensor> values = model->parameters();
    for (const Tensor& each : model->buffers()) values.push_back(each);
    return values;
  }
  static std::vector<Tensor> copies_of(const std::vector<Tensor>& tensors) {
    std::vector<Tensor> copies;
    for (const Tensor& each : tensors) copies.push_back(each.detach().clone());
    return copies;
  }
  static void expect_same(const std::vector<Tensor>& found, const std::vector<Tensor>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(same(found[i], expected[i])) << "tensor " << i;
  }
  template <class Object>
  static std::string archive_of(const Object& object) {
    std::ostringstream out;
    torch::save(object, out);
    return out.str();
  }
  template <class Object>
  static void load_from(const std::string& archive, Object& object) {
    std::istringstream in(archive);
    torch::load(object, in);
  }
  Tensor state_of_generator() const { return at::globalContext().defaultGenerator(device_).get_state(); }
  void set_state_of_generator(const Tensor& state) const {
    at::Generator generator = at::globalContext().defaultGenerator(device_);
    generator.set_state(state);
  }
};

}  // namespace reprise::libtorch::test
