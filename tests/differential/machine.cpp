// SPDX-License-Identifier: Apache-2.0
#include "tests/differential/machine.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

namespace reprise::differential {
namespace {

/// The number of the kernel's argument that is its value.
std::size_t value_argument(Kind kind) {
  return kind == Kind::mix ? 3 : 2;
}

}  // namespace

std::string node_name(std::size_t operation) {
  return "op" + std::to_string(operation);
}

Word value_of(const Operation& op, const Version& version) {
  const bool other =
      (op.varies == Varies::by_node && version.nodes) || (op.varies == Varies::by_parameter && version.parameters);
  return other ? changed(op.value) : op.value;
}

Device second_device(const Device& first) {
  for (const Device& other : devices())
    if (other.type() == first.type() && !(other == first)) return other;
  throw UsageError("the program needs two devices of one kind, and there is only one");
}

Machine::Machine(const Program& program, const Device& first)
    : program_(program),
      first_(first),
      all_operations_(program.operations),
      graph_(program.keep_graph ? KeepGraph::yes : KeepGraph::no) {
  for (const StreamSpec& spec : program.streams) {
    streams_.emplace_back(device(spec.device), StreamOptions{spec.blocking});
  }
  for (int number = 0; number < (uses_two_devices(program) ? 2 : 1); ++number) {
    own_streams_.emplace_back(device(number));
    for (std::size_t i = 0; i < generators_of_device; ++i) generators_.emplace_back(device(number));
  }
  for (const Body& body : program.bodies) {
    side_streams_.emplace_back(device(body.device));
    first_of_body_.push_back(all_operations_.size());
    all_operations_.insert(all_operations_.end(), body.operations.begin(), body.operations.end());
  }
  values_.resize(all_operations_.size());
  for (const Stream& stream : own_streams_)
    conditions_.emplace_back(words_of_condition * all_operations_.size(), stream);
  for (std::size_t i = 0; i < program.events.size(); ++i)
    events_.emplace_back(device(program.events[i].device), EventOptions{i % 2 == 0});
  for (const BufferSpec& spec : program.buffers) {
    memory_.emplace_back();
    if (spec.place == Place::device) memory_.back() = Buffer<Word>(spec.count, own_stream(spec.device));
    if (spec.place == Place::pinned) {
      pinned_.emplace_back(first, spec.count);
      addresses_.push_back(pinned_.back().data());
    } else {
      addresses_.push_back(memory_.back().data());
    }
  }
}

void Machine::restore() {
  synchronize();
  for (std::size_t number = 0; number < generators_.size(); ++number)
    generators_[number].set_current_seed(program_.seed + number);
  for (std::size_t b = 0; b < addresses_.size(); ++b) {
    const BufferSpec& spec = program_.buffers[b];
    std::vector<Word> values(spec.count);
    for (Word i = 0; i < spec.count; ++i) values[i] = (static_cast<Word>(b) + 1) * 0x9E3779B9U + i * 0x85EBCA6BU;
    if (spec.place == Place::pinned) std::copy(values.begin(), values.end(), addresses_[b]);
    if (spec.place == Place::device)
      copy_async(addresses_[b], values.data(), spec.count * sizeof(Word), own_stream(spec.device));
    synchronize();
  }
}

void Machine::submit(const Version& version) {
  submit(Run{version});
  left_ = true;
}

Contents Machine::contents(bool with_inner) {
  synchronize();
  Contents contents;
  for (std::size_t b = 0; b < addresses_.size(); ++b) {
    const BufferSpec& spec = program_.buffers[b];
    const bool before = spec.place == Place::device || spec.place == Place::pinned;
    std::vector<Word>& values = contents.buffers.emplace_back();
    if (addresses_[b] == nullptr || !(before || with_inner)) continue;
    values.resize(spec.count);
    if (spec.place == Place::pinned)
      std::copy(addresses_[b], addresses_[b] + spec.count, values.begin());
    else
      copy_async(values.data(), addresses_[b], spec.count * sizeof(Word), own_stream(spec.device));
    synchronize();
  }
  for (const Generator& each : generators_) contents.generators.push_back(each.get_state());
  return contents;
}

void Machine::free_left() {
  if (!std::exchange(left_, false)) return;
  for (std::size_t b = 0; b < addresses_.size(); ++b)
    if (ordered(b) && addresses_[b] != nullptr) free_async(addresses_[b], origin());
}

Device Machine::device(int number) const {
  return number == 0 ? first_ : second_device(first_);
}

StreamRef Machine::own_stream(int number) const {
  return own_streams_[at(number)];
}

// Not the devices: that would break a capture of another thread. What the streams that were destroyed did comes before
// work of others.
void Machine::synchronize() const {
  for (const Stream& stream : streams_) stream.synchronize();
  for (const Stream& stream : own_streams_) stream.synchronize();
  for (const Stream& stream : side_streams_) stream.synchronize();
}

int Machine::place_of(int buffer, const Version& version) const {
  const auto [a, b] = program_.exchanged;
  if (!version.exchanged || (buffer != a && buffer != b)) return buffer;
  return buffer == a ? b : a;
}

Word* Machine::address(const Operand& operand, const Version& version) const {
  return addresses_[at(place_of(operand.buffer, version))] + operand.offset;
}

// --- The graph ------------------------------------------------------------------------------------------------------

GraphOptions Machine::options() const {
  GraphOptions options;
  options.stream = origin();
  options.capture_error_mode = CaptureMode::thread;
  options.discard_template = program_.discard_template;
  options.instantiate_flags = other_flags_ ? InstantiateFlags::none : InstantiateFlags::use_node_priority;
  if (program_.auto_free) options.instantiate_flags = options.instantiate_flags | InstantiateFlags::auto_free_on_launch;
  options.enable_annotations = !program_.changes.empty();
  return options;
}

// The graphs of the last capture end here, before the graph that has their copies. A body that cannot be a child has
// none.
void Machine::capture_bodies(const Run& run) {
  bodies_.clear();
  for (const Body& body : program_.bodies) {
    GraphOptions options;
    options.capture_error_mode = CaptureMode::thread;
    options.enable_annotations = !program_.changes.empty();
    const StreamRef stream = own_stream(body.device);
    options.stream = stream;
    bodies_.emplace_back();
    const int number = static_cast<int>(bodies_.size()) - 1;
    if (!has_control_flow(program_, number))
      capture(bodies_.back(), options, [&] { submit_body(number, stream, run); });
  }
  for (auto& value : values_) value.reset();  // also those of bodies that the program does not run
}

void Machine::capture_graph(const Version& version, const Fault& fault) {
  const Run run{version, true, fault};
  capture_bodies(run);
  capture(graph_, options(), [&] { submit(run); });
  captured_ = version_ = version;
}

void Machine::replay() {
  graph_.replay(origin());
  left_ = true;
}

void Machine::change(const Change& change) {
  if (!program_.auto_free) free_left();  // a new executable knows nothing of what the one before has left
  switch (change.how) {
    case How::set_arg:
      set_arguments(change.to);
      break;
    case How::set:
      set_parameters(change.to);
      break;
    case How::set_addresses:
      set_addresses(change.to);
      break;
    case How::set_enabled:
      set_enabled(change.to);
      break;
    case How::update:
      update(change.to);
      break;
    case How::recapture:
    case How::recapture_anew:
      recapture(change);
      break;
    case How::refused_update:
      refuse_update(change.to);
      break;
  }
  version_ = change.to;
}

void Machine::set_arguments(const Version& version) {
  for (std::size_t i = 0; i < program_.operations.size(); ++i) {
    const Operation& op = program_.operations[i];
    if (op.varies != Varies::by_node) continue;
    graph_.node(node_name(i)).set_arg(value_argument(op.kind), value_of(op, version));
  }
  for (const GraphNode& node : graph_.nodes()) set_arguments_within(node, version);
}

// A body can be in several nodes.
void Machine::set_arguments_within(const GraphNode& node, const Version& version) {
  for (const std::vector<GraphNode>& nodes : node.inner())
    for (const GraphNode& inner : nodes) {
      set_arguments_within(inner, version);
      const Annotation annotation = inner.annotation();
      const auto name = annotation.find("name");
      if (inner.type() != NodeType::kernel || name == annotation.end()) continue;
      for (std::size_t i = program_.operations.size(); i < all_operations_.size(); ++i)
        if (name->second == node_name(i) && all_operations_[i].varies == Varies::by_node)
          inner.set_arg(value_argument(all_operations_[i].kind), value_of(all_operations_[i], version));
    }
}

void Machine::set_parameters(const Version& version) {
  std::vector<ParameterValue> values;
  for (std::size_t i = 0; i < all_operations_.size(); ++i)
    if (values_[i]) values.emplace_back(*values_[i], value_of(all_operations_[i], version));
  graph_.set(values);
}

void Machine::set_addresses(const Version& version) {
  const int pair[2] = {program_.exchanged.first, program_.exchanged.second};
  std::vector<ParameterValue> values;
  for (const int i : {0, 1}) {
    const int named = pair[captured_.exchanged ? 1 - i : i];  // what the operations call it that had this address
    if (!names(program_, named)) continue;
    const BufferSpec& spec = program_.buffers[at(pair[i])];
    Word* const mine = addresses_[at(pair[i])];
    if (!addresses_of_[i]) addresses_of_[i] = graph_.parameter(mine, spec.count);
    const bool is_other = version.exchanged != captured_.exchanged;
    values.emplace_back(*addresses_of_[i], is_other ? addresses_[at(pair[1 - i])] : mine);
  }
  graph_.set(values);
}

void Machine::set_enabled(const Version& version) {
  for (std::size_t i = 0; i < program_.operations.size(); ++i)
    if (program_.operations[i].may_rest) graph_.node(node_name(i)).set_enabled(!version.resting);
}

void Machine::update(const Version& version) {
  const Run run{version, true};
  capture_bodies(run);
  CUDAGraph other(program_.keep_graph ? KeepGraph::yes : KeepGraph::no);
  capture(other, options(), [&] { submit(run); });
  graph_.update(other);
  captured_ = version;
  for (auto& address : addresses_of_) address.reset();
}

// The other graph is that of a machine of its own: this graph still needs what its capture has made.
void Machine::refuse_update(const Version& version) {
  Version replaced = version;
  replaced.replaced = true;
  Machine other(program_, first_);
  other.capture_graph(replaced, {});
  try {
    graph_.update(other.graph_);
  } catch (const GraphUpdateError& error) {
    if (std::string(error.what()).find("the node in its place is disabled") != std::string::npos) return;
    throw;
  }
  throw std::logic_error("a graph was updated to one with a batch in the place of a disabled node");
}

void Machine::recapture(const Change& change) {
  const Run run{change.to, true};
  if (change.how == How::recapture_anew) other_flags_ = !other_flags_;
  capture_bodies(run);
  const Recapture result = graph_.recapture(options(), [&] { submit(run); });
  if (result.in_place != is_made_in_place(program_, version_, change))
    throw std::logic_error(std::string("a recapture was made ") +
                           (result.in_place ? "in place" : "with a new executable: " + result.reason));
  const std::ptrdiff_t resting =
      result.in_place && version_.resting ? std::ranges::count(program_.operations, true, &Operation::may_rest) : 0;
  if (std::ssize(result.disabled) != resting)
    throw std::logic_error("a recapture has " + std::to_string(result.disabled.size()) + " disabled nodes instead of " +
                           std::to_string(resting));
  // How often that allocates depends on what other graphs leave.
  if (std::ranges::count(program_.operations, Kind::exhaust, &Operation::kind) == 0) require_unchanged(run);
  captured_ = change.to;
  for (auto& address : addresses_of_) address.reset();
}

// Captures the same again, children included: what the library has for each capture is no difference. The last capture
// is one into the graph, since it decides where the memory is that the program allocates.
void Machine::require_unchanged(const Run& run) {
  const auto body = [&] { submit(run); };
  if (can_be_compared()) {
    capture_bodies(run);
    if (const Comparison found = compare(graph_, body, origin()); !found.same() || !found.parameters.empty())
      throw std::logic_error("a graph and its body differ: " + found.str());
  }
  if (!program_.discard_template) {
    capture_bodies(run);
    CUDAGraph other;
    capture(other, options(), body);
    for (const GraphDifference& each : diff(graph_, other))
      if (each.kind != DifferenceKind::enabled) throw std::logic_error("a capture of the same differs: " + each.str());
  }
  capture_bodies(run);
  graph_.recapture(options(), body);
}

// Not while another thread captures; nor a graph with nodes that cannot be executed by themselves, or are disabled.
bool Machine::can_be_compared() const {
  return !program_.concurrent && !program_.discard_template && !version_.resting &&
         std::ranges::none_of(program_.buffers, [](const BufferSpec& spec) { return spec.place == Place::ordered; });
}

}  // namespace reprise::differential
