// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

// Random programs of tensors with views, autocast, work in place, functions of torch::autograd, random numbers and
// parts that become child graphs.

namespace reprise::libtorch::test {

enum class TensorStep {
  add,
  multiply,
  matmul,
  relu,
  softmax,
  row_sums,
  scale,  // by a number that the two versions of a program differ in
  copy,
  zeros,
  random,
  dropout,
  add_in_place,
  scale_in_place,
  copy_in_place,
  draw_in_place,
  slice,
  transpose,
  row,
  function,
  child,
  drop
};

struct TensorProgram {
  /// Operands are numbers of values, modulo how many there are: a program without some of its steps is one, too.
  struct Step {
    TensorStep kind = TensorStep::add;
    unsigned a = 0, b = 0;
    std::int64_t start = 0;  // of a slice or row, modulo the rows
    bool autocast = false;   // steps in a row share one scope
  };
  /// Steps in place, on the inputs that steps may change.
  struct Body {
    std::vector<Step> steps;
    bool by_replay = false;  // else by add_child
  };
  enum class Change { update, recapture };

  std::uint64_t seed = 0;
  unsigned data = 0, weights = 0;  // inputs: those that steps may change, and those that need a gradient
  bool outer_autocast = false;     // one scope around the eager run and the capture
  std::vector<Step> steps = {};
  std::vector<Body> bodies = {};
  std::vector<Change> changes = {};  // of the graph, each to the other version
};

using Tensors = std::vector<torch::Tensor>;

TensorProgram generate_tensor_program(std::uint64_t seed);
/// Rows and columns of the largest input.
inline constexpr std::int64_t largest_input = 8;

std::string text_of(const TensorProgram& program);

/// What the program has, for a count.
std::set<std::string> features(const TensorProgram& program);

/// Runs the program, and returns what it leaves besides the inputs.
/// \param version 0 or 1
/// \param run_child is called with the number of a body
Tensors run_steps(const TensorProgram& program, const Tensors& inputs, c10::DeviceType device, int version,
                  const std::function<void(std::size_t)>& run_child);

void run_body(const TensorProgram::Body& body, const Tensors& data, int version);

/// Which inputs a kernel of the program reads or writes, found without running it.
std::vector<bool> used_inputs(const TensorProgram& program);

}  // namespace reprise::libtorch::test
