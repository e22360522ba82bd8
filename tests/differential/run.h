// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "reprise/device.h"
#include "reprise/random.h"
#include "tests/differential/program.h"

namespace reprise::differential {

/// What a program left.
struct Contents {
  std::vector<std::vector<std::uint32_t>> buffers;  ///< the values of each; none of one that was freed
  std::vector<GeneratorState> generators = {};      ///< of the first device, then of the second one

  friend bool operator==(const Contents&, const Contents&) = default;
};

/// A fault that tests put into what is captured: operations of this kind get another value.
using Fault = std::optional<Kind>;

/// What a program left in memory when it ran once, when it ran twice in a row, and when it ran in the version of each
/// of its changes.
struct Eager {
  Contents once, twice;
  std::vector<Contents> changed;
};

/// Runs the operations as they come.
Eager run_eagerly(const Program& program, const Device& first_device);

/// Captures the operations into one graph, replays it once, twice in a row, and, with the initial memory restored,
/// once more, then after each of its changes, and says where something else came out than did eagerly; empty if nothing
/// did.
std::string compare_captured(const Program& program, const Device& first_device, const Eager& eager,
                             const Fault& fault);

/// Where two results differ, in words; empty if they do not.
std::string difference(const Contents& expected, const Contents& found);

/// One number for all values.
std::uint64_t digest(const Contents& contents);

/// How a program failed.
enum class Failure { none, exception, differs, race };

struct Verdict {
  Failure failure = Failure::none;
  std::string text;          ///< what happened
  std::uint64_t digest = 0;  ///< of what it left, run once
};

/// Makes work of the host devices run by steps, in an order of this seed. Needs `scheduler_seed` among the
/// options of the host devices, and that no work is underway.
void run_by_steps(std::uint64_t scheduler_seed);

/// Runs a program in all ways and compares. `against`: another device, on which it must leave the same.
Verdict examine(const Program& program, const Device& device, const std::optional<Device>& against = {},
                const Fault& fault = {});

/// A smaller program that fails in the same way: operations, streams, buffers are removed as long as `fails` returns
/// true for what is left. It is called with good programs only.
Program shrink(const Program& program, const std::function<bool(const Program&)>& fails);

/// Collects what the race check of the host device says, from the first use on. Other warnings go to standard error.
class RaceReports {
 public:
  RaceReports();
  ~RaceReports();
  RaceReports(const RaceReports&) = delete;
  RaceReports& operator=(const RaceReports&) = delete;
  /// What was said since the last call.
  static std::vector<std::string> take();
};

}  // namespace reprise::differential
