// SPDX-License-Identifier: Apache-2.0

#include "tests/differential/program.h"
#include "text/format.h"

namespace reprise::differential {
namespace {

const char* kernel(Kind kind) {
  static constexpr const char* kernels[] = {"Map", "Mix", "Scatter", "Gather", "Scan", "Histogram"};
  return kernels[static_cast<std::size_t>(kind)];
}

std::string variable(int buffer) {
  return reprise::text::format("b{}", buffer);
}

std::string address(const Operand& operand) {
  const std::string data = variable(operand.buffer) + ".data()";
  return operand.offset == 0 ? data : reprise::text::format("{} + {}", data, operand.offset);
}

std::string line(const Program& program, const Operation& op) {
  const std::string out = op.out.buffer < 0 ? "" : variable(op.out.buffer);
  const std::string bytes = reprise::text::format("{} * sizeof(Word)", op.count);
  switch (op.kind) {
    case Kind::map:
    case Kind::mix:
    case Kind::scatter:
    case Kind::gather:
    case Kind::scan:
    case Kind::histogram:
      return reprise::text::format("launch(s{}, shape({}), {}{{}}, {}, {}{}, {:#x}U, {}U);", op.stream, op.count,
                                   kernel(op.kind), address(op.out), address(op.in),
                                   op.kind == Kind::mix ? ", " + address(op.in2) : "", op.value, op.count);
    case Kind::fill:
      return reprise::text::format("fill_async({}, {}, {}, s{});", address(op.out), op.value & 0xFFU, bytes, op.stream);
    case Kind::copy:
      return reprise::text::format("copy_async({}, {}, {}, s{});", address(op.out), address(op.in), bytes, op.stream);
    case Kind::allocate:
      return reprise::text::format("{0}.reset(), {0} = Buffer<Word>({1}, s{2}), {0}.fill_bytes_async({3}, s{2});", out,
                                   op.count, op.stream, op.value & 0xFFU);
    case Kind::free:
      return out + ".reset();";
    case Kind::record_stream:
      return reprise::text::format("{}.record_stream(s{});", out, op.stream);
    case Kind::record:
      return reprise::text::format("e{}.record(s{});", op.event, op.stream);
    case Kind::wait:
      return reprise::text::format("e{}.wait(s{});", op.event, op.stream);
    case Kind::wait_stream:
      return reprise::text::format("s{}.wait(s{}.ref());", op.stream, op.other_stream);
    case Kind::end_stream: {
      const StreamSpec& spec = program.streams[static_cast<std::size_t>(op.stream)];
      return reprise::text::format("{{ const Stream ended = std::move(s{0}); }} s{0} = Stream(device({1}), {{{2}}});",
                                   op.stream, spec.device, spec.blocking);
    }
    case Kind::exhaust:
      return reprise::text::format("exhaust(s{});", op.stream);
    case Kind::free_beside:
      return reprise::text::format("free_beside(s{});", op.stream);
  }
  return "";
}

std::string objects(const Program& program) {
  std::string text;
  for (std::size_t i = 0; i < program.streams.size(); ++i)
    text += reprise::text::format("  Stream s{}{{device({}), {{{}}}}};\n", i, program.streams[i].device,
                                  program.streams[i].blocking);
  for (std::size_t i = 0; i < program.events.size(); ++i)
    text +=
        reprise::text::format("  const Event e{}{{device({}), {{{}}}}};\n", i, program.events[i].device, i % 2 == 0);
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const BufferSpec& spec = program.buffers[i];
    if (spec.place == Place::inner)
      text += reprise::text::format("  Buffer<Word> b{};\n", i);
    else if (spec.place == Place::pinned)
      text += reprise::text::format("  Pinned b{}{{device(0), {}}};\n", i, spec.count);
    else
      text += reprise::text::format("  Buffer<Word> b{}{{{}, own{}}};\n", i, spec.count, spec.device);
  }
  return text;
}

constexpr const char* beginning =
    R"(// Random program {0}, printed by reprise_differential. Where it needs two devices, or on the look-out for races:
// REPRISE_HOST_DEVICES=2 REPRISE_HOST_RACES=1.
#include <cstdio>
#include <future>
#include <vector>

#include "tests/differential/pieces.h"

using namespace reprise;
using namespace reprise::differential;

struct Program {{
  explicit Program(int number) : first(number) {{}}

  const int first;  // the device that is number 0
  CUDAGraph graph;
  const Stream own0{{device(0)}}, own1{{device(1)}};
{1}
  Device device(int number) const {{
    const Device host = default_device();
    for (const Device& other : devices())
      if ((first + number) % 2 > 0 && other.type() == host.type() && !(other == host)) return other;
    return host;
  }}

  void restore() {{
{2}  }}

  void submit() {{
{3}  }}

  std::vector<Word> contents() {{
    std::vector<Word> values;
{4}    return values;
  }}

  void synchronize() const {{
{5}  }}

  void set(Word* data, Word count, Word buffer) {{
    std::vector<Word> values;
    for (Word i = 0; i < count; ++i) values.push_back((buffer + 1) * 0x9E3779B9U + i * 0x85EBCA6BU);
    copy_async(data, values.data(), count * sizeof(Word), own0);
    synchronize();
  }}

  void get(std::vector<Word>& values, const Word* data, Word count) {{
    if (data == nullptr) return;
    synchronize();
    values.resize(values.size() + count);
    copy_async(values.data() + values.size() - count, data, count * sizeof(Word), own0);
    synchronize();
  }}
}};

bool compare(int first, const std::vector<Word>& once, const std::vector<Word>& twice) {{
  Program captured{{first}};
  captured.restore();
  GraphOptions options;
  options.stream = captured.s0.ref();
  options.capture_error_mode = CaptureMode::thread;
{6}  capture(captured.graph, options, [&] {{ captured.submit(); }});
  captured.graph.replay(captured.s0);
  const bool same_once = captured.contents() == once;
  captured.graph.replay(captured.s0);
  const bool same_twice = captured.contents() == twice;
  std::printf("run once: %s; run twice: %s\n", same_once ? "the same" : "DIFFERENT",
              same_twice ? "the same" : "DIFFERENT");
  return same_once && same_twice;
}}

int main() {{
  Program eager{{0}};
  eager.restore();
  eager.submit();
  const std::vector<Word> once = eager.contents();
  eager.submit();
  const std::vector<Word> twice = eager.contents();

  std::vector<std::future<bool>> runs;  // one on each thread
  for (const int first : {{{7}}})
    runs.push_back(std::async(std::launch::async, [&, first] {{ return compare(first, once, twice); }}));
  bool same = true;
  for (std::future<bool>& run : runs) same &= run.get();
  return same ? 0 : 1;
}}
)";

}  // namespace

std::string print_source(const Program& program) {
  std::string restore, submit, contents, synchronize = "    own0.synchronize();\n    own1.synchronize();\n";
  for (const Operation& operation : program.operations) submit += "    " + line(program, operation) + "\n";
  for (std::size_t i = 0; i < program.streams.size(); ++i)
    synchronize += reprise::text::format("    s{}.synchronize();\n", i);
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const unsigned count = program.buffers[i].count;
    if (program.buffers[i].place != Place::inner)
      restore += reprise::text::format("    set(b{0}.data(), {1}, {0});\n", i, count);
    contents += reprise::text::format("    get(values, b{}.data(), {});\n", i, count);
  }
  const char* const options = program.discard_template ? "  options.discard_template = true;\n" : "";
  const char* const first = !program.concurrent ? "0" : uses_two_devices(program) ? "0, 1" : "0, 0";
  return reprise::text::format(beginning, program.seed, objects(program), restore, submit, contents, synchronize,
                               options, first);
}

}  // namespace reprise::differential
