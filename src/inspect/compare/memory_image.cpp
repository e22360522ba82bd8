// SPDX-License-Identifier: Apache-2.0
#include "inspect/compare/memory_image.h"

#include <algorithm>

#include "backend/check.h"

namespace reprise::inspect {

MemoryImage::MemoryImage(backend::Backend& backend, StreamHandle stream, std::vector<MemoryRange> ranges)
    : ranges_(std::move(ranges)) {
  std::size_t bytes = 0;
  for (const MemoryRange& range : ranges_) {
    offsets_.push_back(bytes);
    bytes += range.bytes;
  }
  bytes_.resize(bytes);
  const backend::Checked runtime(backend);
  try {
    for (std::size_t i = 0; i < ranges_.size(); ++i)
      runtime.copy_async(bytes_.data() + offsets_[i], reinterpret_cast<const void*>(ranges_[i].begin), ranges_[i].bytes,
                         stream);
    runtime.stream_synchronize(stream);
  } catch (...) {
    backend::WarnOnError(backend).stream_synchronize(stream);  // copies may still write here
    throw;
  }
}

void read_in_pieces(backend::Backend& backend, StreamHandle stream, const MemoryRange& range,
                    const std::function<void(std::uintptr_t address, std::span<const std::byte> bytes)>& visit) {
  constexpr std::size_t most = std::size_t{4} << 20;
  for (std::size_t at = 0; at < range.bytes; at += most) {
    const MemoryImage piece(backend, stream, {{range.begin + at, std::min(most, range.bytes - at)}});
    visit(range.begin + at, piece.of(0));
  }
}

}  // namespace reprise::inspect
