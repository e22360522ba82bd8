// SPDX-License-Identifier: Apache-2.0
#include "backend/host_work.h"

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/check.h"
#include "backend/own_records.h"
#include "support/immortal.h"
#include "text/format.h"

namespace reprise::backend {
namespace {

struct HostWork {
  std::function<void()> function;
  std::vector<MemoryAccess> operands;
  bool once = true;  ///< not of a graph: destroyed by its run
};

MemoryAccess operand(void* const* params, std::size_t index) {
  return *static_cast<const MemoryAccess*>(params[index + 1]);
}

/// The function that the calling thread runs, and the parameters of this launch.
struct Running {
  const HostWork* work = nullptr;
  void* const* params = nullptr;
};
constinit thread_local Running current_work;

void run(const HostLaunch& /*launch*/, void* const* params) {
  struct Restored {
    Running before;
    ~Restored() { current_work = before; }
  };
  auto* const work = *static_cast<HostWork**>(params[0]);
  const std::unique_ptr<HostWork> owner(work->once ? work : nullptr);
  const Restored restored{std::exchange(current_work, {work, params})};
  work->function();
}

std::vector<MemoryAccess> accesses(void* const* params) {
  const auto* const work = *static_cast<HostWork**>(params[0]);
  std::vector<MemoryAccess> found;
  found.reserve(work->operands.size());
  for (std::size_t i = 0; i < work->operands.size(); ++i) found.push_back(operand(params, i));
  return found;
}

struct Record {
  std::vector<KernelParam> params;
  KernelRecord record;
};

// One for each name and number of operands, alive until the process ends.
const KernelRecord& record_of(const std::string& name, std::size_t operands) {
  struct Records {
    std::mutex mutex;
    std::map<std::pair<std::string, std::size_t>, Record> made;
  };
  static support::Immortal<Records> records;
  const std::lock_guard lock(records->mutex);
  const auto [found, is_new] = records->made.try_emplace({name, operands});
  Record& record = found->second;
  if (is_new) {
    record.params.push_back({0, sizeof(HostWork*)});
    for (std::size_t i = 0; i < operands; ++i)
      record.params.push_back({sizeof(HostWork*) + i * sizeof(MemoryAccess), sizeof(MemoryAccess)});
    record.record.name = name;
    record.record.params = record.params;
    record.record.params_bytes = sizeof(HostWork*) + operands * sizeof(MemoryAccess);
    record.record.host_entry = &run;
    record.record.accesses = &accesses;
    add_own_record(record.record);
  }
  return record.record;
}

using Owned = std::unique_ptr<void, void (*)(void*)>;

// The graph that the stream is capturing holds the object from here on. Returns false if there is none.
bool give_to_graph(Backend& backend, StreamHandle stream, Owned& object) {
  CaptureInfo info;
  Checked(backend).stream_capture_info(stream, &info);
  if (info.status != CaptureStatus::active) return false;
  UserObjectHandle held = nullptr;
  Checked(backend).user_object_create(&held, object.get(), object.get_deleter(), 1);
  static_cast<void>(object.release());  // the runtime's
  const Result retained = backend.graph_retain_user_object(info.graph, held, 1, RetainFlags::move);
  if (retained.failed()) WarnOnError(backend).user_object_release(held, 1);
  check(backend, Call::graph_retain_user_object, retained);
  return true;
}

}  // namespace

void enqueue(const StreamRef& stream, const std::string& name, std::function<void()> function,
             std::span<const MemoryAccess> operands) {
  if (stream.device().type() != DeviceType::host)
    throw UsageError(
        text::format("{}: expected a stream of a host device, which runs functions of the host; found one "
                     "of {}.",
                     name, stream.device().str()));
  Backend& backend = stream.device().backend();
  auto* pointer = new HostWork{std::move(function), {operands.begin(), operands.end()}};
  Owned work(pointer, [](void* held) { delete static_cast<HostWork*>(held); });
  std::vector<void*> params{&pointer};
  for (const MemoryAccess& operand : operands) params.push_back(const_cast<MemoryAccess*>(&operand));
  pointer->once = !give_to_graph(backend, stream.native(), work);
  detail::launch_kernel(stream, {}, record_of(name, operands.size()), params.data());
  static_cast<void>(work.release());  // owned by the graph, or destroyed by its run
}

void* operand_now(void* submitted) noexcept {
  if (current_work.work == nullptr) return submitted;
  for (std::size_t i = 0; i < current_work.work->operands.size(); ++i)
    if (current_work.work->operands[i].address == submitted)
      return const_cast<void*>(operand(current_work.params, i).address);
  return submitted;
}

bool is_enqueued(const KernelRecord& kernel) noexcept {
  return kernel.host_entry == &run;
}

void keep_in_captured_graph(const StreamRef& stream, std::shared_ptr<void> object) {
  Owned held(new std::shared_ptr<void>(std::move(object)),
             [](void* kept) { delete static_cast<std::shared_ptr<void>*>(kept); });
  static_cast<void>(give_to_graph(stream.device().backend(), stream.native(), held));
}

}  // namespace reprise::backend
