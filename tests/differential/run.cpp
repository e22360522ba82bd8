// SPDX-License-Identifier: Apache-2.0
#include "tests/differential/run.h"

#include <future>
#include <string>

#include "tests/differential/machine.h"

namespace reprise::differential {
namespace {

std::string compare(const std::string& what, const Contents& expected, const Contents& found) {
  const std::string text = difference(expected, found);
  return text.empty() ? text : what + ": " + text;
}

/// The graph becomes each of the other versions, and is replayed in each.
std::string compare_changes(const Program& program, Machine& machine, const Eager& eager) {
  for (std::size_t i = 0; i < program.changes.size(); ++i) {
    const std::string what = "after change " + std::to_string(i) + ", " + name(program.changes[i].how);
    try {
      machine.change(program.changes[i]);
    } catch (const std::exception& error) {
      throw Error(what + ": " + error.what());
    }
    machine.restore();
    machine.replay();
    if (std::string text = compare(what, eager.changed[i], machine.contents()); !text.empty()) return text;
    machine.free_left();
  }
  return "";
}

std::string compare_one(const Program& program, const Device& first_device, const Eager& eager, const Fault& fault) {
  Machine machine(program, first_device);
  machine.restore();
  const Contents before = machine.contents(false);
  machine.capture_graph({}, fault);
  const Contents captured = machine.contents(false);  // inner buffers have not been written yet
  if (std::string text = compare("captured, not replayed", before, captured); !text.empty()) return text;
  machine.replay();
  if (std::string text = compare("replayed", eager.once, machine.contents()); !text.empty()) return text;
  machine.free_left();
  machine.restore();
  machine.replay();
  if (!program.auto_free) machine.free_left();
  machine.replay();
  if (std::string text = compare("replayed twice", eager.twice, machine.contents()); !text.empty()) return text;
  machine.free_left();
  machine.restore();
  machine.replay();
  if (std::string text = compare("replayed again", eager.once, machine.contents()); !text.empty()) return text;
  machine.free_left();
  return compare_changes(program, machine, eager);
}

}  // namespace

Eager run_eagerly(const Program& program, const Device& first_device) {
  Machine machine(program, first_device);
  Eager eager;
  const auto run = [&](const Version& version, int times) {
    machine.restore();
    for (int i = 0; i < times; ++i) {
      machine.free_left();
      machine.submit(version);
    }
    Contents contents = machine.contents();
    machine.free_left();
    return contents;
  };
  eager.once = run({}, 1);
  eager.twice = run({}, 2);
  for (const Change& change : program.changes) eager.changed.push_back(run(change.to, 1));
  return eager;
}

std::string compare_captured(const Program& program, const Device& first_device, const Eager& eager,
                             const Fault& fault) {
  if (!program.concurrent) return compare_one(program, first_device, eager, fault);
  const Device first_beside = uses_two_devices(program) ? second_device(first_device) : first_device;
  auto beside = std::async(std::launch::async, [&] { return compare_one(program, first_beside, eager, fault); });
  const std::string text = compare_one(program, first_device, eager, fault);
  const std::string text_beside = beside.get();
  return text.empty() ? text_beside : text;
}

}  // namespace reprise::differential
