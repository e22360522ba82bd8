// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "inspect/compare/written_memory.h"

namespace reprise::inspect {

/// A copy of memory of the device or the host, in memory of the host.
class MemoryImage {
 public:
  MemoryImage() = default;
  /// Reads the memory, after the work of the stream, and waits for that. Not on the legacy default stream, which would
  /// break captures of other threads. \throws BackendError if the runtime fails.
  MemoryImage(backend::Backend& backend, StreamHandle stream, std::vector<MemoryRange> ranges);

  const std::vector<MemoryRange>& ranges() const noexcept { return ranges_; }
  std::span<const std::byte> of(std::size_t range) const {
    return std::span(bytes_).subspan(offsets_[range], ranges_[range].bytes);
  }
  std::size_t bytes() const noexcept { return bytes_.size(); }

  /// Writes all of it back, in the order of the stream. `Runtime`: backend::Checked or backend::WarnOnError.
  template <class Runtime>
  void write(const Runtime& runtime, StreamHandle stream) const {
    for (std::size_t i = 0; i < ranges_.size(); ++i)
      runtime.copy_async(reinterpret_cast<void*>(ranges_[i].begin), of(i).data(), ranges_[i].bytes, stream);
  }

 private:
  std::vector<MemoryRange> ranges_;
  std::vector<std::size_t> offsets_;
  std::vector<std::byte> bytes_;
};

/// Reads memory piece by piece, and calls `visit` with the address of each piece and its bytes. Pieces begin at
/// multiples of 8 bytes from the beginning of the range. \throws BackendError if the runtime fails; what `visit`
/// throws.
void read_in_pieces(backend::Backend& backend, StreamHandle stream, const MemoryRange& range,
                    const std::function<void(std::uintptr_t address, std::span<const std::byte> bytes)>& visit);

}  // namespace reprise::inspect
