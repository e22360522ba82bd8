// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <iterator>
#include <set>

#include "libtorch/host/host_generator.h"
#include "tests/libtorch/host/host_device_fixture.h"
#include "tests/libtorch/operators/operator_sweep.h"

// Sweeps the tables of operators: eager against the CPU, and graphed against eager.

namespace reprise::libtorch::test {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t poison = 0x5A5A5A5A5A5A5A5A;

struct Results {
  Tensors outputs, gradients;
};

bool can_have_gradient(const torch::Tensor& tensor) {
  return tensor.is_floating_point() || tensor.is_complex();
}

Tensors leaves_of(const SweptOperator& op, const Tensors& inputs, torch::Device device) {
  Tensors leaves;
  for (const auto& input : inputs) {
    leaves.push_back(device.is_cpu() ? input.detach().clone() : input.detach().to(device));
    leaves.back().set_requires_grad(op.differentiated && can_have_gradient(input));
  }
  return leaves;
}

// Forward, and backward with the given gradients of the outputs, one for each that depends on an input.
Results run(const SweptOperator& op, const Tensors& inputs, const Tensors& given) {
  Results results{op.call(inputs).tensors, {}};
  if (!op.differentiated) return results;
  Tensors outputs, leaves;
  for (const auto& output : results.outputs)
    if (output.requires_grad()) outputs.push_back(output);
  for (const auto& input : inputs)
    if (input.requires_grad()) leaves.push_back(input);
  results.gradients = torch::autograd::grad(outputs, leaves, given, {}, false, true);
  return results;
}

void expect_matches(const Tensors& expected, const Tensors& found, double tolerance, const char* what) {
  ASSERT_EQ(expected.size(), found.size()) << what;
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(matches(expected[i], found[i], tolerance)) << what << ' ' << i;
}

void expect_matches(const Results& expected, const Results& found, double tolerance) {
  expect_matches(expected.outputs, found.outputs, tolerance, "output");
  expect_matches(expected.gradients, found.gradients, tolerance, "gradient");
}

bool all_match(const Tensors& a, const Tensors& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const torch::Tensor& x, const torch::Tensor& y) { return bool{matches(x, y, 0)}; });
}

Results copied(const Results& results) {
  Results copies;
  for (const auto& each : results.outputs) copies.outputs.push_back(each.detach().cpu());
  for (const auto& each : results.gradients) copies.gradients.push_back(each.defined() ? each.cpu() : each);
  return copies;
}

class OperatorSweep : public OnHostDevice, public ::testing::WithParamInterface<SweptGroup> {
 protected:
  OperatorSweep() {
    captured_.pool = graph_pool_handle();
    captured_.stream = stream_;
    captured_.allow_empty = true;  // a view is no work
    capture(poisoning_, captured_, [&] {
      for (int i = 0; i < 4; ++i) kept_.push_back(torch::full({1 << 16}, poison, options(torch::kLong)));
    });
    kept_.clear();  // the memory is the pool's again, and the next captures get it
  }

  torch::TensorOptions options(torch::Dtype dtype) const { return torch::dtype(dtype).device(device_); }

  void sweep(const SweptOperator& op) {
    const Tensors values = make_inputs(op, 1);
    const Tensors on_cpu = leaves_of(op, values, torch::kCPU), inputs = leaves_of(op, values, device_);
    Results wanted{op.call(on_cpu).tensors, {}};
    gradients_.clear();
    for (const auto& output : wanted.outputs)
      if (op.differentiated && output.requires_grad())
        gradients_.push_back(torch::randn(output.sizes(), output.options().requires_grad(false)));
    EXPECT_EQ(op.differentiated, !gradients_.empty()) << "what the table says of its backward is not so";
    wanted = run(op, leaves_of(op, values, torch::kCPU), gradients_);
    for (auto& gradient : gradients_) gradient = here(gradient);

    const Results found = run(op, inputs, gradients_);
    expect_like_cpu(op, on_cpu, inputs, wanted, found);
    if (!op.writes_inputs) expect_matches(values, inputs, 0, "the eager operator changed input");
    expect_replays_as_eager(op);
  }

  void expect_like_cpu(const SweptOperator& op, const Tensors& on_cpu, const Tensors& inputs, const Results& wanted,
                       const Results& found) const {
    ASSERT_EQ(wanted.outputs.size(), found.outputs.size());
    for (std::size_t i = 0; i < found.outputs.size(); ++i) {
      const auto &expected = wanted.outputs[i], &output = found.outputs[i];
      EXPECT_TRUE(output.is_privateuseone()) << "output " << i;
      EXPECT_EQ(expected.scalar_type(), output.scalar_type()) << "output " << i;
      EXPECT_EQ(expected.sizes(), output.sizes()) << "output " << i;
      EXPECT_EQ(expected.strides(), output.strides()) << "output " << i;
    }
    if (!op.draws) expect_matches(wanted, found, op.tolerance);
    const Tensors again = op.call(on_cpu).tensors;
    for (std::size_t i = 0; i < again.size() && !op.draws; ++i)
      for (std::size_t j = 0; j < inputs.size(); ++j)
        EXPECT_EQ(again[i].is_alias_of(on_cpu[j]), found.outputs[i].is_alias_of(inputs[j]))
            << "output " << i << " and input " << j << " share memory here, or on the CPU, and not on both";
  }

  // The same as eager runs from the same seed: two, which differ in random numbers, on each of two sets of values.
  void expect_replays_as_eager(const SweptOperator& op) {
    poisoning_.replay();
    const Tensors inputs = leaves_of(op, make_inputs(op, 1), device_);
    CUDAGraph graph;
    Results graphed;
    capture(graph, captured_, [&] { graphed = run(op, inputs, gradients_); });
    expect_nothing_ran(op, inputs, graphed);
    for (const std::uint64_t seed : {2U, 3U}) {
      const Tensors values = make_inputs(op, seed);
      const int runs = op.draws ? 2 : 1;
      std::vector<Results> eager, replayed;
      seed_host_device(seed);
      for (int i = 0; i < runs; ++i) eager.push_back(run(op, leaves_of(op, values, device_), gradients_));
      seed_host_device(seed);
      for (int i = 0; i < runs; ++i) {
        const torch::NoGradGuard no_gradient;
        for (std::size_t j = 0; j < inputs.size(); ++j) inputs[j].copy_(values[j]);
        graph.replay(stream_);
        replayed.push_back(copied(graphed));
        expect_matches(eager[static_cast<std::size_t>(i)], replayed.back(), 0);
      }
      if (op.draws) {
        EXPECT_FALSE(all_match(replayed[0].outputs, replayed[1].outputs)) << "two replays drew the same";
      }
      if (!op.writes_inputs) expect_matches(values, inputs, 0, "the replay changed input");
    }
  }

  // What a capture allocates has the bytes that were there before.
  void expect_nothing_ran(const SweptOperator& op, const Tensors& inputs, const Results& graphed) const {
    for (const Tensors* all : {&graphed.outputs, &graphed.gradients}) {
      for (const auto& tensor : *all) {
        if (!tensor.defined() || tensor.numel() == 0) continue;
        const auto shares = [&](const torch::Tensor& other) { return tensor.is_alias_of(other); };
        if (std::any_of(inputs.begin(), inputs.end(), shares)) continue;
        if (std::any_of(gradients_.begin(), gradients_.end(), shares)) continue;
        const auto first = packed_bytes(tensor);
        EXPECT_TRUE((first == (poison & 0xFF)).all().item<bool>()) << "something ran in the capture";
      }
    }
    if (op.writes_inputs) expect_matches(make_inputs(op, 1), inputs, 0, "the capture changed input");
  }

  static torch::Tensor packed_bytes(const torch::Tensor& tensor) {
    auto plain = tensor.detach();
    if (plain.is_conj()) plain = plain.conj();
    if (plain.is_neg()) plain = plain._neg_view();
    return plain.cpu().contiguous().flatten().view(torch::kByte);
  }

  void seed_host_device(std::uint64_t seed) const {
    at::Generator generator = default_host_generator(device_.index());
    generator.set_current_seed(seed);
  }

  GraphOptions captured_;
  CUDAGraph poisoning_;
  Tensors kept_, gradients_;
};

TEST_P(OperatorSweep, GivesTheCpusResultsEagerlyAndTheSameReplayed) {
  for (const SweptOperator& op : GetParam().operators()) {
    SCOPED_TRACE(op.name);
    try {
      sweep(op);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, OperatorSweep, ::testing::ValuesIn(swept_groups()),
                         [](const auto& param) { return param.param.name; });

using OperatorsOnHostDevice = OnHostDevice;

void expect_refused(const SweptOperator& op, const Tensors& inputs) {
  auto x = torch::ones({4}, inputs[0].options().dtype(torch::kFloat));
  CUDAGraph graph;
  try {
    capture(graph, [&] {
      x.add_(1);
      static_cast<void>(op.call(inputs));
    });
    ADD_FAILURE() << "nothing was refused";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("aten::"));
    EXPECT_THAT(error.what(), HasSubstr(result_name(ErrorCode::stream_capture_unsupported)));
  }
  capture(graph, [&] { x.add_(2); });
  graph.replay();
  EXPECT_EQ(x.sum().item<float>(), 12) << "what was captured before the error ran, or the graph is of no use";
}

TEST_F(OperatorsOnHostDevice, WaitEagerlyWhereTheirResultsDependOnValuesAndAreRefusedInACapture) {
  for (const SweptOperator& op : values::value_dependent_operators()) {
    SCOPED_TRACE(op.name);
    try {
      const Tensors values = make_inputs(op, 1);
      Tensors inputs;
      for (const auto& value : values) inputs.push_back(here(value));
      const Tensors wanted = op.call(values).tensors, found = op.call(inputs).tensors;
      expect_matches(wanted, found, op.tolerance, "output");
      expect_refused(op, inputs);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

TEST_F(OperatorsOnHostDevice, ThatDoNotWorkSaySo) {
  for (const auto& [op, text] : values::refused_operators()) {
    SCOPED_TRACE(op.name);
    Tensors inputs;
    for (const auto& value : make_inputs(op, 1)) inputs.push_back(here(value));
    try {
      static_cast<void>(op.call(inputs));
      default_device().synchronize();
      ADD_FAILURE() << "it works: to be taken off this table";
    } catch (const std::exception& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
    EXPECT_EQ(torch::ones({2}, device_).sum().item<float>(), 2);
  }
}

TEST_F(OperatorsOnHostDevice, AreMoreThanAHundredAndFifty) {
  std::set<std::string> names;
  std::size_t backward = 0;
  for (const SweptGroup& group : swept_groups()) {
    std::string line = group.name + ':';
    for (const SweptOperator& op : group.operators()) {
      EXPECT_TRUE(names.insert(op.name).second) << op.name << " is there twice";
      backward += op.differentiated ? 1 : 0;
      line += ' ' + op.name;
    }
    std::printf("%s\n", line.c_str());
  }
  std::printf("swept %zu operators, %zu with backward, and %zu whose results depend on values; %zu do not work\n",
              names.size(), backward, values::value_dependent_operators().size(), values::refused_operators().size());
  EXPECT_GE(names.size(), 150U);
}

}  // namespace
}  // namespace reprise::libtorch::test
