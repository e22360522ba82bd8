// SPDX-License-Identifier: Apache-2.0
#include "backend/objects/kept_streams.h"

#include <iterator>
#include <mutex>
#include <new>
#include <vector>

#include "backend/backend.h"
#include "backend/check.h"
#include "backend/framework.h"
#include "backend/objects/tracked_stream.h"
#include "support/immortal.h"

namespace reprise::backend {
namespace {

struct KeptStream {
  StreamRef stream;
  StreamOptions options;
};

// Never destroyed: streams may end until the process does.
struct KeptStreams {
  std::mutex mutex;
  std::vector<KeptStream> all;  // in the order in which they ended
};

// Pending work of the previous owner would delay the next owner's work, and deadlock if it waits for that work.
bool is_like_new(const StreamRef& stream) noexcept {
  return may_record(stream) && stream.device().backend().stream_query(stream.native()) == ErrorCode::success;
}

}  // namespace

bool keeps_streams(const Device& device) noexcept {
  const Framework* const framework = installed_framework();
  return framework != nullptr && !device.backend().of_simulator() && framework->keeps_streams(device.type());
}

void keep_stream(const StreamRef& stream, const StreamOptions& options) noexcept {
  try {
    KeptStreams& kept = support::Immortal<KeptStreams>::get();
    const std::lock_guard lock(kept.mutex);
    kept.all.push_back({stream, options});
  } catch (const std::bad_alloc&) {
    // The stream is not reused.
  }
}

StreamHandle take_kept_stream(const Device& device, const StreamOptions& options) noexcept {
  KeptStreams& kept = support::Immortal<KeptStreams>::get();
  const std::lock_guard lock(kept.mutex);
  if (kept.all.empty()) return nullptr;
  const RelaxedCaptureMode relaxed(device.backend());
  // The last one first: allocators have the most memory for the streams that are used again and again.
  for (auto each = kept.all.rbegin(); each != kept.all.rend(); ++each) {
    if (each->stream.device() != device || each->options.blocking != options.blocking ||
        each->options.priority != options.priority || !is_like_new(each->stream))
      continue;
    const StreamHandle handle = each->stream.native();
    kept.all.erase(std::next(each).base());
    return handle;
  }
  return nullptr;
}

}  // namespace reprise::backend
