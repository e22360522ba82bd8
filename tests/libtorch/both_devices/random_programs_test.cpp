// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/libtorch/both_devices/device_fixture.h"
#include "tests/libtorch/both_devices/tensor_program.h"
#include "tests/libtorch/host/autocast.h"
#include "tests/support/environment_number.h"

// Random programs of tensors, run eagerly and captured, with children, updates and recaptures: the values must be the
// same to the last bit, changes are made in place, replays with live inputs must not be refused, and those with a freed
// one must be. A program that fails is shrunk and printed; the run ends with the number of programs that have each
// feature.
//
// REPRISE_TENSOR_PROGRAMS is the number of programs, REPRISE_TENSOR_SEED the seed of the first.

namespace reprise::libtorch::test {
namespace {

/// The bytes, of NaNs, too.
std::string bytes_of(const Tensor& tensor) {
  const Tensor here = tensor.detach().to(torch::kCPU).to(torch::kFloat).contiguous();
  return {static_cast<const char*>(here.data_ptr()), here.nbytes()};
}

std::vector<std::string> bytes_of(const Tensors& tensors) {
  std::vector<std::string> bytes;
  for (const Tensor& tensor : tensors) bytes.push_back(bytes_of(tensor));
  return bytes;
}

/// What two runs of one version leave.
struct Left {
  std::vector<std::string> results, data;
};

std::string difference(const Left& expected, const Left& found) {
  if (expected.results.size() != found.results.size()) return "other results";
  for (std::size_t i = 0; i < expected.results.size(); ++i)
    if (expected.results[i] != found.results[i]) return "result " + std::to_string(i) + " differs";
  for (std::size_t i = 0; i < expected.data.size(); ++i)
    if (expected.data[i] != found.data[i]) return "input " + std::to_string(i) + " differs";
  return "";
}

constexpr int runs = 2;  // of each version

class RandomTensorPrograms : public OnDevice {
 protected:
  /// Empty if the program does the same eagerly and captured, else what differs.
  std::string check(const TensorProgram& program, const TensorProgram& captured_program) {
    torch::manual_seed(program.seed);
    weights_.clear();
    data_.clear();
    for (unsigned i = 0; i < program.weights; ++i)
      weights_.push_back(torch::rand({largest_input, largest_input}, device_).requires_grad_());
    Tensors data_of_graph;
    for (unsigned i = 0; i < program.data; ++i) {
      data_.push_back(torch::rand({largest_input >> (i % 2), largest_input}, device_));
      data_of_graph.push_back(data_.back().clone());
    }
    std::optional<Autocast> outer;
    if (program.outer_autocast) outer.emplace(torch::kBFloat16, device_.type());

    torch::manual_seed(program.seed + 1);
    std::vector<Left> expected;
    for (std::size_t phase = 0; phase <= program.changes.size(); ++phase)
      expected.push_back(run_eagerly(program, phase));
    const std::string next_number = bytes_of(torch::rand({1}, device_));

    torch::manual_seed(program.seed + 1);
    data_ = std::move(data_of_graph);
    CUDAGraph graph;
    for (std::size_t phase = 0; phase < expected.size(); ++phase) {
      if (std::string why = capture_phase(captured_program, phase, graph); !why.empty()) return why;
      try {
        for (int i = 0; i < runs; ++i) graph.replay(stream_);
      } catch (const DeadInputError& error) {
        return std::string("a live input was refused: ") + error.what();
      }
      const std::string found = difference(expected[phase], {bytes_of(results_), bytes_of(data_)});
      if (!found.empty()) return found + (phase == 0 ? "" : " after change " + std::to_string(phase));
    }
    if (bytes_of(torch::rand({1}, device_)) != next_number) return "the generator is elsewhere";
    outer.reset();
    results_.clear();
    return check_freed_input(captured_program, graph);
  }

  Tensors inputs() const {
    Tensors all = data_;
    all.insert(all.end(), weights_.begin(), weights_.end());
    return all;
  }

  static int version_in(std::size_t phase) { return static_cast<int>(phase % 2); }

  Left run_eagerly(const TensorProgram& program, std::size_t phase) const {
    const int version = version_in(phase);
    Tensors results;
    for (int i = 0; i < runs; ++i)
      results = run_steps(program, inputs(), device_.type(), version,
                          [&](std::size_t body) { run_body(program.bodies[body], data_, version); });
    return {bytes_of(results), bytes_of(data_)};
  }

  /// Captures the program in its version, at first or as a change of the graph. Returns why a change was refused.
  std::string capture_phase(const TensorProgram& program, std::size_t phase, CUDAGraph& graph) {
    const GraphOptions options{.allow_empty = true, .check_input_liveness = true};
    const int version = version_in(phase);
    std::vector<CUDAGraph> children(program.bodies.size());
    for (std::size_t i = 0; i < children.size(); ++i)
      capture(children[i], options, [&] { run_body(program.bodies[i], data_, version); });
    Tensors results;
    const auto body = [&] {
      results = run_steps(program, inputs(), device_.type(), version, [&](std::size_t i) {
        if (program.bodies[i].by_replay)
          children[i].replay();
        else
          add_child(children[i]);
      });
    };
    std::string refused;
    if (phase == 0) {
      capture(graph, options, body);
    } else if (program.changes[phase - 1] == TensorProgram::Change::recapture) {
      const Recapture made = graph.recapture(body);
      if (!made.in_place) refused = "a recapture was not made in place: " + made.reason;
    } else {
      CUDAGraph other;
      capture(other, options, body);
      try {
        graph.update(other);
      } catch (const GraphUpdateError& error) {
        refused = error.what();
      }
    }
    results_ = std::move(results);
    return refused;
  }

  /// One input is freed: replays must be refused if, and only if, a kernel of the program uses it.
  std::string check_freed_input(const TensorProgram& program, CUDAGraph& graph) {
    Tensors all = inputs();
    data_.clear();
    weights_.clear();
    const std::size_t which = program.seed % all.size();
    const bool used = used_inputs(program)[which];
    all[which] = Tensor();
    try {
      graph.replay(stream_);
    } catch (const DeadInputError& error) {
      return used ? "" : std::string("freed memory that is not used was refused: ") + error.what();
    }
    return used ? "a replay without input " + std::to_string(which) + " was not refused" : "";
  }

  /// Without the steps and changes that the failure does not need.
  template <class Fails>
  static TensorProgram shrink(TensorProgram program, const Fails& fails) {
    const auto without = [&](auto member_of) {
      for (std::size_t i = member_of(program).size(); i-- > 0;) {
        TensorProgram smaller = program;
        auto& list = member_of(smaller);
        list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
        if (fails(smaller)) program = std::move(smaller);
      }
    };
    without([](TensorProgram & each) -> auto& { return each.changes; });
    without([](TensorProgram & each) -> auto& { return each.steps; });
    for (std::size_t body = 0; body < program.bodies.size(); ++body)
      without([body](TensorProgram & each) -> auto& { return each.bodies[body].steps; });
    return program;
  }

  Tensors data_, weights_, results_;
};

TEST_F(RandomTensorPrograms, DoTheSameEagerlyAndCapturedAndNoticeFreedInputs) {
  const std::uint64_t first = reprise::test::environment_number("REPRISE_TENSOR_SEED", 1);
  const std::uint64_t programs = reprise::test::environment_number("REPRISE_TENSOR_PROGRAMS", 60);
  std::map<std::string, std::uint64_t> having;
  for (std::uint64_t seed = first; seed < first + programs; ++seed) {
    const TensorProgram program = generate_tensor_program(seed);
    for (const std::string& feature : features(program)) ++having[feature];
    const std::string found = check(program, program);
    if (found.empty()) continue;
    const TensorProgram small = shrink(program, [&](const TensorProgram& each) { return check(each, each) != ""; });
    FAIL() << found << "\n" << text_of(program) << "\nshrunk: " << check(small, small) << "\n" << text_of(small);
  }
  for (const auto& [feature, count] : having)
    std::printf("%7llu programs with %s\n", static_cast<unsigned long long>(count), feature.c_str());
  std::printf("%llu programs of tensors from seed %llu on: eager and replayed left the same values\n",
              static_cast<unsigned long long>(programs), static_cast<unsigned long long>(first));
}

TEST_F(RandomTensorPrograms, AStepThatTheCaptureLacksIsFound) {
  TensorProgram program{.seed = 7, .data = 1, .weights = 1};
  program.bodies = {{{{TensorStep::draw_in_place, 0, 0, 0, false}}}, {{{TensorStep::scale_in_place, 0, 0, 0, false}}}};
  program.steps = {{TensorStep::relu, 0, 0, 0, false},
                   {TensorStep::child, 0, 0, 0, false},
                   {TensorStep::add_in_place, 0, 1, 0, false},
                   {TensorStep::softmax, 1, 0, 0, false}};
  program.changes = {TensorProgram::Change::update, TensorProgram::Change::recapture};
  EXPECT_EQ(check(program, program), "");
  TensorProgram without_sum = program, without_draw = program;
  without_sum.steps[2].kind = TensorStep::slice;
  without_draw.steps[1].a = 1;  // the other child
  EXPECT_EQ(check(program, without_sum), "result 0 differs");
  EXPECT_EQ(check(program, without_draw), "result 0 differs");
}

}  // namespace
}  // namespace reprise::libtorch::test
