// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::differential {

/// Where a buffer lies, and since when.
enum class Place {
  device,  ///< device memory, there before the program
  pinned,  ///< pinned memory of the host, there before the program
  inner,   ///< device memory that the program itself allocates
};

struct BufferSpec {
  Place place = Place::device;
  int device = 0;      ///< not of pinned memory
  unsigned count = 0;  ///< values; 2^k
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
  fill,           ///< fill_async
  copy,           ///< copy_async
  allocate,       ///< allocates the inner buffer `out` for the stream, and fills it
  free,           ///< gives the inner buffer `out` back; its stream is the one that it was allocated for
  record_stream,  ///< CachingAllocator::record_stream of `out` for the stream
  record,         ///< Event::record
  wait,           ///< Event::wait
  wait_stream,    ///< StreamRef::wait for another stream
  end_stream,     ///< destroys the stream, whose work may be pending and whose blocks may be in use
  exhaust,        ///< exhaust() of pieces.h for the stream: allocates until the device has no memory
  free_beside,    ///< free_beside() of pieces.h: another thread frees memory that was recorded on the stream
};

/// The number of kinds.
inline constexpr std::size_t kinds = static_cast<std::size_t>(Kind::free_beside) + 1;

/// A part of a buffer.
struct Operand {
  int buffer = -1;
  unsigned offset = 0;
};

struct Operation {
  Kind kind = Kind::fill;
  int stream = 0;
  Operand out = {}, in = {}, in2 = {};
  unsigned count = 0;  ///< values of each operand; 2^k
  std::uint32_t value = 0;
  int event = -1;
  int other_stream = -1;
};

/// A random program: what is given to streams, in the order in which the host gives it. Stream 0 is where a capture of
/// it begins and ends.
struct Program {
  std::uint64_t seed = 0;
  std::vector<StreamSpec> streams;
  std::vector<EventSpec> events;
  std::vector<BufferSpec> buffers;
  std::vector<Operation> operations;
  bool discard_template = false;  ///< GraphOptions::discard_template of its capture
  bool concurrent = false;        ///< a second thread captures and replays the same program at the same time
};

/// What the program itself tells about it, without the library.
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
};

/// The program of a seed: the same one on every machine. Good, by construction.
Program generate(std::uint64_t seed, const Limits& limits);

/// True if streams, events or memory lie on the second device.
bool uses_two_devices(const Program& program);

/// Without streams, events and buffers that nothing uses.
Program compact(const Program& program);

/// A program of C++ that does the same, eagerly and captured, and compares.
std::string print_source(const Program& program);

const char* name(Kind kind);

}  // namespace reprise::differential
