// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "tests/differential/program.h"
#include "text/format.h"

namespace reprise::differential {
namespace {

using reprise::text::format;

const char* kernel(Kind kind) {
  static constexpr const char* kernels[] = {"Map", "Mix", "Scatter", "Gather", "Scan", "Histogram", "Draw"};
  return kernels[static_cast<std::size_t>(kind)];
}

bool is_ordered(const Program& program, int buffer) {
  return program.buffers[static_cast<std::size_t>(buffer)].place == Place::ordered;
}

std::string variable(int buffer) {
  return format("b{}", buffer);
}

std::string data(const Program& program, int buffer) {
  const auto [a, b] = program.exchanged;
  if (buffer >= 0 && (buffer == a || buffer == b))
    return format("(version.exchanged ? b{} : b{}).data()", buffer == a ? b : a, buffer);
  return variable(buffer) + (is_ordered(program, buffer) ? "" : ".data()");
}

std::string address(const Program& program, const Operand& operand) {
  const std::string at = data(program, operand.buffer);
  return operand.offset == 0 ? at : format("{} + {}", at, operand.offset);
}

/// Where an operation stands: its number among all, those of bodies behind those of the program; and its stream.
struct Where {
  std::size_t number;
  std::string stream;
  int device;
};

/// The number of the first operation of a body.
std::size_t first_of_body(const Program& program, std::size_t body) {
  std::size_t number = program.operations.size();
  for (std::size_t b = 0; b < body; ++b) number += program.bodies[b].operations.size();
  return number;
}

std::string value(const Operation& op, const Where& where) {
  const std::string plain = format("{:#x}U", op.value);
  if (op.varies == Varies::never) return plain;
  if (op.varies == Varies::by_node) return format("version.nodes ? changed({0}) : {0}", plain);
  return format("parameter(p{0}, version.parameters ? changed({1}) : {1})", where.number, plain);
}

/// What comes before the work of an operation whose node is found by its name, or that may rest.
std::string scope_text(const Operation& op, const Where& where) {
  if (!op.may_rest && op.varies != Varies::by_node) return "";
  return format("const annotate scope{0}(\"op{0}\"); ", where.number) + (op.may_rest ? "if (runs()) " : "");
}

std::string replaced_text(const Program& program, const Operation& op, const Where& where);

std::string launch_line(const Program& program, const Operation& op, const Where& where, bool in_scope = false) {
  std::string operands = address(program, op.out);
  if (op.kind == Kind::draw)
    operands = "numbers, " + operands;
  else
    operands += ", " + address(program, op.in);
  if (op.kind == Kind::mix) operands += ", " + address(program, op.in2);
  const std::string launch =
      format("launch({}, {}({}), {}{{}}, {}, {}, {}U);", where.stream, op.programmatic ? "early_shape" : "shape",
             op.count, kernel(op.kind), operands, value(op, where), op.count);
  const std::string rests = in_scope ? "" : scope_text(op, where);
  std::string work = replaced_text(program, op, where) + launch;
  if (op.replaced != Replaced::never && !rests.empty()) work = "{ " + work + " }";
  if (op.kind != Kind::draw) return rests.empty() ? work : format("{{ {}{} }}", rests, work);
  return format("{{ const auto numbers = generators[{}].philox_state(drawn, {}); {}{} }}",
                static_cast<std::size_t>(where.device) * generators_of_device + op.generator, where.stream, rests,
                launch);
}

/// What comes before a launch that another operation replaces.
std::string replaced_text(const Program& program, const Operation& op, const Where& where) {
  if (op.replaced == Replaced::never) return "";
  const std::string other =
      op.replaced == Replaced::by_kernel
          ? launch_line(program, replacement(op), where, /*in_scope=*/true)
          : format("fill_batch({}, {}, {}U, {});", where.stream, address(program, op.out), op.value & 0xFFU, op.count);
  return format("if (version.replaced) {} else ", other);
}

std::string draws_text(const Draws& draws) {
  std::string text;
  for (const unsigned each : draws) text += format("{}{}", text.empty() ? "" : ", ", each);
  return "{" + text + "}";
}

std::string flow_line(const Program& program, const Operation& op, const Where& where) {
  std::string bodies;
  for (const int body : bodies_of(op))
    bodies += format("{}{{[&](const StreamRef& s) {{ body{}(s); }}, {}}}", bodies.empty() ? "" : ", ", body,
                     draws_text(draws_of(program, body)));
  if (op.kind == Kind::switch_) bodies = "{" + bodies + "}";
  if (op.kind == Kind::while_) bodies += format(", {}", op.limit);
  return format("flow({}, c{}, {}, {:#x}U, {}).{}({});", where.stream, where.number, address(program, op.in), op.value,
                conditions_of(op), name(op.kind), bodies);
}

/// What does the work of one operation.
std::string work_line(const Program& program, const Operation& op, const Where& where) {
  const std::string bytes = format("{} * sizeof(Word)", op.count);
  switch (op.kind) {
    case Kind::fill:
      return format("fill_async({}, {}, {}, {});", address(program, op.out), op.value & 0xFFU, bytes, where.stream);
    case Kind::copy:
      return format("copy_async({}, {}, {}, {});", address(program, op.out), address(program, op.in), bytes,
                    where.stream);
    case Kind::scratch:
      return format("{}({}, {}, {}, {:#x}U, {}U);", op.short_lived ? "short_lived_scratch" : "scratch", where.stream,
                    address(program, op.out), address(program, op.in), op.value, op.count);
    case Kind::child: {
      const bool by_replay = program.bodies[static_cast<std::size_t>(op.body)].by_replay;
      const std::string child = by_replay ? format("bodies[{}].replay({})", op.body, where.stream)
                                          : format("add_child(bodies[{}], {})", op.body, where.stream);
      return format("if (!capturing) body{}({}); else {};", op.body, where.stream, child);
    }
    case Kind::if_:
    case Kind::if_else:
    case Kind::switch_:
    case Kind::while_:
      return flow_line(program, op, where);
    default:
      return launch_line(program, op, where);
  }
}

std::string line(const Program& program, const Operation& op, int number) {
  const std::string out = op.out.buffer < 0 ? "" : variable(op.out.buffer), stream = format("s{}", op.stream);
  if (is_for_bodies(op.kind)) {
    const int device = program.streams[static_cast<std::size_t>(op.stream)].device;
    const Where where{static_cast<std::size_t>(number), stream, device};
    const std::string work = work_line(program, op, where), scope = scope_text(op, where);
    return is_kernel(op.kind) || scope.empty() ? work : format("{{ {}{} }}", scope, work);
  }
  switch (op.kind) {
    case Kind::allocate:
      return format("{0}.reset(), {0} = Buffer<Word>({1}, s{2}), {0}.fill_bytes_async({3}, s{2});", out, op.count,
                    op.stream, op.value & 0xFFU);
    case Kind::allocate_async:
      return format("{} = allocate_filled(s{}, {}U, {});", out, op.stream, op.value, op.count);
    case Kind::free:
      return out + ".reset();";
    case Kind::free_async:
      return format("free_async(std::exchange({}, nullptr), s{});", out, op.stream);
    case Kind::record_stream:
      return format("{}.record_stream(s{});", out, op.stream);
    case Kind::record:
      return format("e{}.record(s{});", op.event, op.stream);
    case Kind::wait:
      return format("e{}.wait(s{});", op.event, op.stream);
    case Kind::wait_stream:
      return format("s{}.wait(s{}.ref());", op.stream, op.other_stream);
    case Kind::end_stream: {
      const StreamSpec& spec = program.streams[static_cast<std::size_t>(op.stream)];
      return format("{{ const Stream ended = std::move(s{0}); }} s{0} = Stream(device({1}), {{{2}}});", op.stream,
                    spec.device, spec.blocking);
    }
    case Kind::exhaust:
      return format("exhaust(s{});", op.stream);
    case Kind::free_beside:
      return format("free_beside(s{});", op.stream);
    default:
      return "";
  }
}

/// The words for the conditions of control flow.
std::string conditions(const Program& program) {
  std::string text;
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    const Operation& op = program.operations[i];
    const int device = program.streams[static_cast<std::size_t>(op.stream)].device;
    if (is_control_flow(op.kind)) text += format("  Buffer<Word> c{}{{words_of_condition, own{}}};\n", i, device);
  }
  for (std::size_t b = 0; b < program.bodies.size(); ++b) {
    const Body& body = program.bodies[b];
    for (std::size_t i = 0; i < body.operations.size(); ++i)
      if (is_control_flow(body.operations[i].kind))
        text +=
            format("  Buffer<Word> c{}{{words_of_condition, own{}}};\n", first_of_body(program, b) + i, body.device);
  }
  return text;
}

std::vector<Operation> all_operations(const Program& program) {
  std::vector<Operation> all = program.operations;
  for (const Body& body : program.bodies) all.insert(all.end(), body.operations.begin(), body.operations.end());
  return all;
}

/// The numbers of the bodies in which operations run beside others.
std::vector<std::size_t> forked_bodies(const Program& program) {
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < program.bodies.size(); ++i)
    if (std::ranges::any_of(program.bodies[i].operations, &Operation::beside)) numbers.push_back(i);
  return numbers;
}

/// The numbers of the operations that have one.
std::vector<std::size_t> parameters(const Program& program) {
  std::vector<std::size_t> numbers;
  const std::vector<Operation> all = all_operations(program);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].varies == Varies::by_parameter) numbers.push_back(i);
  return numbers;
}

std::string objects(const Program& program) {
  std::string text;
  for (std::size_t i = 0; i < program.streams.size(); ++i)
    text += format("  Stream s{}{{device({}), {{{}}}}};\n", i, program.streams[i].device, program.streams[i].blocking);
  for (std::size_t i = 0; i < program.events.size(); ++i)
    text += format("  const Event e{}{{device({}), {{{}}}}};\n", i, program.events[i].device, i % 2 == 0);
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const BufferSpec& spec = program.buffers[i];
    if (spec.place == Place::inner)
      text += format("  Buffer<Word> b{};\n", i);
    else if (spec.place == Place::ordered)
      text += format("  Word* b{} = nullptr;\n", i);
    else if (spec.place == Place::pinned)
      text += format("  Pinned b{}{{device(0), {}}};\n", i, spec.count);
    else
      text += format("  Buffer<Word> b{}{{{}, own{}}};\n", i, spec.count, spec.device);
  }
  for (const std::size_t i : forked_bodies(program))
    text += format("  const Stream side{}{{device({})}};\n", i, program.bodies[i].device);
  for (const std::size_t i : parameters(program)) text += format("  std::optional<Parameter<Word>> p{};\n", i);
  return text + conditions(program);
}

std::string bodies(const Program& program) {
  std::string functions, captures;
  for (std::size_t i = 0; i < program.bodies.size(); ++i) {
    const Body& body = program.bodies[i];
    functions += format("  void body{}(const StreamRef& stream) {{\n", i);
    for (std::size_t k = 0; k < body.operations.size(); ++k) {
      const Operation& op = body.operations[k];
      const std::string side = format("side{}", i);
      const Where where{first_of_body(program, i) + k, op.beside ? side : "stream", body.device};
      const std::string work = work_line(program, op, where), scope = scope_text(op, where);
      if (op.beside) functions += format("    {}.wait(stream);\n", side);
      functions += "    " + (is_kernel(op.kind) || scope.empty() ? work : format("{{ {}{} }}", scope, work)) + "\n";
      if (k > 0 && body.operations[k - 1].beside) functions += format("    stream.wait({}.ref());\n", side);
    }
    functions += "  }\n";
    captures += has_control_flow(program, static_cast<int>(i))
                    ? "    bodies.emplace_back();\n"
                    : format("    capture_body(own{1}, [&] {{ body{0}(own{1}); }});\n", i, body.device);
  }
  std::string resets;
  for (const std::size_t i : parameters(program)) resets += format("    p{}.reset();\n", i);
  return functions + "  void capture_bodies() {\n    bodies.clear();\n" + captures + resets + "  }\n";
}

std::string value_in_version(const Operation& op) {
  return format("version.{0} ? changed({1:#x}U) : {1:#x}U", op.varies == Varies::by_node ? "nodes" : "parameters",
                op.value);
}

/// Lines that set the two parameters for what they are in the captured version.
std::string exchange_lines(const Program& program, const Version& captured) {
  const int pair[2] = {program.exchanged.first, program.exchanged.second};
  std::string text, values;
  for (const int i : {0, 1}) {
    if (!names(program, pair[captured.exchanged ? 1 - i : i])) continue;
    text += format(
        "        const auto of_b{0} = graph.parameter(version.exchanged == {3} ? b{1}.data() : b{0}.data(), {2});\n",
        pair[i], pair[1 - i], program.buffers[static_cast<std::size_t>(pair[i])].count, captured.exchanged);
    values += format("{0}{{of_b{1}, version.exchanged == {3} ? b{1}.data() : b{2}.data()}}", values.empty() ? "" : ", ",
                     pair[i], pair[1 - i], captured.exchanged);
  }
  return values.empty() ? text : text + format("        graph.set({{{}}});\n", values);
}

std::string change_lines(const Program& program, How how, const Version& captured) {
  std::string text;
  const std::vector<Operation> all = all_operations(program);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Operation& op = all[i];
    if (how == How::set_arg && op.varies == Varies::by_node) {
      const std::string call = i < program.operations.size() ? format("graph.node(\"op{}\").set_arg(", i)
                                                             : format("set_in_bodies(graph.nodes(), \"op{}\", ", i);
      text += format("        {}{}, {});\n", call, op.kind == Kind::mix ? 3 : 2, value_in_version(op));
    }
    if (how == How::set && op.varies == Varies::by_parameter)
      text += format("        graph.set(*p{}, {});\n", i, value_in_version(op));
    if (how == How::set_enabled && op.may_rest)
      text += format("        graph.node(\"op{}\").set_enabled(!version.resting);\n", i);
  }
  if (how == How::set_addresses) text += exchange_lines(program, captured);
  if (is_new_capture(how)) text += "        capture_bodies();\n";
  if (how == How::update)
    text +=
        "        CUDAGraph other;\n        capture(other, options(), [&] { submit(); });\n"
        "        graph.update(other);\n";
  if (how == How::refused_update)
    text +=
        "        Program other(first);\n        other.version = version;\n        other.version.replaced = true;\n"
        "        other.capture_all();\n        refuse_update(other.graph);\n";
  if (how == How::recapture_anew) text += "        other_flags = !other_flags;\n";
  if (how == How::recapture || how == How::recapture_anew)
    text += "        graph.recapture(options(), [&] { submit(); });\n";
  return text;
}

/// The versions that the graph becomes, and how.
std::string changes(const Program& program) {
  std::string versions, steps;
  Version captured;
  for (std::size_t i = 0; i < program.changes.size(); ++i) {
    const auto& [how, to] = program.changes[i];
    versions += format("      case {}:\n        return {{{}, {}, {}, {}, {}}};\n", i, to.nodes, to.parameters,
                       to.resting, to.exchanged, to.replaced);
    steps += format("      case {}: {{  // {}\n{}        return;\n      }}\n", i, name(how),
                    change_lines(program, how, captured));
    if (is_new_capture(how)) captured = to;
  }
  return format(
      "  static constexpr int changes = {};\n"
      "  static Version version_after(int change) {{\n    switch (change) {{\n{}      default:\n"
      "        return {{}};\n    }}\n  }}\n"
      "  void change(int number) {{\n    switch (number) {{\n{}      default:\n        return;\n    }}\n  }}\n",
      program.changes.size(), versions, steps);
}

std::string options(const Program& program) {
  std::string text;
  if (program.discard_template) text += "    options.discard_template = true;\n";
  if (program.keep_graph) text += "    options.keep_graph = KeepGraph::yes;\n";
  if (!program.changes.empty()) text += "    options.enable_annotations = true;\n";
  text +=
      "    options.instantiate_flags = other_flags ? InstantiateFlags::none : InstantiateFlags::use_node_priority;\n";
  if (program.auto_free)
    text += "    options.instantiate_flags = options.instantiate_flags | InstantiateFlags::auto_free_on_launch;\n";
  return text;
}

constexpr const char* skeleton =
    R"(// Random program {0}, printed by reprise_differential. Where it needs two devices, or on the look-out for races:
// REPRISE_HOST_DEVICES=2 REPRISE_HOST_RACES=1.
#include "tests/differential/printed.h"

using namespace reprise;
using namespace reprise::differential;

struct Program : Printed {{
  using Printed::Printed;

{1}  bool other_flags = false;

{2}
  void submit() {{
{3}  }}

{4}
  GraphOptions options() const {{
    GraphOptions options;
    options.stream = s0.ref();
    options.capture_error_mode = CaptureMode::thread;
{5}    return options;
  }}

  void capture_all() {{
    capturing = true;
    capture_bodies();
    capture(graph, options(), [&] {{ submit(); }});
  }}

  void restore() {{
    synchronize();
    seed({0});
{6}  }}

  std::vector<Word> contents() const {{
    std::vector<Word> values;
    synchronize();
{7}    get_states(values);
    return values;
  }}

  // Memory in the order of a stream that a run has left.
  void free_left() {{
{8}  }}

  void synchronize() const {{
{9}  }}
}};

int main() {{
  return ComparedRuns<Program>().run({{{10}}});
}}
)";

}  // namespace

std::string print_source(const Program& program) {
  std::string restore, submit, contents, free_left;
  std::string synchronize = "    own0.synchronize();\n    own1.synchronize();\n";
  for (std::size_t i = 0; i < program.operations.size(); ++i)
    submit += "    " + line(program, program.operations[i], static_cast<int>(i)) + "\n";
  for (std::size_t i = 0; i < program.streams.size(); ++i) synchronize += format("    s{}.synchronize();\n", i);
  for (const std::size_t i : forked_bodies(program)) synchronize += format("    side{}.synchronize();\n", i);
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const auto& [place, device, count] = program.buffers[i];
    if (place == Place::device || place == Place::pinned)
      restore += format("    set(b{0}.data(), {1}, {0});\n", i, count);
    contents += format("    get(values, b{}{}, {});\n", i, place == Place::ordered ? "" : ".data()", count);
    if (place != Place::ordered) continue;
    // With a graph its address stays: each replay allocates it there.
    free_left += format("    if (b{0} != nullptr) free_async(b{0}, s0);\n    if (!capturing) b{0} = nullptr;\n", i);
  }
  const char* const first = !program.concurrent ? "0" : uses_two_devices(program) ? "0, 1" : "0, 0";
  return format(skeleton, program.seed, objects(program), bodies(program), submit, changes(program), options(program),
                restore, contents, free_left, synchronize, first);
}

}  // namespace reprise::differential
