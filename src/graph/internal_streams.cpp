// SPDX-License-Identifier: Apache-2.0
#include "graph/internal_streams.h"

#include <vector>

#include "backend/check.h"
#include "backend/objects/tracked_stream.h"
#include "backend/per_device.h"
#include "support/forked.h"

namespace reprise::graphs {
namespace {

struct Slot {
  StreamHandle stream = nullptr;
  bool borrowed = false;
};

// The driver, or a device that ends, takes its streams with it.
using Streams = backend::PerDevice<std::vector<Slot>>;

// A capture can outlive the loan, when a scope was left in a way that it could not end its capture.
bool idle(backend::Backend& backend, StreamHandle stream) {
  return backend::may_record(StreamRef(Device(backend), stream));
}

StreamHandle borrow(backend::Backend& backend, std::vector<Slot>& slots) {
  for (Slot& slot : slots) {
    if (slot.borrowed || !idle(backend, slot.stream)) continue;
    slot.borrowed = true;
    return slot.stream;
  }
  slots.reserve(slots.size() + 1);  // so that a stream which exists can be kept
  StreamHandle stream = nullptr;
  backend::Checked(backend).stream_create(&stream, backend::StreamFlags::non_blocking, 0);
  slots.push_back({stream, true});
  return stream;
}

StreamHandle borrow(const Device& device) {
  backend::require_not_forked(backend::Call::stream_create);
  return Streams::use(device, [&](std::vector<Slot>& slots) { return borrow(device.backend(), slots); });
}

}  // namespace

InternalStream::InternalStream(Device device) : stream_(device, borrow(device)) {}

InternalStream::~InternalStream() {
  if (support::forked()) return;
  Streams::use(stream_.device(), [&](std::vector<Slot>& slots) {
    for (Slot& slot : slots)
      if (slot.stream == stream_.native()) slot.borrowed = false;
  });
}

}  // namespace reprise::graphs
