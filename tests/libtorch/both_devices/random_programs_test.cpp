// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/libtorch/both_devices/device_fixture.h"
#include "tests/libtorch/host/autocast.h"
#include "tests/support/environment_number.h"

// Random programs of tensors with views, autocast, work in place and functions of torch::autograd, run eagerly and
// captured: the values must be the same to the last bit, replays with live inputs must not be refused, and those with a
// freed one must be. A program that fails is shrunk and printed.
//
// REPRISE_TENSOR_PROGRAMS is the number of programs, REPRISE_TENSOR_SEED the seed of the first.

namespace reprise::libtorch::test {
namespace {

constexpr std::int64_t largest = 8;  // rows and columns

enum class Kind { add, multiply, matmul, relu, softmax, row_sums, add_in_place, slice, transpose, row, function, drop };
constexpr int kinds = static_cast<int>(Kind::drop) + 1;
const char* const kind_names[kinds] = {"add",          "multiply", "matmul",    "relu", "softmax",  "row_sums",
                                       "add_in_place", "slice",    "transpose", "row",  "function", "drop"};

/// Operands are numbers of values, modulo how many there are: a program without some of its steps is one, too.
struct Step {
  Kind kind = Kind::add;
  unsigned a = 0, b = 0;
  std::int64_t start = 0;  // of a slice or row, modulo the rows
  bool autocast = false;   // steps in a row share one scope
};

struct TensorProgram {
  std::uint64_t seed = 0;
  unsigned data = 0, weights = 0;  // inputs: those that steps may change, and those that need a gradient
  bool outer_autocast = false;     // one scope around the eager run and the capture
  std::vector<Step> steps = {};
};

TensorProgram generate(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
  TensorProgram program{.seed = seed, .data = 1 + below(3), .weights = 1 + below(3), .outer_autocast = below(3) == 0};
  const unsigned steps = 1 + below(12);
  bool autocast = false;
  for (unsigned i = 0; i < steps; ++i) {
    if (below(4) == 0) autocast = !autocast;
    program.steps.push_back({static_cast<Kind>(below(kinds)), below(64), below(64), below(largest), autocast});
  }
  return program;
}

std::string text_of(const TensorProgram& program) {
  std::string text = "seed " + std::to_string(program.seed) + ", " + std::to_string(program.data) + " inputs, " +
                     std::to_string(program.weights) + " weights" + (program.outer_autocast ? ", in autocast" : "");
  for (const Step& step : program.steps)
    text += std::string("\n  ") + kind_names[static_cast<int>(step.kind)] + " " + std::to_string(step.a) + " " +
            std::to_string(step.b) + " " + std::to_string(step.start) + (step.autocast ? " autocast" : "");
  return text;
}

// Without autograd inside: its operators are those of a custom function.
struct ScaleOperator : torch::autograd::Function<ScaleOperator> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x, const Tensor& scale) { return x * scale; }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext*, torch::autograd::tensor_list grads) {
    return {grads[0], Tensor()};
  }
};

// Takes as much of b as has the size of a, else one element, which is broadcast.
Tensor fitting(const Tensor& b, const Tensor& a) {
  if (b.size(0) < a.size(0) || b.size(1) < a.size(1)) return b.select(0, 0).select(0, 0);
  return b.slice(0, 0, a.size(0)).slice(1, 0, a.size(1));
}

Tensor result_of(const Step& step, const Tensor& a, const Tensor& b) {
  switch (step.kind) {
    case Kind::add:
      return a + fitting(b, a);
    case Kind::multiply:
      return a * fitting(b, a);
    case Kind::matmul:
      return torch::matmul(a, a.t()) * 0.125;
    case Kind::relu:
      return torch::relu(a);
    case Kind::softmax:
      return torch::softmax(a, 1);
    case Kind::row_sums:
      return a.sum(1, /*keepdim=*/true);
    case Kind::add_in_place: {
      if (a.requires_grad()) return a * 0.5;  // a weight, or made of one
      Tensor target = a;                      // the other operand may be the same memory
      return target.add_(fitting(b, a).detach().clone(), 0.5);
    }
    case Kind::slice:
      return a.slice(0, step.start % a.size(0)).slice(1, step.start % a.size(1));
    case Kind::transpose:
      return a.t();
    case Kind::row:
      return a.select(0, step.start % a.size(0)).unsqueeze(0);
    case Kind::function:
      return ScaleOperator::apply(a, b.select(0, 0).select(0, 0));
    case Kind::drop:
      break;
  }
  return {};
}

/// Which inputs a kernel of the program reads or writes, found without running it.
std::vector<bool> used_inputs(const TensorProgram& program) {
  struct Value {
    std::optional<std::size_t> input;  // whose memory it is
    bool has_grad;
  };
  std::vector<Value> values;
  const std::size_t inputs = program.data + program.weights;
  for (std::size_t i = 0; i < inputs; ++i) values.push_back({i, i >= program.data});
  std::vector<bool> used(inputs);
  for (const Step& step : program.steps) {
    if (step.kind == Kind::drop) {
      if (values.size() > inputs)
        values.erase(values.begin() + static_cast<std::ptrdiff_t>(inputs + step.a % (values.size() - inputs)));
      continue;
    }
    const Value a = values[step.a % values.size()], b = values[step.b % values.size()];
    if (step.kind == Kind::slice || step.kind == Kind::transpose || step.kind == Kind::row) {
      values.push_back(a);
      continue;
    }
    const bool in_place = step.kind == Kind::add_in_place && !a.has_grad;
    const bool uses_b =
        step.kind == Kind::add || step.kind == Kind::multiply || step.kind == Kind::function || in_place;
    if (a.input) used[*a.input] = true;
    if (uses_b && b.input) used[*b.input] = true;
    if (in_place)
      values.push_back(a);
    else
      values.push_back({std::nullopt, a.has_grad || (uses_b && b.has_grad)});
  }
  return used;
}

using Tensors = std::vector<Tensor>;

/// Runs the program, and returns what it leaves besides the inputs.
Tensors run(const TensorProgram& program, const Tensors& inputs, c10::DeviceType device) {
  Tensors values = inputs;
  std::optional<Autocast> autocast;
  for (const Step& step : program.steps) {
    if (!step.autocast)
      autocast.reset();
    else if (!autocast)
      autocast.emplace(torch::kBFloat16, device);
    if (step.kind == Kind::drop) {
      if (values.size() > inputs.size())
        values.erase(values.begin() +
                     static_cast<std::ptrdiff_t>(inputs.size() + step.a % (values.size() - inputs.size())));
      continue;
    }
    values.push_back(result_of(step, values[step.a % values.size()], values[step.b % values.size()]));
  }
  return {values.begin() + static_cast<std::ptrdiff_t>(inputs.size()), values.end()};
}

/// The bytes, of NaNs, too.
std::string bytes_of(const Tensor& tensor) {
  const Tensor here = tensor.detach().to(torch::kCPU).to(torch::kFloat).contiguous();
  return {static_cast<const char*>(here.data_ptr()), here.nbytes()};
}

class RandomTensorPrograms : public OnDevice {
 protected:
  /// Empty if the program does the same eagerly and captured, else what differs.
  std::string check(const TensorProgram& program, const TensorProgram& captured_program) const {
    Tensors weights, data, data_of_graph;
    for (unsigned i = 0; i < program.weights; ++i)
      weights.push_back(torch::rand({largest, largest}, device_).requires_grad_());
    for (unsigned i = 0; i < program.data; ++i) {
      data.push_back(torch::rand({largest >> (i % 2), largest}, device_));
      data_of_graph.push_back(data.back().clone());
    }
    const auto with_weights = [&](Tensors inputs) {
      inputs.insert(inputs.end(), weights.begin(), weights.end());
      return inputs;
    };
    std::optional<Autocast> outer;
    if (program.outer_autocast) outer.emplace(torch::kBFloat16, device_.type());

    Tensors expected, results;
    for (int i = 0; i < 2; ++i) expected = run(program, with_weights(data), device_.type());
    CUDAGraph graph;
    capture(graph, {.allow_empty = true, .check_input_liveness = true},
            [&] { results = run(captured_program, with_weights(data_of_graph), device_.type()); });
    outer.reset();
    try {
      for (int i = 0; i < 2; ++i) graph.replay(stream_);
    } catch (const DeadInputError& error) {
      return std::string("a live input was refused: ") + error.what();
    }
    if (expected.size() != results.size()) return "other results";
    for (std::size_t i = 0; i < expected.size(); ++i)
      if (bytes_of(expected[i]) != bytes_of(results[i])) return "result " + std::to_string(i) + " differs";
    for (std::size_t i = 0; i < data.size(); ++i)
      if (bytes_of(data[i]) != bytes_of(data_of_graph[i])) return "input " + std::to_string(i) + " differs";
    results.clear();
    expected.clear();
    Tensors inputs = with_weights(std::move(data_of_graph));
    weights.clear();
    return check_freed_input(captured_program, graph, inputs);
  }

  /// One input is freed: replays must be refused if, and only if, a kernel of the program uses it.
  std::string check_freed_input(const TensorProgram& program, CUDAGraph& graph, Tensors& inputs) const {
    const std::size_t which = program.seed % inputs.size();
    const bool used = used_inputs(program)[which];
    inputs[which] = Tensor();
    try {
      graph.replay(stream_);
    } catch (const DeadInputError& error) {
      return used ? "" : std::string("freed memory that is not used was refused: ") + error.what();
    }
    return used ? "a replay without input " + std::to_string(which) + " was not refused" : "";
  }

  /// Without the steps that the failure does not need.
  template <class Fails>
  static TensorProgram shrink(TensorProgram program, const Fails& fails) {
    for (std::size_t i = program.steps.size(); i-- > 0;) {
      TensorProgram smaller = program;
      smaller.steps.erase(smaller.steps.begin() + static_cast<std::ptrdiff_t>(i));
      if (fails(smaller)) program = std::move(smaller);
    }
    return program;
  }
};

TEST_F(RandomTensorPrograms, DoTheSameEagerlyAndCapturedAndNoticeFreedInputs) {
  const std::uint64_t first = reprise::test::environment_number("REPRISE_TENSOR_SEED", 1);
  const std::uint64_t programs = reprise::test::environment_number("REPRISE_TENSOR_PROGRAMS", 60);
  for (std::uint64_t seed = first; seed < first + programs; ++seed) {
    const TensorProgram program = generate(seed);
    const std::string found = check(program, program);
    if (found.empty()) continue;
    const TensorProgram small = shrink(program, [&](const TensorProgram& each) { return check(each, each) != ""; });
    FAIL() << found << "\n" << text_of(program) << "\nshrunk: " << check(small, small) << "\n" << text_of(small);
  }
}

TEST_F(RandomTensorPrograms, AStepThatTheCaptureLacksIsFound) {
  TensorProgram program = generate(7);
  program.steps = {{Kind::relu, 0, 0, 0, false}, {Kind::add_in_place, 0, 1, 0, false}, {Kind::softmax, 1, 0, 0, false}};
  TensorProgram lacking = program;
  lacking.steps[1].kind = Kind::slice;
  EXPECT_EQ(check(program, program), "");
  EXPECT_NE(check(program, lacking), "");
}

}  // namespace
}  // namespace reprise::libtorch::test
