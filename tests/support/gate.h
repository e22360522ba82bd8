// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "tests/support/by_steps.h"

namespace reprise::test {

/// The limit of a test's waits: 30 s, or the number of seconds in the environment variable REPRISE_TEST_PATIENCE, from
/// 1 to 86400; any other value ends the program when it starts.
extern const std::chrono::seconds patience;

/// For a gate or a meeting of a test that is right where host devices run by steps, too: it opens the gate before
/// anything waits for the work behind it, or the threads that meet are its own.
struct ByStepsToo {};
inline constexpr ByStepsToo by_steps_too{};

/// A barrier in the work of a stream: launched as a host function, it holds the stream until open().
///
/// The thread that runs the host function waits in stand(); any thread may open. A gate must live until the work behind
/// it is done. Waits end after `patience`: a test that forgets to open fails instead of hanging. A test that makes one
/// is skipped where host devices run by steps.
class Gate {
 public:
  Gate() { skip_by_steps(); }
  explicit Gate(ByStepsToo /*too*/) {}

  /// The host function; `gate` is a Gate.
  static void pass(void* gate) { static_cast<Gate*>(gate)->stand(); }

  void stand();
  void open();

  /// Waits until a stream has reached the gate; false if none has within `patience`.
  bool wait_until_reached();
  bool reached() const;
  bool is_open() const;
  /// How often the gate was reached.
  int arrivals() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int arrivals_ = 0;
  bool open_ = false;
};

/// Host functions that only return when all of them are running: on several streams or branches of a graph, they show
/// that these run at the same time. A test that makes one is skipped where host devices run by steps.
class Meeting {
 public:
  explicit Meeting(int parties) : Meeting(parties, by_steps_too) { skip_by_steps(); }
  Meeting(int parties, ByStepsToo /*too*/) : parties_(parties) {}

  /// The host function; `meeting` is a Meeting.
  static void attend(void* meeting) { static_cast<Meeting*>(meeting)->meet(); }

  void meet();
  /// True if all of them met, in time.
  bool all_met() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  const int parties_;
  int arrived_ = 0;
  bool missed_ = false;
};

}  // namespace reprise::test
