// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/differential/flow.h"

// What sources that are printed of random programs have in common.

namespace reprise::differential {

/// The base of a printed program, which has its streams, events, buffers and operations.
class Printed {
 public:
  explicit Printed(int number) : first(number) {}

  const int first;  ///< the device that is number 0
  Version version;
  bool capturing = false;
  std::vector<CUDAGraph> bodies;
  CUDAGraph graph;
  std::vector<Generator> generators = {Generator(device(0)), Generator(device(0)), Generator(device(1)),
                                       Generator(device(1))};
  const Stream own0{device(0)}, own1{device(1)};

  Device device(int number) const {
    const Device host = default_device();
    for (const Device& other : devices())
      if ((first + number) % 2 > 0 && other.type() == host.type() && !(other == host)) return other;
    return host;
  }

  /// The parameter of a launch whose value is one of the graph: one for all nodes of a body.
  const Parameter<Word>& parameter(std::optional<Parameter<Word>>& made, Word value) const {
    return capturing && made ? *made : made.emplace(value);
  }
  /// Sets an argument of the kernels with a name in children and bodies.
  static void set_in_bodies(const std::vector<GraphNode>& nodes, const std::string& name, std::size_t argument,
                            Word value) {
    for (const GraphNode& node : nodes)
      for (const std::vector<GraphNode>& inner : node.inner()) {
        set_in_bodies(inner, name, argument, value);
        for (const GraphNode& each : inner) {
          const Annotation annotation = each.annotation();
          const auto found = annotation.find("name");
          if (each.type() == NodeType::kernel && found != annotation.end() && found->second == name)
            each.set_arg(argument, value);
        }
      }
  }
  Flow flow(const StreamRef& stream, const Buffer<Word>& condition, const Word* in, Word value, Word conditions) const {
    const Generator* const all = generators.data() + (stream.device() == device(0) ? 0 : generators_of_device);
    return {stream, {capturing, condition.data(), all}, in, value, conditions};
  }
  /// False where operations that may rest do.
  bool runs() const { return capturing || !version.resting; }

  void seed(std::uint64_t seed) {
    for (std::size_t number = 0; number < generators.size(); ++number)
      generators[number].set_current_seed(seed + number);
  }
  void set(Word* data, Word count, Word buffer) const {
    std::vector<Word> values;
    for (Word i = 0; i < count; ++i) values.push_back((buffer + 1) * 0x9E3779B9U + i * 0x85EBCA6BU);
    copy_async(data, values.data(), count * sizeof(Word), own0);
    own0.synchronize();
  }
  void get(std::vector<Word>& values, const Word* data, Word count) const {
    if (data == nullptr) return;
    values.resize(values.size() + count);
    copy_async(values.data() + values.size() - count, data, count * sizeof(Word), own0);
    own0.synchronize();
  }
  void get_states(std::vector<Word>& values) const {
    for (const Generator& each : generators) values.push_back(static_cast<Word>(each.offset()));
  }
  /// The graph stays as it is: the other one has a batch where a node is disabled.
  void refuse_update(CUDAGraph& other) {
    try {
      graph.update(other);
    } catch (const GraphUpdateError&) {
      return;
    }
    throw std::logic_error("an update to a graph with a batch in the place of a disabled node");
  }
  /// In a capture, the graph of a body.
  template <class F>
  void capture_body(const StreamRef& stream, F&& body) {
    GraphOptions of_body;
    of_body.stream = stream;
    of_body.capture_error_mode = CaptureMode::thread;
    of_body.enable_annotations = true;
    bodies.push_back(capture(of_body, std::forward<F>(body)));
  }
};

/// Runs a printed program eagerly, once, twice and in the version of each change; and, captured by a thread for each of
/// `first_devices`, by replays. Says whether both left the same.
template <class Program>
class ComparedRuns {
 public:
  int run(std::initializer_list<int> first_devices) {
    eager_.restore();
    eager_.submit();
    once_ = take(eager_);
    eager_.submit();
    twice_ = take(eager_);
    for (int i = 0; i < Program::changes; ++i) {
      eager_.version = Program::version_after(i);
      eager_.restore();
      eager_.submit();
      changed_.push_back(take(eager_));
    }
    std::vector<std::future<bool>> runs;
    for (const int first : first_devices)
      runs.push_back(std::async(std::launch::async, [this, first] { return compare(first); }));
    bool same = true;
    for (std::future<bool>& each : runs) same &= each.get();
    return same ? 0 : 1;
  }

 private:
  static std::vector<Word> take(Program& program) {
    std::vector<Word> contents = program.contents();
    program.free_left();
    return contents;
  }

  bool compare(int first) const {
    Program captured(first);
    captured.restore();
    captured.capture_all();
    captured.graph.replay(captured.s0);
    const bool same_once = take(captured) == once_;
    captured.graph.replay(captured.s0);
    const bool same_twice = take(captured) == twice_;
    std::string text = std::string("run once: ") + (same_once ? "the same" : "DIFFERENT") +
                       "; run twice: " + (same_twice ? "the same" : "DIFFERENT");
    bool same = same_once && same_twice;
    for (int i = 0; i < Program::changes; ++i) {
      captured.version = Program::version_after(i);
      captured.change(i);
      captured.restore();
      captured.graph.replay(captured.s0);
      const bool same_changed = take(captured) == changed_[static_cast<std::size_t>(i)];
      text += "; changed: " + std::string(same_changed ? "the same" : "DIFFERENT");
      same &= same_changed;
    }
    std::printf("%s\n", text.c_str());
    return same;
  }

  Program eager_{0};
  std::vector<Word> once_, twice_;
  std::vector<std::vector<Word>> changed_;
};

}  // namespace reprise::differential
