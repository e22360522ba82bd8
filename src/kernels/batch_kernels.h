// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "reprise/detail/batch_ops.h"
#include "reprise/device_code.h"

// The body of the batch kernels: run on the host device by batch.cpp, compiled for CUDA by own_kernels.cu.
//
// A table is a parameter of the kernel, so that a graph can show and change it. Blocks are assigned by bytes: each does
// one chunk of one operation, found by a search in `first_block`.

namespace reprise::memory {

inline constexpr unsigned batch_block_threads = 256;
inline constexpr unsigned batch_words_per_thread = 4;  ///< loads in flight
/// The most bytes of one block: 16 bytes a word.
inline constexpr std::size_t batch_chunk_bytes = std::size_t{batch_block_threads} * batch_words_per_thread * 16;

template <class Op>
struct BatchTable {
  unsigned count = 0;
  unsigned first_block[batch_ops_per_kernel + 1] = {};  ///< of each operation; at [count]: the size of the grid
  Op ops[batch_ops_per_kernel] = {};
};

using CopyTable = BatchTable<CopyOp>;
using FillTable = BatchTable<FillOp>;
// A kernel may always have 4096 bytes of parameters; since CUDA 12.1, 32764 from sm_70 on, which all architectures that
// the library's kernels are compiled for support.
static_assert(sizeof(CopyTable) <= 4096 && sizeof(FillTable) <= 32764);

inline namespace REPRISE_KERNEL_ABI {

template <std::size_t bytes>
struct Word;
template <>
struct alignas(16) Word<16> {
  std::uint32_t parts[4];
};
template <>
struct alignas(8) Word<8> {
  std::uint64_t part;
};
template <>
struct alignas(4) Word<4> {
  std::uint32_t part;
};
template <>
struct Word<1> {
  std::uint8_t part;
};

/// The operation of a block, and the start of its chunk.
template <class Op>
REPRISE_KERNEL const Op& find_chunk(const BatchTable<Op>& table, unsigned block, std::size_t& offset) {
  unsigned low = 0, high = table.count;
  while (high - low > 1) {
    const unsigned middle = (low + high) / 2;
    (table.first_block[middle] <= block ? low : high) = middle;
  }
  offset = (block - table.first_block[low]) * batch_chunk_bytes;
  return table.ops[low];
}

REPRISE_KERNEL inline std::size_t chunk_bytes(std::size_t bytes, std::size_t offset) {
  return bytes - offset < batch_chunk_bytes ? bytes - offset : batch_chunk_bytes;
}

/// Copies this thread's share by words of `width` bytes, to which both addresses are aligned, and of the rest.
template <std::size_t width>
REPRISE_KERNEL void copy_words(unsigned thread, unsigned threads, std::byte* to, const std::byte* from,
                               std::size_t bytes) {
  auto* const words = reinterpret_cast<Word<width>*>(to);
  const auto* const sources = reinterpret_cast<const Word<width>*>(from);
  const std::size_t count = bytes / width;
  for (std::size_t first = thread; first < count; first += std::size_t{threads} * batch_words_per_thread) {
    Word<width> held[batch_words_per_thread] = {};
    for (unsigned i = 0; i < batch_words_per_thread; ++i)
      if (first + i * threads < count) held[i] = sources[first + i * threads];
    for (unsigned i = 0; i < batch_words_per_thread; ++i)
      if (first + i * threads < count) words[first + i * threads] = held[i];
  }
  for (std::size_t i = count * width + thread; i < bytes; i += threads) to[i] = from[i];
}

REPRISE_KERNEL inline void copy_chunk(Block& block, const CopyTable& table) {
  std::size_t offset = 0;
  const CopyOp& op = find_chunk(table, block.block_idx().x, offset);
  auto* const to = static_cast<std::byte*>(op.destination) + offset;
  const auto* const from = static_cast<const std::byte*>(op.source) + offset;
  const std::size_t bytes = chunk_bytes(op.bytes, offset);
  const std::uintptr_t alignment = reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from);
  block.for_each_thread([&](const Thread& t) {
    if (alignment % 16 == 0)
      copy_words<16>(t.rank(), block.size(), to, from, bytes);
    else if (alignment % 4 == 0)
      copy_words<4>(t.rank(), block.size(), to, from, bytes);
    else
      copy_words<1>(t.rank(), block.size(), to, from, bytes);
  });
}

REPRISE_KERNEL inline void fill_chunk(Block& block, const FillTable& table) {
  std::size_t offset = 0;
  const FillOp& op = find_chunk(table, block.block_idx().x, offset);
  auto* const to = static_cast<std::byte*>(op.destination) + offset;
  const std::size_t bytes = chunk_bytes(op.bytes, offset);
  // The pattern was widened to 8 bytes, and the destination is aligned to the pattern: the byte at an address is the
  // one at the address modulo 8. So the ends, up to a multiple of 8, are written byte by byte.
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(to);
  const std::size_t to_boundary = (8 - begin % 8) % 8;
  const std::size_t head = to_boundary < bytes ? to_boundary : bytes;
  const std::size_t words = (bytes - head) / 8;
  const std::size_t tail = head + 8 * words;
  const auto write = [&](std::size_t i) { to[i] = static_cast<std::byte>(op.pattern >> (8 * ((begin + i) % 8))); };
  block.for_each_thread([&](const Thread& t) {
    auto* const middle = reinterpret_cast<Word<8>*>(to + head);
    for (std::size_t i = t.rank(); i < words; i += block.size()) middle[i].part = op.pattern;
    // Each of the two ends has fewer bytes than a block has threads.
    if (t.rank() < head) write(t.rank());
    if (t.rank() < bytes - tail) write(tail + t.rank());
  });
}

}  // namespace REPRISE_KERNEL_ABI
}  // namespace reprise::memory
