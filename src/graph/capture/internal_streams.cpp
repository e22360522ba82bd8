// SPDX-License-Identifier: Apache-2.0
#include "graph/capture/internal_streams.h"

#include <vector>

#include "backend/check.h"
#include "backend/objects/tracked_stream.h"
#include "backend/per_device.h"

namespace reprise::graphs {
namespace {

struct LentStream {
  StreamHandle stream = nullptr;
  bool borrowed = false;
};

// The driver, or a device that ends, takes its streams with it.
using Streams = backend::PerDevice<std::vector<LentStream>>;

// A capture can outlive the loan, when a scope was left in a way that it could not end its capture.
bool idle(backend::Backend& backend, StreamHandle stream) {
  return backend::may_record(StreamRef(Device(backend), stream));
}

StreamHandle borrow(backend::Backend& backend, std::vector<LentStream>& streams) {
  for (LentStream& lent : streams) {
    if (lent.borrowed || !idle(backend, lent.stream)) continue;
    lent.borrowed = true;
    return lent.stream;
  }
  streams.reserve(streams.size() + 1);  // so that a stream which exists can be kept
  StreamHandle stream = nullptr;
  backend::Checked(backend).stream_create(&stream, backend::StreamFlags::non_blocking, 0);
  streams.push_back({stream, true});
  return stream;
}

StreamHandle borrow(const Device& device) {
  return Streams::use(device, [&](std::vector<LentStream>& streams) { return borrow(device.backend(), streams); });
}

}  // namespace

InternalStream::InternalStream(Device device) : stream_(device, borrow(device)) {}

InternalStream::~InternalStream() {
  Streams::use(stream_.device(), [&](std::vector<LentStream>& streams) {
    for (LentStream& lent : streams)
      if (lent.stream == stream_.native()) lent.borrowed = false;
  });
}

}  // namespace reprise::graphs
