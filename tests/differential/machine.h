// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "reprise/reprise.h"
#include "tests/differential/flow.h"
#include "tests/differential/run.h"

namespace reprise::differential {

/// The second device of a program whose first one this is.
/// \throws UsageError if there is none.
Device second_device(const Device& first);

/// What the node of a program's operation is annotated with.
std::string node_name(std::size_t operation);

/// The value of an operation in a version.
Word value_of(const Operation& op, const Version& version);

/// The streams, events, buffers and generators of one program, on real devices; and the program's graph.
///
///     restore -> submit or replay -> contents -> free_left ...
///
/// One thread at a time.
class Machine {
 public:
  Machine(const Program& program, const Device& first);

  StreamRef origin() const { return streams_[0]; }

  /// The initial values of what is there before the program, and of the generators.
  void restore();
  /// Does the operations as they come.
  void submit(const Version& version);
  /// What is in the buffers; nothing for those that are not there, nor, without `with_inner`, for those of the program
  /// itself.
  Contents contents(bool with_inner = true);
  /// Frees ordered memory that a run has left.
  void free_left();

  /// Captures the program into `graph_`, and its bodies into graphs that may be gone afterwards.
  void capture_graph(const Version& version, const Fault& fault);
  void replay();
  /// Makes the graph another version.
  /// \throws std::logic_error if that was not done in the way that it has to be.
  void change(const Change& change);

 private:
  /// What the operations do: eagerly, or in a capture, where parameters are marked and bodies are child graphs.
  struct Run {
    Version version;
    bool capturing = false;
    Fault fault = {};
  };

  Device device(int number) const;
  StreamRef own_stream(int number) const;
  void synchronize() const;
  /// With the buffers that change places.
  int place_of(int buffer, const Version& version) const;
  Word* address(const Operand& operand, const Version& version) const;
  bool ordered(std::size_t buffer) const { return program_.buffers[buffer].place == Place::ordered; }

  GraphOptions options() const;
  void capture_bodies(const Run& run);
  void submit(const Run& run);
  /// \param number among all operations, those of bodies behind those of the program.
  void submit(const Operation& op, const StreamRef& stream, const Run& run, std::size_t number);
  void submit_replaced(const Operation& op, const StreamRef& stream, const Run& run, std::size_t number);
  void submit_other(const Operation& op, const StreamRef& stream, const Run& run, std::size_t number);
  void submit_body(int body, const StreamRef& stream, const Run& run);
  void run_child(int body, const StreamRef& stream, const Run& run);
  void run_flow(const Operation& op, const StreamRef& stream, const Run& run, std::size_t number);
  template <class K, class... Before>
  void launch_kernel(const Operation& op, const StreamRef& stream, const Run& run, std::size_t number,
                     Before... before);
  void replace_stream(int number);
  const Generator* generators_of(const StreamRef& stream) const;

  void set_arguments(const Version& version);
  void set_arguments_within(const GraphNode& node, const Version& version);
  void set_parameters(const Version& version);
  void set_addresses(const Version& version);
  void set_enabled(const Version& version);
  void update(const Version& version);
  void refuse_update(const Version& version);
  void recapture(const Change& change);
  void require_unchanged(const Run& run);
  bool can_be_compared() const;

  const Program& program_;
  const Device first_;
  std::vector<Stream> streams_;
  std::vector<Stream> own_streams_;   // of each device, for what is no operation of the program
  std::vector<Stream> side_streams_;  // of each body, for what runs beside others in it: bodies lie within each other
  std::vector<Event> events_;
  std::vector<Generator> generators_;            // of the first device, then of the second one
  std::vector<Operation> all_operations_;        // those of the program, then those of each body
  std::vector<std::size_t> first_of_body_ = {};  // of each body: the number of its first one
  std::vector<Buffer<Word>> conditions_;         // of each device: words_of_condition for each operation
  std::vector<Buffer<Word>> memory_;
  std::vector<Pinned> pinned_;
  std::vector<Word*> addresses_;  // null: freed
  bool left_ = false;             // a run has ended, after which ordered memory may be allocated

  std::vector<std::optional<Parameter<Word>>> values_;  // of each operation, of the last capture
  std::optional<Parameter<Word*>> addresses_of_[2];     // of the buffers that change places
  Version captured_;                                    // of the last capture
  Version version_;                                     // of the graph
  bool other_flags_ = false;                            // those of recapture_anew
  std::vector<CUDAGraph> bodies_;                       // before graph_: they may end before and after it
  CUDAGraph graph_;
};

}  // namespace reprise::differential
