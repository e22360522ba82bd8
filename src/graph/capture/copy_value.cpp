// SPDX-License-Identifier: Apache-2.0
#include "reprise/copy_value.h"

#include <cstring>
#include <memory>
#include <vector>

#include "backend/check.h"
#include "captures/registry.h"
#include "graph/capture/kept_objects.h"
#include "memory/watches/allocation_log.h"
#include "reprise/detail/public_call.h"
#include "reprise/error.h"
#include "reprise/memory.h"
#include "text/format.h"

namespace reprise {
namespace {

void require_host_memory(const StreamRef& stream, const void* source) {
  const backend::PointerInfo info = backend::Checked(stream.device().backend()).info_of(source);
  if (info.kind != backend::MemoryKind::device && source != nullptr) return;
  throw UsageError(text::format(
      "copy_value_async expected a source in memory of the host, whose value can be read now; found {}{}", source,
      source == nullptr ? "." : text::format(", in memory of device {}: copy_async() copies it.", info.device_index)));
}

// The source of a node that each replay reads, owned by the graph. Two captures of a body have the same in it.
const void* keep_value(captures::Capture& capture, const void* source, std::size_t bytes) {
  auto value = std::make_shared<HostBuffer<std::byte>>(bytes, capture.device());
  std::memcpy(value->data(), source, bytes);
  const void* const address = value->data();
  const auto kept = graphs::KeptObjects::of(capture);
  if (kept == nullptr) throw UsageError("copy_value_async: the capture is over: call it before its end.");
  kept->keep(std::move(value));
  memory::AllocationLog::note(capture, address, bytes, /*is_value=*/true);
  return address;
}

}  // namespace

void copy_value_async(void* destination, const void* source, std::size_t bytes, const StreamRef& stream) {
  const detail::PublicCall public_call("copy_value_async");
  if (bytes == 0) return;
  require_host_memory(stream, source);
  const captures::Found found = captures::find(stream);
  if (found.part == captures::Part::foreign)
    throw UsageError(
        "copy_value_async expected a stream in no capture, or in one of this library, whose graph owns the value; "
        "found one in a capture of other code: copy from memory that lives as long as its graph. The capture "
        "continues.");
  if (found.part == captures::Part::own)
    return copy_async(destination, keep_value(*found.capture, source, bytes), bytes, stream);
  // The runtime reads pageable memory before the call returns.
  const auto* const begin = static_cast<const std::byte*>(source);
  const std::vector<std::byte> value(begin, begin + bytes);
  copy_async(destination, value.data(), bytes, stream);
}

}  // namespace reprise
