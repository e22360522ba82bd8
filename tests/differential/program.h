// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/differential/version.h"

namespace reprise::differential {

inline std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

/// Where a buffer lies, and since when.
enum class Place {
  device,  ///< device memory, there before the program
  pinned,  ///< pinned memory of the host, there before the program
  inner,   ///< device memory that the program itself allocates
  ordered  ///< likewise, in the order of a stream: in a capture, nodes allocate and free it
};

struct BufferSpec {
  Place place = Place::device;
  int device = 0;      ///< not of pinned memory
  unsigned count = 0;  ///< values; 2^k
  friend bool operator==(const BufferSpec&, const BufferSpec&) = default;
};

struct StreamSpec {
  int device = 0;
  bool blocking = false;
};

struct EventSpec {
  int device = 0;
};

enum class Kind {
  map,  ///< the kernels of pieces.h
  mix,
  scatter,
  gather,
  scan,
  histogram,
  draw,            ///< random numbers of one of the device's generators
  fill,            ///< fill_async
  copy,            ///< copy_async
  scratch,         ///< scratch() of pieces.h: memory that is allocated, used and freed
  child,           ///< the body `body`: eagerly its operations, in a capture a child graph of them
  if_,             ///< control flow, see flow.h: one value of the buffer `in` decides about the body `body`
  if_else,         ///< ... between that and the one of `further_bodies`
  switch_,         ///< ... between all bodies and none
  while_,          ///< ... how often the body runs, and `limit` is the most iterations
  allocate,        ///< allocates the inner buffer `out` for the stream, and fills it
  allocate_async,  ///< allocate_async() of the ordered buffer `out`, which is filled
  free,            ///< gives the inner buffer `out` back; its stream is the one that it was allocated for
  free_async,      ///< free_async() of the ordered buffer `out`
  record_stream,   ///< CachingAllocator::record_stream of `out` for the stream
  record,          ///< Event::record
  wait,            ///< Event::wait
  wait_stream,     ///< StreamRef::wait for another stream
  end_stream,      ///< destroys the stream, whose work may be pending and whose blocks may be in use
  exhaust,         ///< exhaust() of pieces.h for the stream: allocates until the device has no memory
  free_beside,     ///< free_beside() of pieces.h: another thread frees memory that was recorded on the stream
};

/// The number of kinds.
inline constexpr std::size_t kinds = static_cast<std::size_t>(Kind::free_beside) + 1;

/// A part of a buffer.
struct Operand {
  int buffer = -1;
  unsigned offset = 0;
};

/// How the value of a kernel changes between replays; see Version.
enum class Varies { never, by_node, by_parameter };

/// What runs in the place of a kernel in Version::replaced: as many nodes of the same type, of the same memory.
enum class Replaced {
  never,
  by_kernel,  ///< another kernel; see replacement()
  by_batch    ///< a batch of one fill of `out`: a kernel of the library, which is never disabled
};

struct Operation {
  Kind kind = Kind::fill;
  int stream = 0;
  Operand out = {}, in = {}, in2 = {};
  unsigned count = 0;  ///< values of each operand; 2^k
  std::uint32_t value = 0;
  int event = -1;
  int other_stream = -1;
  unsigned generator = 0;  ///< of draw: which of those of the device
  int body = -1;
  std::vector<int> further_bodies = {};  ///< of if_else and switch_
  unsigned limit = 0;                    ///< of while_; 0: none
  Varies varies = Varies::never;
  Replaced replaced = Replaced::never;
  bool may_rest = false;      ///< the node is disabled in versions of that kind
  bool programmatic = false;  ///< of a kernel: LaunchConfig::programmatic
  bool short_lived = false;   ///< of scratch: on a stream that is forked off, joined and destroyed
  bool beside = false;        ///< in a body: runs on a stream that is forked off, and joined after the next operation
};

/// Operations that a child graph or a body of control flow has: one after another on one stream, but for those beside
/// another one, and none of those that allocate what later ones use, or end streams.
struct Body {
  int device = 0;
  bool by_replay = false;                  ///< a child is added by CUDAGraph::replay(), else by add_child()
  std::vector<Operation> operations = {};  ///< those that have bodies have ones with lower numbers
};

/// How a captured graph becomes another version.
enum class How {
  set_arg,         ///< GraphNode::set_arg of operations that vary by_node, also in children and bodies
  set,             ///< CUDAGraph::set of parameters that were passed to launch(), also in bodies of control flow
  set_addresses,   ///< CUDAGraph::set of parameters that CUDAGraph::parameter() made
  set_enabled,     ///< GraphNode::set_enabled
  update,          ///< CUDAGraph::update to another capture
  recapture,       ///< CUDAGraph::recapture with the same options
  recapture_anew,  ///< ... with other flags, which need a new executable
  refused_update,  ///< CUDAGraph::update to one that has a batch where a node is disabled: nothing changes
};

/// A change between replays.
struct Change {
  How how = How::set_arg;
  Version to;
};
/// True if the whole program is captured again, and the graph follows it.
inline bool is_new_capture(How how) {
  return how >= How::update && how <= How::recapture_anew;
}

/// A random program: what is submitted to streams, in the order in which the host submits it. Stream 0 is where a
/// capture of it begins and ends.
struct Program {
  std::uint64_t seed = 0;
  std::vector<StreamSpec> streams;
  std::vector<EventSpec> events;
  std::vector<BufferSpec> buffers;
  std::vector<Operation> operations;
  std::vector<Body> bodies = {};
  std::vector<Change> changes = {};          ///< after the replays of the first version
  std::pair<int, int> exchanged = {-1, -1};  ///< the buffers of Version::exchanged: of one device and size
  bool auto_free = false;                    ///< InstantiateFlags::auto_free_on_launch
  bool keep_graph = false;                   ///< KeepGraph::yes
  bool discard_template = false;             ///< GraphOptions::discard_template of its capture
  bool concurrent = false;                   ///< a second thread captures and replays the same program at the same time
};

/// What the program itself shows, without the library.
struct Analysis {
  /// Why it cannot be run or captured; empty if it can.
  std::string invalid;
  /// Two operations that touch the same memory and that nothing orders.
  std::optional<std::pair<std::size_t, std::size_t>> race;

  bool good() const { return invalid.empty() && !race; }
};

Analysis analyse(const Program& program);

struct Limits {
  unsigned max_operations = 40;  ///< about; waits come on top
  int devices = 1;               ///< 1 or 2
  bool frees = true;             ///< the program may free memory
  bool concurrent = true;        ///< the program may be captured by two threads at once
  bool bodies = true;            ///< the program may have child graphs, which the library orders more than eager work
  bool control_flow = true;      ///< bodies may be those of control flow, for which the host waits in eager work
  bool changes = true;           ///< the graph may be changed between replays
};

/// The program of a seed: the same one on every machine. Good, by construction.
Program generate(std::uint64_t seed, const Limits& limits);

/// The bodies of a child or of control flow, in the order of their numbers in it; none of other operations.
std::vector<int> bodies_of(const Operation& operation);

/// How often an operation, or those of a body, draw random numbers; that of a loop, if it runs as often as it may.
Draws draws_of(const Program& program, const Operation& operation);
Draws draws_of(const Program& program, int body);
/// True if it draws random numbers at all.
bool draws_any(const Program& program, int body);

/// How many conditions control flow has: that of an operation, see flow.h.
inline constexpr unsigned loop_conditions = 4;
unsigned conditions_of(const Operation& operation);

/// True if an operation uses the buffer, also in bodies that are run.
bool names(const Program& program, int buffer);
/// True if a child has the body, in which no parameters of the graph are marked.
bool is_in_child(const Program& program, int body);
/// True if an operation of a body can run beside the next one: each is one node, and their memory is not the same.
bool can_be_beside(const Operation& operation, const Operation& next);

/// True if operations of the body are control flow, also in its own bodies, so that it can be no child graph.
bool has_control_flow(const Program& program, int body);

/// True if the graph of the program can become another one in place: it has neither allocation nodes nor control flow.
bool can_be_updated(const Program& program);

/// The operation in the place of one that is replaced by a kernel: of the same memory, and in place where that is.
Operation replacement(const Operation& operation);

/// True if a batch takes the place of an operation that may rest. Then replaced versions never rest: no graph is
/// updated to them whose nodes are disabled.
bool has_batch_for_resting(const Program& program);

/// True if a recapture, which leads to the version `to`, updates the executable of a graph in `from`.
bool is_made_in_place(const Program& program, const Version& from, const Change& change);

/// The version that a change makes of a graph which is in another one: `change.to`, if a change of that kind can.
Version reached(const Program& program, const Version& from, const Change& change);

/// True if streams, events or memory lie on the second device.
bool uses_two_devices(const Program& program);

/// Without streams, events and buffers that nothing uses.
Program compact(const Program& program);

/// A program of C++ that does the same, eagerly and captured, and compares.
std::string print_source(const Program& program);

/// What a program has of the library, by name: "children", "random numbers in children", "update". In the order in
/// which all_features() has them.
std::set<std::string> features(const Program& program);
const std::vector<std::string>& all_features();

const char* name(Kind kind);
const char* name(How how);
/// True if the kind launches a kernel of pieces.h with a value.
inline bool is_kernel(Kind kind) {
  return kind <= Kind::draw;
}
inline bool is_control_flow(Kind kind) {
  return kind >= Kind::if_ && kind <= Kind::while_;
}
/// True if the kind is one kernel of pieces.h, which draws nothing.
inline bool is_plain_kernel(Kind kind) {
  return kind < Kind::draw;
}
/// True if bodies can have operations of the kind.
inline bool is_for_bodies(Kind kind) {
  return kind <= Kind::while_;
}

}  // namespace reprise::differential
