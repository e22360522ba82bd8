// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <future>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/check.h"
#include "reprise/philox.h"
#include "reprise/reprise.h"
#include "tests/differential/version.h"

// What random programs are made of, and the sources that are printed of them. All arithmetic is on unsigned integers,
// so that every device computes the same bits. Ranges have 2^k values.

namespace reprise::differential {

using Word = std::uint32_t;

/// Waits for the kernel before, which a launch with LaunchConfig::programmatic may overtake.
REPRISE_KERNEL inline void await_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// out[i] = in[i] * value + i; in place, if they are the same
struct Map {
  REPRISE_KERNEL void operator()(Thread t, Word* out, const Word* in, Word value, Word n) const {
    await_previous();
    const Word i = static_cast<Word>(t.global_x());
    if (i < n) out[i] = in[i] * (value | 1U) + i;
  }
  static auto accesses(Word* out, const Word* in, Word, Word n) { return std::array{reads(in, n), writes(out, n)}; }
};

/// out[i] = a[i] turned by some bits, mixed with b[i]
struct Mix {
  REPRISE_KERNEL void operator()(Thread t, Word* out, const Word* a, const Word* b, Word value, Word n) const {
    await_previous();
    const Word i = static_cast<Word>(t.global_x());
    if (i < n) out[i] = (a[i] << 7 | a[i] >> 25) ^ (b[i] + value);
  }
  static auto accesses(Word* out, const Word* a, const Word* b, Word, Word n) {
    return std::array{reads(a, n), reads(b, n), writes(out, n)};
  }
};

/// Each value to another place.
struct Scatter {
  REPRISE_KERNEL void operator()(Thread t, Word* out, const Word* in, Word value, Word n) const {
    await_previous();
    const Word i = static_cast<Word>(t.global_x());
    if (i < n) out[(i * (value | 1U) + (value >> 8)) & (n - 1)] = in[i] + i;
  }
  static auto accesses(Word* out, const Word* in, Word, Word n) { return std::array{reads(in, n), writes(out, n)}; }
};

/// Each value from another place, added to what was there.
struct Gather {
  REPRISE_KERNEL void operator()(Thread t, Word* out, const Word* in, Word value, Word n) const {
    await_previous();
    const Word i = static_cast<Word>(t.global_x());
    if (i < n) out[i] = 3 * out[i] + in[(i * (value | 1U) + (value >> 8)) & (n - 1)];
  }
  static auto accesses(Word* out, const Word* in, Word, Word n) {
    return std::array{reads(in, n), reads(out, n), writes(out, n)};
  }
};

/// Running sums within each block, in shared memory.
struct Scan {
  REPRISE_KERNEL void operator()(Block& block, Word* out, const Word* in, Word value, Word n) const {
    await_previous();
    Word* from = block.shared<Word>(block.size());
    Word* to = block.shared<Word>(block.size());
    const Word first = block.block_idx().x * block.size();
    block.for_each_thread([&](const Thread& t) {
      const Word i = first + t.rank();
      from[t.rank()] = i < n ? in[i] + value : 0;
    });
    for (unsigned distance = 1; distance < block.size(); distance *= 2) {
      block.for_each_thread([&](const Thread& t) {
        const unsigned r = t.rank();
        to[r] = from[r] + (r >= distance ? from[r - distance] : 0);
      });
      Word* const swapped = from;
      from = to;
      to = swapped;
    }
    block.for_each_thread([&](const Thread& t) {
      const Word i = first + t.rank();
      if (i < n) out[i] = from[t.rank()];
    });
  }
  static auto accesses(Word* out, const Word* in, Word, Word n) { return std::array{reads(in, n), writes(out, n)}; }
};

/// Sums, added atomically by all threads, in whatever order.
struct Histogram {
  REPRISE_KERNEL void operator()(Thread t, Word* out, const Word* in, Word value, Word n) const {
    await_previous();
    const Word i = static_cast<Word>(t.global_x());
    if (i < n) atomic_add(&out[(in[i] ^ value) & (n - 1)], in[i]);
  }
  static auto accesses(Word* out, const Word* in, Word, Word n) {
    return std::array{reads(in, n), reads(out, n), writes(out, n)};
  }
};

/// Random numbers.
struct Draw {
  REPRISE_KERNEL void operator()(Thread t, PhiloxState state, Word* out, Word value, Word n) const {
    await_previous();
    const Word i = static_cast<Word>(t.global_x());
    if (i >= n) return;
    Philox numbers(state, i);
    const Word first = numbers();
    out[i] = first ^ (numbers() * (value | 1U));
  }
  static auto accesses(PhiloxState state, Word* out, Word, Word n) {
    return std::array{state.access(), writes(out, n)};
  }
};
/// How many numbers a thread of Draw draws.
inline constexpr std::uint64_t drawn = 2;

/// The shape of all launches.
inline LaunchConfig shape(Word n) {
  LaunchConfig config = LaunchConfig::cover(n, 64);
  config.shared_bytes = 2 * 64 * sizeof(Word);
  return config;
}
/// Likewise, of kernels that may start before the one before has ended.
inline LaunchConfig early_shape(Word n) {
  LaunchConfig config = shape(n);
  config.programmatic = true;
  return config;
}

/// out[i] follows from in[i], by way of memory that is allocated and freed again.
inline void scratch(const StreamRef& stream, Word* out, const Word* in, Word value, Word n) {
  Buffer<Word> between(n, stream);
  launch(stream, shape(n), Map{}, between.data(), in, value, n);
  Buffer<Word> other(n, stream);
  launch(stream, shape(n), Scatter{}, other.data(), between.data(), 2 * value, n);
  between.reset();
  launch(stream, shape(n), Map{}, out, other.data(), value + 1, n);
}

/// scratch() on a stream that is forked off, joined and destroyed: later ones may have its handle.
inline void short_lived_scratch(const StreamRef& stream, Word* out, const Word* in, Word value, Word n) {
  const Stream ends(stream.device());
  ends.wait(stream);
  scratch(ends, out, in, value, n);
  stream.wait(ends.ref());
}

/// All bytes of out are set by a batch, which is a kernel of the library in a graph.
inline void fill_batch(const StreamRef& stream, Word* out, unsigned char value, Word n) {
  const FillOp fill = make_fill(reinterpret_cast<unsigned char*>(out), value, n * sizeof(Word));
  fill_batch_async({&fill, 1}, stream);
}

/// Memory in the order of a stream, with all bytes set.
inline Word* allocate_filled(const StreamRef& stream, Word value, Word n) {
  auto* const memory = static_cast<Word*>(allocate_async(n * sizeof(Word), stream));
  fill_async(memory, static_cast<unsigned char>(value), n * sizeof(Word), stream);
  return memory;
}

/// Pinned memory of the host. Movable, like Buffer.
class Pinned {
 public:
  Pinned(Device device, std::size_t count) : device_(device) {
    const backend::Checked runtime(device.backend());
    void* memory = nullptr;
    runtime.pinned_allocate(&memory, count * sizeof(Word));
    data_ = static_cast<Word*>(memory);
  }
  ~Pinned() {
    const backend::WarnOnError runtime(device_.backend());
    if (data_ != nullptr) runtime.pinned_free(data_);
  }
  Pinned(Pinned&& other) noexcept : device_(other.device_), data_(std::exchange(other.data_, nullptr)) {}
  Pinned& operator=(Pinned&&) = delete;

  Word* data() const noexcept { return data_; }

 private:
  Device device_;
  Word* data_ = nullptr;
};

/// Allocates memory for a stream until the device has none left, and frees it.
/// \throws std::logic_error unless that ends with OutOfMemoryError, with the request that was refused.
inline void exhaust(const StreamRef& stream) {
  constexpr std::size_t parts = 4;  // the last one never fits, and leaves something for others
  const Device device = stream.device();
  const std::size_t total = device.memory_info().total;
  // A CUDA device takes long to map as much: one request that it refuses must do.
  const std::size_t bytes = device.type() == DeviceType::host ? total / parts + (std::size_t{2} << 20) : 2 * total;
  std::vector<Buffer<std::byte>> memory;
  try {
    for (std::size_t i = 0; i < parts; ++i) memory.emplace_back(bytes, stream);
  } catch (const OutOfMemoryError& error) {
    if (error.statistics().requested == bytes && error.statistics().device_total == total) return;
    throw std::logic_error(std::string("an OutOfMemoryError of another request: ") + error.what());
  }
  throw std::logic_error("all memory of the device was allocated, and more, without an OutOfMemoryError");
}

/// Another thread frees memory of each device that was recorded on the stream.
inline void free_beside(const StreamRef& stream) {
  std::async(std::launch::async, [&] {
    for (const Device& device : devices()) {
      if (device.type() != stream.device().type()) continue;
      Buffer<Word> memory(64, device.default_stream());
      memory.record_stream(stream);
    }
  }).get();
}

}  // namespace reprise::differential
