// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <random>
#include <set>

#include "tests/differential/analysis.h"

namespace reprise::differential {
namespace {

/// Makes one program. Only the bare engine is used: the standard's distributions differ between libraries.
class ProgramMaker {
 public:
  ProgramMaker(std::uint64_t seed, const Limits& limits) : random_(seed), limits_(limits) { program_.seed = seed; }

  Program make() {
    make_objects();
    has_control_flow_ = limits_.control_flow && one_in(2);
    if (limits_.bodies && one_in(2)) make_bodies();
    // More inner buffers may come, but the order keeps a place for each from the start.
    Order order(program_);
    order_ = &order;
    const unsigned wanted = 5 + below(std::max(1U, limits_.max_operations > 5 ? limits_.max_operations - 5 : 1U));
    while (works_ < wanted) step();
    join_all();
    program_.discard_template = one_in(4);
    program_.concurrent = one_in(4) && limits_.concurrent;
    program_.auto_free = one_in(2);
    program_.keep_graph = !program_.discard_template && one_in(4);
    if (limits_.changes && !program_.discard_template && one_in(3)) make_changes();
    program_ = compact(program_);
    vary_bodies();
    fork_bodies();
    launch_early();
    choose_generators();
    end_streams_early();
    return program_;
  }

 private:
  unsigned below(unsigned bound) { return static_cast<unsigned>(random_() % bound); }
  int index(std::size_t size) { return static_cast<int>(below(static_cast<unsigned>(size))); }
  bool one_in(unsigned n) { return below(n) == 0; }

  void make_objects() {
    const unsigned streams = 1 + below(4);
    for (unsigned i = 0; i < streams; ++i) program_.streams.push_back({second_device(i), one_in(3)});
    for (int device = 0; device < limits_.devices; ++device)
      for (unsigned i = 0, count = 1 + below(3); i < count; ++i) program_.events.push_back({device});
    for (int device = 0; device < limits_.devices; ++device)
      for (unsigned i = 0, count = 1 + below(4); i < count; ++i)
        program_.buffers.push_back({Place::device, device, 32U << below(5)});
    if (one_in(2)) program_.buffers.push_back(program_.buffers.front());  // they may change places
    for (unsigned i = 0, count = 1 + below(2); i < count; ++i)
      program_.buffers.push_back({Place::pinned, 0, 32U << below(5)});
    for (unsigned i = 0; i < 8; ++i)
      program_.buffers.push_back({Place::inner, static_cast<int>(i) % limits_.devices, 32U << below(5)});
    // Memory of one device's pool is not there for another one.
    if (limits_.devices > 1 || one_in(2)) return;
    for (unsigned i = 0; i < 4; ++i) program_.buffers.push_back({Place::ordered, 0, 32U << below(5)});
  }

  /// Operations of the later ones have the earlier ones as bodies.
  void make_bodies() {
    for (unsigned i = 0, count = 1 + below(4); i < count; ++i) {
      Body body;
      body.device = static_cast<int>(below(static_cast<unsigned>(limits_.devices)));
      body.by_replay = one_in(2);
      for (unsigned k = 0, operations = 1 + below(4); k < operations; ++k)
        body.operations.push_back(operation_of_body(body.device));
      if (one_in(2)) add_pair(body, can_be_beside);
      if (one_in(2)) add_pair(body, can_be_early);
      program_.bodies.push_back(std::move(body));
    }
    if (has_control_flow_ && one_in(2)) make_nested_loop();
  }
  /// A loop, within the body of another one, that draws from all generators.
  void make_nested_loop() {
    Body inner, around;
    inner.device = around.device = static_cast<int>(below(static_cast<unsigned>(limits_.devices)));
    for (std::size_t i = 0; i < generators_of_device; ++i)
      inner.operations.push_back(work_of_body(inner.device, Kind::draw));
    Operation loop = flow_on(Kind::while_, [&](const BufferSpec& spec) { return is_before(spec, inner.device); });
    loop.body = static_cast<int>(program_.bodies.size());
    loop.limit = choose_limit(true);
    around.operations.push_back(loop);
    if (one_in(2)) around.operations.push_back(work_of_body(inner.device, Kind::draw));
    program_.bodies.push_back(std::move(inner));
    nested_loop_ = static_cast<int>(program_.bodies.size());
    program_.bodies.push_back(std::move(around));
  }
  /// Two operations that run beside each other, or of which the second one can start early.
  void add_pair(Body& body, bool (*fits)(const Operation&, const Operation&)) {
    for (int tries = 0; tries < 16; ++tries) {
      const Operation first = work_of_body(body.device), second = work_of_body(body.device);
      if (!fits(first, second)) continue;
      body.operations.push_back(first);
      body.operations.push_back(second);
      return;
    }
  }
  Operation operation_of_body(int device) {
    const auto usable = [&](const BufferSpec& spec) { return is_before(spec, device); };
    if (!program_.bodies.empty() && one_in(3))
      if (const std::optional<Operation> with_bodies = operation_with_bodies(0, device, usable)) return *with_bodies;
    return work_of_body(device);
  }
  /// Device memory that is there before the program.
  static bool is_before(const BufferSpec& spec, int device) {
    return spec.place == Place::device && spec.device == device;
  }

  /// A child, or control flow that a value of a usable buffer decides; none if the bodies do not fit.
  template <class Usable>
  std::optional<Operation> operation_with_bodies(int stream, int device, const Usable& usable) {
    Operation operation;
    operation.stream = stream;
    operation.kind = has_control_flow_ && !one_in(3) ? flow_kinds[below(std::size(flow_kinds))] : Kind::child;
    operation.body = index(program_.bodies.size());
    if (nested_loop_ >= 0 && operation.kind != Kind::child && one_in(2)) {
      operation.kind = Kind::while_;
      operation.body = nested_loop_;
    }
    const unsigned further = operation.kind == Kind::if_else ? 1 : operation.kind == Kind::switch_ ? below(3) : 0;
    for (unsigned i = 0; i < further; ++i) operation.further_bodies.push_back(index(program_.bodies.size()));
    for (const int body : bodies_of(operation))
      if (program_.bodies[static_cast<std::size_t>(body)].device != device) return {};
    if (most_work(operation) > 40) return {};
    if (operation.kind == Kind::child) {
      if (has_control_flow(program_, operation.body)) return {};
      return operation;
    }
    const Operation condition = flow_on(operation.kind, usable);
    operation.in = condition.in;
    operation.count = condition.count;
    operation.value = condition.value;
    if (operation.kind == Kind::while_) operation.limit = choose_limit(draws_any(program_, operation.body));
    return operation;
  }
  /// Control flow without bodies, with its condition.
  template <class Usable>
  Operation flow_on(Kind kind, const Usable& usable) {
    Operation operation;
    operation.kind = kind;
    operation.in.buffer = choose_buffer(usable);
    operation.in.offset = below(buffer(operation.in.buffer).count);
    operation.count = 1;
    operation.value = static_cast<std::uint32_t>(random_());
    return operation;
  }
  static constexpr Kind flow_kinds[] = {Kind::if_, Kind::if_else, Kind::switch_, Kind::while_};

  /// One that ends loops, one that does not, or none, which random numbers cannot have.
  unsigned choose_limit(bool draws) {
    constexpr unsigned stops = loop_conditions - 2, stops_nothing = loop_conditions;
    if (one_in(3) && !draws) return 0;
    return one_in(2) ? stops : stops_nothing;
  }
  /// How many operations run, if loops run as often as they may.
  unsigned most_work(const Operation& operation) const {
    unsigned work = 1;
    for (const int body : bodies_of(operation))
      for (const Operation& each : program_.bodies[static_cast<std::size_t>(body)].operations) work += most_work(each);
    return operation.kind == Kind::while_ ? (loop_conditions - 1) * work : work;
  }

  /// On memory that is there before the program.
  Operation work_of_body(int device, std::optional<Kind> kind = {}) {
    static constexpr Kind kinds[] = {Kind::map,  Kind::mix,     Kind::gather, Kind::scan,   Kind::draw,
                                     Kind::fill, Kind::scratch, Kind::copy,   Kind::scratch};
    for (;;) {
      Operation operation;
      operation.kind = kind ? *kind : kinds[below(std::size(kinds))];
      operation.value = static_cast<std::uint32_t>(random_());
      choose_operands(operation, [&](const BufferSpec& spec) { return is_before(spec, device); });
      const bool elementwise = operation.kind == Kind::map || operation.kind == Kind::mix;
      const auto overlaps = [&](const Operand& in) {
        return in.buffer == operation.out.buffer && !(elementwise && in.offset == operation.out.offset);
      };
      if (!overlaps(operation.in) && !overlaps(operation.in2)) return operation;
      if (!kind && one_in(8)) operation.kind = Kind::fill;
      if (operation.kind == Kind::fill || operation.kind == Kind::draw) return operation;
    }
  }

  /// Marks what varies, and lists how the graph becomes other versions.
  void make_changes() {
    for (Operation& each : program_.operations) {
      if (is_kernel(each.kind) && one_in(2)) each.varies = one_in(2) ? Varies::by_node : Varies::by_parameter;
      each.may_rest = (is_kernel(each.kind) || each.kind == Kind::copy) && one_in(6);
    }
    for (int b = 1; b < static_cast<int>(program_.buffers.size()); ++b)
      if (buffer(b) == buffer(0)) program_.exchanged = {0, b};
    replace_some();
    Version version;
    if (can_be_updated(program_) && !one_in(4)) version = change_resting();
    for (unsigned i = 0, count = 1 + below(program_.changes.empty() ? 4 : 2); i < count; ++i) {
      const How how = static_cast<How>(below(static_cast<unsigned>(How::recapture_anew) + 1));
      if (how == How::update && !can_be_updated(program_)) continue;
      if (how == How::set_addresses && (program_.exchanged.first < 0 || version.replaced)) continue;
      if (how == How::set_enabled && version.replaced && has_batch_for_resting(program_)) continue;
      version = add_change(version, how);
    }
  }
  Version add_change(const Version& version, How how) {
    program_.changes.push_back(change_from(version, how));
    return program_.changes.back().to;
  }
  /// Another capture while nodes are disabled.
  Version change_resting() {
    const Version resting = add_change({}, How::set_enabled);
    if (!has_batch_for_resting(program_)) return add_change(resting, one_in(2) ? How::recapture : How::update);
    if (one_in(2)) return add_change(resting, How::refused_update);
    Change change{How::recapture, {.replaced = true}};
    change.to = reached(program_, resting, change);
    program_.changes.push_back(change);
    return change.to;
  }
  /// Kernels without other values.
  void replace_some() {
    const bool batches = !one_in(5);
    for (Operation& each : program_.operations) {
      if (!is_plain_kernel(each.kind) || each.varies != Varies::never || one_in(3)) continue;
      each.replaced = batches && !one_in(3) ? Replaced::by_batch : Replaced::by_kernel;
      each.may_rest = each.may_rest || one_in(2);
    }
  }
  /// Kernels of children and bodies change, too, those of control flow also by parameters.
  void vary_bodies() {
    if (program_.changes.empty()) return;
    std::set<Varies> varied;
    for (std::size_t body = 0; body < program_.bodies.size(); ++body)
      for (Operation& each : program_.bodies[body].operations) {
        if (!is_kernel(each.kind)) continue;
        each.varies =
            is_in_child(program_, static_cast<int>(body)) || one_in(2) ? Varies::by_node : Varies::by_parameter;
        varied.insert(each.varies);
      }
    for (const Varies varies : varied)
      program_.changes.push_back(
          change_from(program_.changes.back().to, varies == Varies::by_node ? How::set_arg : How::set));
  }
  void fork_bodies() {
    for (Body& body : program_.bodies)
      for (std::size_t i = 0; i + 1 < body.operations.size(); ++i) {
        const bool is_joined = i == 0 || !body.operations[i - 1].beside;
        body.operations[i].beside =
            is_joined && can_be_beside(body.operations[i], body.operations[i + 1]) && !one_in(3);
      }
  }
  /// Kernels right behind others on their stream, which disabled nodes are not.
  void launch_early() {
    if (one_in(2)) return;
    std::vector<const Operation*> last(program_.streams.size());
    for (Operation& each : program_.operations) {
      if (const auto* const before = last[static_cast<std::size_t>(each.stream)])
        each.programmatic = can_be_early(*before, each) && one_in(2);
      last[static_cast<std::size_t>(each.stream)] = &each;
    }
    for (Body& body : program_.bodies)
      for (std::size_t i = 1; i < body.operations.size(); ++i) {
        const bool on_one_stream =
            !body.operations[i].beside && !body.operations[i - 1].beside && (i < 2 || !body.operations[i - 2].beside);
        body.operations[i].programmatic =
            on_one_stream && can_be_early(body.operations[i - 1], body.operations[i]) && one_in(2);
      }
  }
  static bool can_be_early(const Operation& before, const Operation& operation) {
    return is_plain_kernel(before.kind) && is_plain_kernel(operation.kind) && !before.may_rest && !operation.may_rest &&
           before.replaced == Replaced::never && operation.replaced == Replaced::never;
  }
  /// A change to another version, or, by another capture, to any.
  Change change_from(const Version& version, How how) {
    const bool has_pair = program_.exchanged.first >= 0;
    Change change{how, {!version.nodes, !version.parameters, !version.resting, !version.exchanged}};
    if (is_new_capture(how)) change.to = {one_in(2), one_in(2), false, has_pair && one_in(2), one_in(2)};
    if (how == How::update && !is_made_in_place(program_, version, change)) change.to.replaced = false;
    change.to = reached(program_, version, change);
    return change;
  }

  void choose_generators() {
    const auto choose = [&](Operation& operation) {
      if (operation.kind == Kind::draw) operation.generator = below(generators_of_device);
    };
    for (Operation& each : program_.operations) choose(each);
    for (Body& body : program_.bodies)
      for (Operation& each : body.operations) choose(each);
  }

  void end_streams_early() {
    const auto choose = [&](Operation& operation) {
      operation.short_lived = operation.kind == Kind::scratch && one_in(2);
    };
    for (Operation& each : program_.operations) choose(each);
    for (Body& body : program_.bodies)
      for (Operation& each : body.operations) choose(each);
  }

  // Stream 0, where captures begin, is on the first device.
  int second_device(unsigned stream) { return limits_.devices > 1 && stream > 0 && one_in(2) ? 1 : 0; }
  int device_of(int stream) const { return program_.streams[static_cast<std::size_t>(stream)].device; }
  const BufferSpec& buffer(int index) const { return program_.buffers[static_cast<std::size_t>(index)]; }

  bool is_alive(const BufferSpec& spec) const {
    return order_->is_alive(static_cast<int>(&spec - program_.buffers.data()));
  }

  void add(const Operation& operation) {
    order_->add(operation);
    program_.operations.push_back(operation);
    if (operation.kind <= Kind::allocate_async) ++works_;
  }

  int event_for(int stream) {
    int event = index(program_.events.size());
    while (program_.events[static_cast<std::size_t>(event)].device != device_of(stream))
      event = (event + 1) % static_cast<int>(program_.events.size());
    return event;
  }

  /// The stream waits for all that the other one has been given.
  void wait_for_stream(int stream, int other) {
    Operation wait;
    wait.stream = stream;
    if (one_in(3)) {
      wait.kind = Kind::wait_stream;
      wait.other_stream = other;
    } else {
      Operation record;
      record.kind = Kind::record;
      record.stream = other;
      record.event = event_for(other);
      add(record);
      wait.kind = Kind::wait;
      wait.event = record.event;
    }
    add(wait);
  }

  int any_joined_stream() {
    int stream = index(program_.streams.size());
    while (!order_->has_joined(stream) || order_->has_ended(stream)) stream = next_stream(stream);
    return stream;
  }

  int next_stream(int stream) const { return (stream + 1) % static_cast<int>(program_.streams.size()); }

  void step() {
    int stream = index(program_.streams.size());
    while (order_->has_ended(stream)) stream = next_stream(stream);  // stream 0 has not
    if (!order_->has_joined(stream)) wait_for_stream(stream, any_joined_stream());
    if (one_in(40)) return end_stream(stream);
    if (one_in(60)) return on_stream(Kind::exhaust, stream);
    if (one_in(40)) return on_stream(Kind::free_beside, stream);
    const unsigned kind = below(32);
    if (kind == 0) return record(stream);
    if (kind == 1) return wait(stream);
    if (kind < 7) return allocate(stream);
    if (kind < 14) return free_one();
    if (kind < 17 && !program_.bodies.empty()) return run_body(stream);
    return work(stream);
  }

  // Destroys a stream, whose work may be pending; another stream is ordered after it, and is joined at the end.
  void end_stream(int stream) {
    if (stream == 0) return;
    const int other = any_joined_stream();
    if (!order_->is_back(stream)) wait_for_stream(other != stream ? other : 0, stream);
    on_stream(Kind::end_stream, stream);
  }

  void on_stream(Kind kind, int stream) {
    if (kind != Kind::end_stream && !limits_.frees) return;
    Operation operation;
    operation.kind = kind;
    operation.stream = stream;
    add(operation);
  }

  void record(int stream) {
    Operation operation;
    operation.kind = Kind::record;
    operation.stream = stream;
    operation.event = event_for(stream);
    add(operation);
  }

  void wait(int stream) {
    Operation operation;
    operation.kind = Kind::wait;
    operation.stream = stream;
    operation.event = index(program_.events.size());
    if (order_->refusal(operation).empty()) add(operation);
  }

  void allocate(int stream) {
    Operation operation;
    operation.stream = stream;
    operation.out.buffer = index(program_.buffers.size());
    const bool ordered = buffer(operation.out.buffer).place == Place::ordered;
    operation.kind = ordered ? Kind::allocate_async : Kind::allocate;
    operation.count = buffer(operation.out.buffer).count;
    operation.value = below(256);
    if (order_->refusal(operation).empty()) add(operation);
  }

  void free_one() {
    if (!limits_.frees) return;
    Operation operation;
    operation.out.buffer = index(program_.buffers.size());
    if (buffer(operation.out.buffer).place == Place::ordered) return free_ordered(operation.out.buffer);
    operation.kind = Kind::free;
    operation.stream = std::max(0, order_->home(operation.out.buffer));
    operation.count = buffer(operation.out.buffer).count;
    if (!order_->refusal(operation).empty()) return;
    const bool record_uses = one_in(2);
    for (auto unordered = order_->conflicts(operation); !unordered.empty(); unordered = order_->conflicts(operation)) {
      Operation use = operation;
      use.kind = Kind::record_stream;
      use.stream = program_.operations[unordered.front()].stream;
      const bool can_wait = !order_->has_ended(operation.stream), can_record = !order_->has_ended(use.stream);
      if (can_record && (record_uses || !can_wait))
        add(use);
      else if (can_wait)
        bring_in_order(operation.stream, unordered.front());
      else
        return;  // the buffer stays
    }
    add(operation);
  }

  /// On any stream, after all that uses it.
  void free_ordered(int freed) {
    Operation operation;
    operation.kind = Kind::free_async;
    operation.stream = any_joined_stream();
    operation.out.buffer = freed;
    operation.count = buffer(freed).count;
    add_in_order(operation);
  }

  void run_body(int stream) {
    const int device = device_of(stream);
    const std::optional<Operation> operation = operation_with_bodies(stream, device, [&](const BufferSpec& spec) {
      return is_alive(spec) && spec.place != Place::pinned && spec.device == device;
    });
    if (operation) add_in_order(*operation);
  }

  /// After what it conflicts with, if it may come next at all.
  void add_in_order(const Operation& operation) {
    if (!order_->refusal(operation).empty()) return;
    for (auto unordered = order_->conflicts(operation); !unordered.empty(); unordered = order_->conflicts(operation))
      bring_in_order(operation.stream, unordered.front());
    add(operation);
  }

  /// A buffer for which `usable` is true. There always is one: each device has some.
  template <class Usable>
  int choose_buffer(const Usable& usable) {
    int chosen = index(program_.buffers.size());
    while (!usable(buffer(chosen))) chosen = (chosen + 1) % static_cast<int>(program_.buffers.size());
    return chosen;
  }

  template <class Usable>
  void choose_operands(Operation& operation, const Usable& usable) {
    operation.count = 1024;
    for (Operand* operand : {&operation.out, &operation.in, &operation.in2}) {
      operand->buffer = choose_buffer(usable);
      operation.count = std::min(operation.count, buffer(operand->buffer).count);
    }
    operation.count >>= below(3);
    for (Operand* operand : {&operation.out, &operation.in, &operation.in2})
      operand->offset = below((buffer(operand->buffer).count - operation.count) / 8 + 1) * 8;
  }

  void work(int stream) {
    static constexpr Kind kinds[] = {Kind::map,    Kind::map,  Kind::mix,       Kind::mix,    Kind::scatter,
                                     Kind::gather, Kind::scan, Kind::histogram, Kind::fill,   Kind::copy,
                                     Kind::copy,   Kind::draw, Kind::draw,      Kind::scratch};
    // Where order is missing, sometimes other operands are looked for instead.
    for (unsigned tries = below(4);; --tries) {
      Operation operation;
      operation.kind = kinds[below(std::size(kinds))];
      operation.stream = stream;
      operation.value = static_cast<std::uint32_t>(random_());
      choose_operands(operation, [&](const BufferSpec& spec) {
        const bool for_kernels = spec.place != Place::pinned && spec.device == device_of(stream);
        return is_alive(spec) && (operation.kind == Kind::copy || for_kernels);
      });
      if (!order_->refusal(operation).empty()) return;
      auto unordered = order_->conflicts(operation);
      if (tries > 0 && !unordered.empty()) continue;
      for (; !unordered.empty(); unordered = order_->conflicts(operation)) bring_in_order(stream, unordered.front());
      return add(operation);
    }
  }

  void bring_in_order(int stream, std::size_t earlier) {
    for (std::size_t event = 0; event < program_.events.size(); ++event) {
      if (!order_->event_covers(static_cast<int>(event), earlier)) continue;
      Operation operation;
      operation.kind = Kind::wait;
      operation.stream = stream;
      operation.event = static_cast<int>(event);
      return add(operation);
    }
    int other = program_.operations[earlier].stream;
    while (order_->has_ended(other) || !order_->covers(other, earlier)) other = next_stream(other);
    wait_for_stream(stream, other);
  }

  void join_all() {
    for (int stream = 1; stream < static_cast<int>(program_.streams.size()); ++stream)
      if (!order_->has_ended(stream) && !order_->is_back(stream)) wait_for_stream(0, stream);
  }

  std::mt19937_64 random_;
  const Limits limits_;
  Program program_;
  Order* order_ = nullptr;
  unsigned works_ = 0;
  bool has_control_flow_ = false;
  int nested_loop_ = -1;  // a body that has a loop
};

}  // namespace

Program generate(std::uint64_t seed, const Limits& limits) {
  return ProgramMaker(seed, limits).make();
}

}  // namespace reprise::differential
