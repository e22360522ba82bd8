// SPDX-License-Identifier: Apache-2.0
#include "tests/libtorch/both_devices/tensor_program.h"

#include <torch/torch.h>

#include <optional>
#include <random>

#include "tests/libtorch/host/autocast.h"

namespace reprise::libtorch::test {
namespace {

using torch::Tensor;
using Step = TensorProgram::Step;
using Kind = TensorStep;

constexpr int kinds = static_cast<int>(Kind::drop) + 1;
const char* const kind_names[kinds] = {
    "add",           "multiply", "matmul",    "relu",    "softmax",      "row_sums",       "scale",
    "copy",          "zeros",    "random",    "dropout", "add_in_place", "scale_in_place", "copy_in_place",
    "draw_in_place", "slice",    "transpose", "row",     "function",     "child",          "drop"};

const char* name(Kind kind) {
  return kind_names[static_cast<int>(kind)];
}

bool is_in_place(Kind kind) {
  return kind >= Kind::add_in_place && kind <= Kind::draw_in_place;
}

bool is_view(Kind kind) {
  return kind == Kind::slice || kind == Kind::transpose || kind == Kind::row;
}

bool reads_second(Kind kind) {
  return kind == Kind::add || kind == Kind::multiply || kind == Kind::function || kind == Kind::add_in_place ||
         kind == Kind::copy_in_place;
}

bool draws(Kind kind) {
  return kind == Kind::random || kind == Kind::dropout || kind == Kind::draw_in_place;
}

// Without autograd inside: its operators are those of a custom function.
struct ScaleOperator : torch::autograd::Function<ScaleOperator> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x, const Tensor& scale) { return x * scale; }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext*, torch::autograd::tensor_list grads) {
    return {grads[0], Tensor()};
  }
};

double factor_of(int version) {
  return version == 0 ? 0.75 : -0.5;
}

// Takes as much of b as has the size of a, else one element, which is broadcast.
Tensor fitting(const Tensor& b, const Tensor& a) {
  if (b.size(0) < a.size(0) || b.size(1) < a.size(1)) return b.select(0, 0).select(0, 0);
  return b.slice(0, 0, a.size(0)).slice(1, 0, a.size(1));
}

// The other operand may be the same memory.
Tensor change_in_place(const Step& step, Tensor target, const Tensor& b, int version) {
  switch (step.kind) {
    case Kind::add_in_place:
      return target.add_(fitting(b, target).detach().clone(), 0.5);
    case Kind::scale_in_place:
      return target.mul_(factor_of(version));
    case Kind::copy_in_place:
      return target.copy_(fitting(b, target).detach().clone());
    default:
      return step.start % 2 == 0 ? target.uniform_() : target.normal_();
  }
}

Tensor result_of(const Step& step, const Tensor& a, const Tensor& b, int version) {
  if (is_in_place(step.kind)) return a.requires_grad() ? a * 0.5 : change_in_place(step, a, b, version);
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
    case Kind::scale:
      return a * factor_of(version) + 1;
    case Kind::copy:
      return torch::empty_like(a.detach(), a.options().requires_grad(false), torch::MemoryFormat::Contiguous)
          .copy_(a.detach());
    case Kind::zeros:
      return torch::zeros_like(a.detach());
    case Kind::random:
      return a + torch::rand_like(a.detach());
    case Kind::dropout:
      return torch::dropout(a, 0.25, /*train=*/true);
    case Kind::slice:
      return a.slice(0, step.start % a.size(0)).slice(1, step.start % a.size(1));
    case Kind::transpose:
      return a.t();
    case Kind::row:
      return a.select(0, step.start % a.size(0)).unsqueeze(0);
    default:
      return ScaleOperator::apply(a, b.select(0, 0).select(0, 0));
  }
}

std::string text_of(const Step& step) {
  return std::string(name(step.kind)) + " " + std::to_string(step.a) + " " + std::to_string(step.b) + " " +
         std::to_string(step.start) + (step.autocast ? " autocast" : "");
}

}  // namespace

TensorProgram generate_tensor_program(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
  TensorProgram program{.seed = seed, .data = 1 + below(3), .weights = 1 + below(3), .outer_autocast = below(3) == 0};
  for (unsigned i = below(3); i > 0; --i) {
    TensorProgram::Body& body = program.bodies.emplace_back();
    body.by_replay = below(2) == 0;
    for (unsigned steps = 1 + below(3); steps > 0; --steps)
      body.steps.push_back({static_cast<Kind>(static_cast<unsigned>(Kind::add_in_place) + below(4)), below(64),
                            below(64), below(largest_input)});
  }
  const unsigned steps = 1 + below(12);
  bool autocast = false;
  for (unsigned i = 0; i < steps; ++i) {
    if (below(4) == 0) autocast = !autocast;
    auto kind = static_cast<Kind>(below(kinds));
    if (below(6) == 0) kind = Kind::child;
    if (kind == Kind::child && program.bodies.empty()) kind = Kind::scale;
    program.steps.push_back({kind, below(64), below(64), below(largest_input), autocast});
  }
  for (unsigned i = below(3); i > 0; --i)
    program.changes.push_back(below(2) == 0 ? TensorProgram::Change::update : TensorProgram::Change::recapture);
  return program;
}

std::string text_of(const TensorProgram& program) {
  std::string text = "seed " + std::to_string(program.seed) + ", " + std::to_string(program.data) + " inputs, " +
                     std::to_string(program.weights) + " weights" + (program.outer_autocast ? ", in autocast" : "");
  for (const TensorProgram::Change change : program.changes)
    text += change == TensorProgram::Change::update ? ", update" : ", recapture";
  for (const TensorProgram::Body& body : program.bodies) {
    text += body.by_replay ? "\n  body, by replay" : "\n  body, by add_child";
    for (const Step& step : body.steps) text += "\n    " + text_of(step);
  }
  for (const Step& step : program.steps) text += "\n  " + text_of(step);
  return text;
}

std::set<std::string> features(const TensorProgram& program) {
  std::set<std::string> found;
  bool autocast = program.outer_autocast, random = false;
  for (const Step& step : program.steps) {
    found.insert(name(step.kind));
    autocast = autocast || step.autocast;
    random = random || draws(step.kind);
    if (step.kind != Kind::child) continue;
    const TensorProgram::Body& body = program.bodies[step.a % program.bodies.size()];
    found.insert(body.by_replay ? "children by replay()" : "children by add_child()");
    for (const Step& inner : body.steps)
      if (draws(inner.kind)) found.insert("random numbers in children");
  }
  if (random) found.insert("random numbers");
  if (autocast) found.insert("autocast");
  for (const TensorProgram::Change change : program.changes)
    found.insert(change == TensorProgram::Change::update ? "updates" : "recaptures");
  return found;
}

Tensors run_steps(const TensorProgram& program, const Tensors& inputs, c10::DeviceType device, int version,
                  const std::function<void(std::size_t)>& run_child) {
  Tensors values = inputs;
  std::optional<Autocast> autocast;
  for (const Step& step : program.steps) {
    if (!step.autocast)
      autocast.reset();
    else if (!autocast)
      autocast.emplace(torch::kBFloat16, device);
    if (step.kind == Kind::child) {
      run_child(step.a % program.bodies.size());
      continue;
    }
    if (step.kind == Kind::drop) {
      if (values.size() > inputs.size())
        values.erase(values.begin() +
                     static_cast<std::ptrdiff_t>(inputs.size() + step.a % (values.size() - inputs.size())));
      continue;
    }
    values.push_back(result_of(step, values[step.a % values.size()], values[step.b % values.size()], version));
  }
  return {values.begin() + static_cast<std::ptrdiff_t>(inputs.size()), values.end()};
}

void run_body(const TensorProgram::Body& body, const Tensors& data, int version) {
  for (const Step& step : body.steps)
    change_in_place(step, data[step.a % data.size()], data[step.b % data.size()], version);
}

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
    if (step.kind == Kind::child) {
      for (const Step& inner : program.bodies[step.a % program.bodies.size()].steps) {
        used[inner.a % program.data] = true;
        if (reads_second(inner.kind)) used[inner.b % program.data] = true;
      }
      continue;
    }
    if (step.kind == Kind::drop) {
      if (values.size() > inputs)
        values.erase(values.begin() + static_cast<std::ptrdiff_t>(inputs + step.a % (values.size() - inputs)));
      continue;
    }
    const Value a = values[step.a % values.size()], b = values[step.b % values.size()];
    const bool in_place = is_in_place(step.kind) && !a.has_grad;
    const bool uses_b = reads_second(step.kind) && (in_place || !is_in_place(step.kind));
    if (!is_view(step.kind)) {
      if (a.input && step.kind != Kind::zeros) used[*a.input] = true;
      if (uses_b && b.input) used[*b.input] = true;
    }
    const bool detached = step.kind == Kind::copy || step.kind == Kind::zeros;
    if (in_place || is_view(step.kind))
      values.push_back(a);
    else
      values.push_back({std::nullopt, !detached && (a.has_grad || (uses_b && b.has_grad))});
  }
  return used;
}

}  // namespace reprise::libtorch::test
