// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bitset>
#include <set>
#include <vector>

#include "tests/differential/program.h"

namespace reprise::differential {

/// The order of a program, followed operation by operation. It is exact: for each operation the set of those that
/// happen before it. Knows nothing of the library, so that both can be compared.
class Order {
 public:
  static constexpr std::size_t most_operations = 1024;
  using Past = std::bitset<most_operations>;

  explicit Order(const Program& program);

  /// Why the operation may not come next; empty if it may.
  std::string refusal(const Operation& operation) const;
  /// The operations so far that touch the same memory as this one would, and that it would not be ordered after.
  std::vector<std::size_t> conflicts(const Operation& operation) const;
  /// Adds it. Needs no refusal.
  void add(const Operation& operation);

  /// True if the stream takes part in the capture.
  bool has_joined(int stream) const { return joined_[static_cast<std::size_t>(stream)]; }
  /// True if the stream was destroyed.
  bool has_ended(int stream) const { return ended_[static_cast<std::size_t>(stream)]; }
  bool is_recorded(int event) const { return recorded_[static_cast<std::size_t>(event)]; }
  bool is_alive(int buffer) const { return alive_[static_cast<std::size_t>(buffer)]; }
  /// The stream that an inner buffer was allocated for.
  int home(int buffer) const { return home_[static_cast<std::size_t>(buffer)]; }
  /// True if waiting for the event would order the stream after that operation.
  bool event_covers(int event, std::size_t operation) const {
    return event_past_[static_cast<std::size_t>(event)].test(operation);
  }
  /// True if the stream is ordered after that operation.
  bool covers(int stream, std::size_t operation) const {
    return stream_past_[static_cast<std::size_t>(stream)].test(operation);
  }
  /// True if stream 0 is ordered after all work of the stream.
  bool is_back(int stream) const;

 private:
  struct Range {
    int buffer;
    unsigned begin, end;
    bool writes;
  };
  std::vector<Range> ranges(const Operation& operation) const;
  std::string refusal_of_operands(const Operation& operation, int device) const;
  std::string refusal_of_bodies(const Operation& operation, int device) const;
  std::string refusal_of_body(int number, int device) const;
  bool waived(const Operation& free, std::size_t earlier) const;

  const Program& program_;
  std::vector<Operation> operations_;
  std::vector<bool> joined_, ended_, recorded_, alive_, used_;
  std::vector<int> home_;
  std::vector<std::set<int>> stream_uses_;  // of an inner buffer: record_stream
  std::vector<Past> stream_past_, event_past_;
};

}  // namespace reprise::differential
