// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/objects/stream_handles.h"
#include "captures/registry.h"
#include "graph/capture/kept_objects.h"
#include "reprise/workspace.h"
#include "support/immortal.h"

namespace reprise::graphs {
namespace {

using Memory = Buffer<std::byte>;

// The key under which graphs share a workspace.
struct Owner {
  Device device;
  MempoolId pool;
  std::string library;
  friend bool operator==(const Owner&, const Owner&) = default;
};

// A workspace that some graph or capture holds.
struct Shared {
  Owner owner;
  std::weak_ptr<Memory> memory;
};

// A stream of a capture. A capturing stream cannot be queried for its id, so it is known by its handle; that of the
// per-thread default stream means another stream on each thread.
struct StreamName {
  Device device;
  StreamHandle handle;
  std::thread::id thread = {};
  explicit StreamName(const StreamRef& stream) : device(stream.device()), handle(stream.native()) {
    if (backend::is_per_thread_stream(handle)) thread = std::this_thread::get_id();
  }
  friend bool operator==(const StreamName&, const StreamName&) = default;
};

// A workspace in use by one stream of a capture; of no stream any more once that was destroyed, since its handle may
// come back for a new one. KeptObjects has the memory.
struct InUse {
  std::optional<StreamName> stream;
  std::string library;
  std::weak_ptr<Memory> memory;
};

// The workspaces of one capture, in a slot of it from the first request on. Guarded by the table's mutex.
struct CaptureWorkspaces {
  std::vector<InUse> in_use;

  void stream_ends(const StreamRef& stream) noexcept;
};

constinit captures::Slot<CaptureWorkspaces> workspaces_of;

// All workspaces of the process. The mutex comes before the allocator's, and no memory is allocated under it: that may
// wait for the device, and releases what other graphs held.
struct Table {
  std::mutex mutex;
  std::vector<Shared> shared;
};

// Never destroyed: a graph may be, after static destructors have begun.
Table& table() {
  static support::Immortal<Table> instance;
  return *instance;
}

// The largest one, so that smaller ones fall out of use. Null if none is large enough.
std::shared_ptr<Memory> larger(const std::shared_ptr<Memory>& best, const std::shared_ptr<Memory>& other,
                               std::size_t bytes) {
  if (other == nullptr || other->size() < bytes) return best;
  return best == nullptr || other->size() > best->size() ? other : best;
}

std::shared_ptr<Memory> of_stream(const std::vector<InUse>& in_use, const StreamName& stream, std::string_view library,
                                  std::size_t bytes) {
  std::shared_ptr<Memory> best;
  for (const InUse& use : in_use)
    if (use.stream == stream && use.library == library) best = larger(best, use.memory.lock(), bytes);
  return best;
}

// One that other graphs of the pool hold, and no stream of this capture.
std::shared_ptr<Memory> of_other_graphs(Table& all, const std::vector<InUse>& in_use, const Owner& owner,
                                        std::size_t bytes) {
  std::erase_if(all.shared, [](const Shared& shared) { return shared.memory.expired(); });
  std::shared_ptr<Memory> best;
  for (const Shared& shared : all.shared) {
    if (!(shared.owner == owner)) continue;
    const std::shared_ptr<Memory> memory = shared.memory.lock();
    const bool taken =
        std::any_of(in_use.begin(), in_use.end(), [&](const InUse& use) { return use.memory.lock() == memory; });
    if (!taken) best = larger(best, memory, bytes);
  }
  return best;
}

struct Request {
  std::string_view library;
  std::size_t bytes;
  StreamRef stream;
  captures::Capture& capture;
};

// What there is for the request, else what was made for it, which may be null. Nothing if the capture has ended.
std::optional<std::shared_ptr<Memory>> take(const Request& request, const std::shared_ptr<Memory>& made) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  const auto workspaces = request.capture.get_or_attach(workspaces_of);
  const auto kept = KeptObjects::of(request.capture);
  if (workspaces == nullptr || kept == nullptr) return std::nullopt;
  std::vector<InUse>& in_use = workspaces->in_use;
  const StreamName name(request.stream);
  if (auto memory = of_stream(in_use, name, request.library, request.bytes)) return memory;
  const Owner owner{request.stream.device(), request.capture.pool(), std::string(request.library)};
  auto memory = of_other_graphs(all, in_use, owner, request.bytes);
  if (memory == nullptr && made != nullptr) {
    all.shared.push_back({owner, made});
    memory = made;
  }
  if (memory != nullptr) {
    kept->keep(memory);
    in_use.push_back({name, owner.library, memory});
  }
  return memory;
}

void CaptureWorkspaces::stream_ends(const StreamRef& stream) noexcept {
  const std::lock_guard lock(table().mutex);
  for (InUse& use : in_use)
    if (use.stream == StreamName(stream)) use.stream.reset();
}

}  // namespace
}  // namespace reprise::graphs

namespace reprise {

Workspace library_workspace(std::string_view library, std::size_t bytes, const StreamRef& stream) {
  if (bytes == 0 || !captures::any_underway()) return {};
  const captures::Found found = captures::find(stream);
  if (found.part != captures::Part::own) return {};  // also of a broken capture
  captures::note_use(stream, found);

  const graphs::Request request{library, bytes, stream, *found.capture};
  auto memory = graphs::take(request, nullptr);
  if (memory.has_value() && *memory == nullptr)
    memory = graphs::take(request, std::make_shared<graphs::Memory>(bytes, stream));
  return memory.has_value() ? Workspace{(*memory)->data(), bytes} : Workspace{};
}

}  // namespace reprise
