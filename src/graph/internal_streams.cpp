// SPDX-License-Identifier: Apache-2.0
#include "graph/internal_streams.h"

#include <map>
#include <mutex>
#include <vector>

#include "backend/check.h"
#include "backend/device_end.h"
#include "backend/objects/tracked_stream.h"
#include "support/immortal.h"

namespace reprise::graphs {
namespace {

struct Slot {
  StreamHandle stream = nullptr;
  bool borrowed = false;
};

void device_ends(const Device& device) noexcept;

struct Streams {
  Streams() {
    static constinit backend::DeviceEndListener listener(&device_ends);
    backend::device_end_listeners.add(listener);
  }

  std::mutex mutex;
  std::map<backend::Backend*, std::vector<Slot>> by_device;
};

// Never destroyed: the driver may be gone by the time of static destructors, and takes its streams with it.
Streams& streams() {
  static support::Immortal<Streams> instance;
  return *instance;
}

// The device takes its streams with it.
void device_ends(const Device& device) noexcept {
  Streams& all = streams();
  const std::lock_guard lock(all.mutex);
  all.by_device.erase(&device.backend());
}

// A capture can outlive the loan, when a scope was left in a way that it could not end its capture.
bool idle(backend::Backend& backend, StreamHandle stream) {
  return backend::may_record(StreamRef(Device(backend), stream));
}

StreamHandle borrow(backend::Backend& backend) {
  Streams& all = streams();
  const std::lock_guard lock(all.mutex);
  std::vector<Slot>& slots = all.by_device[&backend];
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

}  // namespace

InternalStream::InternalStream(Device device) : stream_(device, borrow(device.backend())) {}

InternalStream::~InternalStream() {
  Streams& all = streams();
  const std::lock_guard lock(all.mutex);
  for (Slot& slot : all.by_device[&stream_.device().backend()])
    if (slot.stream == stream_.native()) slot.borrowed = false;
}

}  // namespace reprise::graphs
