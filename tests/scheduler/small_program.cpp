// SPDX-License-Identifier: Apache-2.0
#include "tests/scheduler/small_program.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <random>

#include "backend/backend.h"
#include "backend/check.h"

namespace reprise::backend::host::test {
namespace {

// What is ordered: an operation, or a point (a record, a wait) that no one sees.
struct Point {
  std::optional<int> operation;
  std::set<int> after;  // of other points
};

// Builds the order that a program means, call by call.
class Model {
 public:
  explicit Model(const SmallProgram& program) : program_(program), last_(program.streams.size()) {
    for (const Step& step : program.steps) submit(step);
  }

  // For each operation, those that must come before it.
  std::vector<std::set<int>> operations() const {
    std::vector<std::set<int>> before(static_cast<std::size_t>(operations_));
    std::vector<std::set<int>> reached;  // operations before a point; points come after what they depend on
    for (const Point& point : points_) {
      std::set<int>& all = reached.emplace_back();
      for (const int other : point.after) {
        const auto& further = reached[static_cast<std::size_t>(other)];
        all.insert(further.begin(), further.end());
        if (const auto operation = points_[static_cast<std::size_t>(other)].operation) all.insert(*operation);
      }
      if (point.operation) before[static_cast<std::size_t>(*point.operation)] = all;
    }
    return before;
  }

 private:
  int add(std::set<int> after, bool visible) {
    points_.push_back({visible ? std::optional(operations_++) : std::nullopt, std::move(after)});
    return static_cast<int>(points_.size()) - 1;
  }

  // What comes before the next operation that is submitted to a stream.
  std::set<int> tail(int stream) const {
    std::set<int> after = last_[static_cast<std::size_t>(stream)];
    const StreamKind kind = kind_of(stream);
    for (std::size_t other = 0; other < last_.size(); ++other) {
      const StreamKind other_kind = program_.streams[other];
      if ((kind == StreamKind::legacy && other_kind == StreamKind::blocking) ||
          (kind == StreamKind::blocking && other_kind == StreamKind::legacy))
        after.insert(last_[other].begin(), last_[other].end());
    }
    return after;
  }

  StreamKind kind_of(int stream) const { return program_.streams[static_cast<std::size_t>(stream)]; }

  void submit(const Step& step) {
    std::set<int> after = tail(step.stream);
    std::set<int>& last = last_[static_cast<std::size_t>(step.stream)];
    const auto other = static_cast<std::size_t>(step.other);
    switch (step.kind) {
      case Step::Kind::work:
        last = {add(std::move(after), true)};
        return;
      case Step::Kind::record:
        recorded_.resize(std::max(recorded_.size(), other + 1));
        recorded_[other] = add(std::move(after), false);
        last = {recorded_[other]};
        return;
      case Step::Kind::wait:
        after.insert(recorded_[other]);
        last = {add(std::move(after), false)};
        return;
      case Step::Kind::launch:
        return launch(other, std::move(after), last);
    }
  }

  void launch(std::size_t graph, std::set<int> after, std::set<int>& last) {
    launched_.resize(program_.graphs.size());
    after.insert(launched_[graph].begin(), launched_[graph].end());  // launches of one executable never overlap
    const int begin = add(std::move(after), false);
    std::vector<int> nodes;
    for (int node = 0; node < program_.graphs[graph].nodes; ++node) {
      std::set<int> before{begin};
      for (const auto& [from, to] : program_.graphs[graph].edges)
        if (to == node) before.insert(nodes[static_cast<std::size_t>(from)]);
      nodes.push_back(add(std::move(before), true));
    }
    last = {nodes.begin(), nodes.end()};
    launched_[graph] = last;
  }

  const SmallProgram& program_;
  std::vector<Point> points_;
  int operations_ = 0;
  std::vector<std::set<int>> last_;  // of each stream
  std::vector<int> recorded_;        // of each event
  std::vector<std::set<int>> launched_;
};

void extend(const std::vector<std::set<int>>& before, Order& order, std::set<Order>& found) {
  if (order.size() == before.size()) {
    found.insert(order);
    return;
  }
  const auto there = [&](int operation) { return std::find(order.begin(), order.end(), operation) != order.end(); };
  for (int next = 0; next < static_cast<int>(before.size()); ++next) {
    const auto& needed = before[static_cast<std::size_t>(next)];
    if (there(next) || !std::all_of(needed.begin(), needed.end(), there)) continue;
    order.push_back(next);
    extend(before, order, found);
    order.pop_back();
  }
}

// A program that is being run. What it made is destroyed with it.
class Run {
 public:
  Run(const SmallProgram& program, Device device) : program_(program), device_(device), runtime_(device.backend()) {
    for (const StreamKind kind : program.streams) streams_.push_back(make_stream(kind));
    for (const SmallGraph& graph : program.graphs) make_exec(graph);
  }
  ~Run() {
    for (const StreamHandle stream : streams_)
      if (stream != nullptr) WarnOnError(runtime_).stream_destroy(stream);
    for (const EventHandle event : events_) WarnOnError(runtime_).event_destroy(event);
    for (const GraphExecHandle exec : execs_) WarnOnError(runtime_).graph_exec_destroy(exec);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  Order order() {
    for (const Step& step : program_.steps) submit(step);
    device_.synchronize();
    return std::move(order_);
  }

 private:
  // What a host function is given. For a node of a graph, `launches` counts.
  struct Mark {
    Run* run;
    std::vector<int> operations;  // of each launch, in their order
    std::size_t launches = 0;
    static void leave(void* data) {
      auto& mark = *static_cast<Mark*>(data);
      mark.run->order_.push_back(mark.operations[mark.launches++]);
    }
  };

  StreamHandle make_stream(StreamKind kind) {
    StreamHandle stream = nullptr;
    if (kind == StreamKind::legacy) return stream;
    const auto flags = kind == StreamKind::blocking ? StreamFlags::blocking : StreamFlags::non_blocking;
    Checked(runtime_).stream_create(&stream, flags, 0);
    return stream;
  }

  void make_exec(const SmallGraph& graph) {
    GraphHandle made = nullptr;
    Checked(runtime_).graph_create(&made);
    std::vector<Mark*>& marks = graph_marks_.emplace_back();
    std::vector<GraphNodeHandle> nodes;
    for (int node = 0; node < graph.nodes; ++node) {
      marks.push_back(&marks_.emplace_back(Mark{this, {}}));
      std::vector<GraphNodeHandle> before;
      for (const auto& [from, to] : graph.edges)
        if (to == node) before.push_back(nodes[static_cast<std::size_t>(from)]);
      NodeParams params = HostNodeParams{&Mark::leave, marks.back()};
      GraphNodeHandle handle = nullptr;
      Checked(runtime_).graph_add_node(&handle, made, before, params);
      nodes.push_back(handle);
    }
    GraphExecHandle exec = nullptr;
    Checked(runtime_).graph_instantiate(&exec, made, InstantiateFlags::none, nullptr);
    execs_.push_back(exec);
    Checked(runtime_).graph_destroy(made);
  }

  EventHandle event(int number) {
    while (events_.size() <= static_cast<std::size_t>(number)) {
      EventHandle made = nullptr;
      Checked(runtime_).event_create(&made, EventFlags::disable_timing);
      events_.push_back(made);
    }
    return events_[static_cast<std::size_t>(number)];
  }

  void submit(const Step& step) {
    const StreamHandle stream = streams_[static_cast<std::size_t>(step.stream)];
    const Checked runtime(runtime_);
    switch (step.kind) {
      case Step::Kind::work:
        runtime.launch_host_function({&Mark::leave, &marks_.emplace_back(Mark{this, {operations_++}})}, stream);
        break;
      case Step::Kind::record:
        runtime.event_record(event(step.other), stream, EventUseFlags::ordering);
        break;
      case Step::Kind::wait:
        runtime.stream_wait_event(stream, event(step.other), EventUseFlags::ordering);
        break;
      case Step::Kind::launch: {
        const auto graph = static_cast<std::size_t>(step.other);
        for (Mark* mark : graph_marks_[graph]) mark->operations.push_back(operations_++);
        runtime.graph_launch(execs_[graph], stream);
        break;
      }
    }
  }

  const SmallProgram& program_;
  Device device_;
  Backend& runtime_;
  std::vector<StreamHandle> streams_;
  std::vector<EventHandle> events_;
  std::vector<GraphExecHandle> execs_;
  std::deque<Mark> marks_;
  std::vector<std::vector<Mark*>> graph_marks_;
  int operations_ = 0;
  Order order_;
};

}  // namespace

int operation_count(const SmallProgram& program) {
  int count = 0;
  for (const Step& step : program.steps) {
    if (step.kind == Step::Kind::work) ++count;
    if (step.kind == Step::Kind::launch) count += program.graphs[static_cast<std::size_t>(step.other)].nodes;
  }
  return count;
}

std::set<Order> legal_orders(const SmallProgram& program) {
  std::set<Order> found;
  Order order;
  extend(Model(program).operations(), order, found);
  return found;
}

Order run(const SmallProgram& program, Device device) {
  return Run(program, device).order();
}

SmallProgram random_program(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::size_t n) { return static_cast<int>(random() % n); };
  SmallProgram program;
  program.streams = {StreamKind::non_blocking, StreamKind::blocking};
  if (below(2) == 0) program.streams.push_back(StreamKind::legacy);
  if (below(2) == 0) program.streams.push_back(StreamKind::blocking);
  SmallGraph graph{2 + below(2), {}};
  for (int to = 1; to < graph.nodes; ++to)
    for (int from = 0; from < to; ++from)
      if (below(2) == 0) graph.edges.emplace_back(from, to);
  program.graphs = {graph};
  int records = 0;
  for (int i = 0; i < 9; ++i) {
    Step step{Step::Kind::work, below(program.streams.size())};
    const int what = below(6);
    if (what == 0) step = {Step::Kind::record, step.stream, records < 2 ? records++ : below(2)};
    if (what == 1 && records > 0) step = {Step::Kind::wait, step.stream, below(static_cast<std::size_t>(records))};
    if (what == 2) step.kind = Step::Kind::launch;
    program.steps.push_back(step);
    if (operation_count(program) > 6) program.steps.pop_back();
  }
  return program;
}

}  // namespace reprise::backend::host::test
