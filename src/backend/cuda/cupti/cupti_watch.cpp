// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cupti/cupti_watch.h"

#include <cudaTypedefs.h>
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>

#include "backend/cuda/cupti/cupti_api.h"
#include "backend/cuda/cupti/driver_calls.h"
#include "backend/cuda/monitor/call_monitor.h"
#include "support/immortal.h"
#include "text/format.h"

namespace reprise::backend::cuda {
namespace {

// The required functions of the driver, looked up when a capture exists, and so a driver: this code also runs during
// cuInit, where nothing may be opened or queried (InitializeInjection).
struct QueryApi {
  PFN_cuStreamIsCapturing_v10000 is_capturing = nullptr;
  PFN_cuStreamGetCaptureInfo_v12030 capture_info = nullptr;
  PFN_cuGraphGetNodes_v10000 graph_nodes = nullptr;
  PFN_cuThreadExchangeStreamCaptureMode_v10010 exchange_mode = nullptr;
  PFN_cuCtxGetDevice_v2000 current_device = nullptr;
};

QueryApi find_queries() {
  QueryApi api;
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return api;
  auto* const find = reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(library, "cuGetProcAddress_v2"));
  if (find == nullptr) return api;
  const auto get = [&](const char* name, int since, auto& function) {
    void* address = nullptr;
    if (find(name, &address, since, CU_GET_PROC_ADDRESS_DEFAULT, nullptr) == CUDA_SUCCESS)
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
  get("cuStreamIsCapturing", 10000, api.is_capturing);
  get("cuStreamGetCaptureInfo", 12030, api.capture_info);
  get("cuGraphGetNodes", 10000, api.graph_nodes);
  get("cuThreadExchangeStreamCaptureMode", 10010, api.exchange_mode);
  get("cuCtxGetDevice", 2000, api.current_device);
  return api;
}

class Driver final : public CaptureQueries {
 public:
  std::optional<CaptureStatus> status(StreamHandle stream) override {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (api().is_capturing == nullptr || api().is_capturing(stream, &status) != CUDA_SUCCESS) return std::nullopt;
    return static_cast<CaptureStatus>(status);
  }
  GraphHandle captured_graph(StreamHandle stream) override {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    CUgraph graph = nullptr;
    const CUgraphNode* dependencies = nullptr;
    const CUgraphEdgeData* edges = nullptr;  // without it the driver refuses the call when an edge is programmatic
    std::size_t count = 0;
    if (api().capture_info == nullptr ||
        api().capture_info(stream, &status, &id, &graph, &dependencies, &edges, &count) != CUDA_SUCCESS)
      return nullptr;
    return graph;
  }
  std::optional<std::size_t> node_count(GraphHandle graph) override {
    std::size_t count = 0;
    if (graph == nullptr || api().graph_nodes == nullptr || api().graph_nodes(graph, nullptr, &count) != CUDA_SUCCESS)
      return std::nullopt;
    return count;
  }
  bool is_relaxed() override {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (api().exchange_mode == nullptr || api().exchange_mode(&mode) != CUDA_SUCCESS) return false;
    const bool relaxed = mode == CU_STREAM_CAPTURE_MODE_RELAXED;
    if (!relaxed) (void)api().exchange_mode(&mode);
    return relaxed;
  }
  std::string device() override {
    CUdevice device = 0;
    if (api().current_device == nullptr || api().current_device(&device) != CUDA_SUCCESS) return {};
    return text::format("cuda:{}", device);
  }

 private:
  static const QueryApi& api() {
    static const QueryApi found = find_queries();
    return found;
  }
};

CallMonitor& monitor() {
  static support::Immortal<Driver> driver;
  static support::Immortal<CallMonitor> the_monitor(*driver);
  return *the_monitor;
}

std::atomic<int> callbacks_underway{0};  // on all threads

class CallbackScope {
 public:
  CallbackScope() { callbacks_underway.fetch_add(1, std::memory_order_acq_rel); }
  ~CallbackScope() { callbacks_underway.fetch_sub(1, std::memory_order_acq_rel); }
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;
};

// On any thread, at the beginning and the end of each call. Exceptions must not pass through CUPTI: without memory, a
// report is incomplete.
void on_call(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* what) noexcept try {
  if (CallMonitor::querying()) return;
  const CallbackScope scope;
  const auto& data = *static_cast<const CUpti_CallbackData*>(what);
  const bool begins = data.callbackSite == CUPTI_API_ENTER;
  ErrorCode result = ErrorCode::success;
  if (!begins && data.functionReturnValue != nullptr)
    std::memcpy(&result, data.functionReturnValue, sizeof result);  // of both interfaces, an int with the same meaning
  if (domain == CUPTI_CB_DOMAIN_RUNTIME_API)
    begins ? monitor().runtime_begins(data.functionName) : monitor().runtime_ends(data.functionName, result);
  else if (domain == CUPTI_CB_DOMAIN_DRIVER_API)
    begins ? monitor().begins(driver_call(id, data)) : monitor().ends(driver_call(id, data), result);
} catch (...) {
}

// The holder of the subscriber, as far as CUPTI names it.
std::string other_tool([[maybe_unused]] const CuptiApi& api) {
#if CUPTI_API_VERSION >= 130000
  if (api.subscribe_v2 == nullptr) return {};
  std::array<char, 2 * CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN> name{};
  CUpti_SubscriberParams params{};
  params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
  params.oldSubscriberName = name.data();
  params.oldSubscriberSize = name.size() - 1;
  CUpti_SubscriberHandle subscriber = nullptr;
  if (api.subscribe_v2(&subscriber, &on_call, nullptr, &params) == CUPTI_SUCCESS) (void)api.unsubscribe(subscriber);
  return name.data();
#else
  return {};
#endif
}

std::string held_by_another(const CuptiApi& api, const CuptiPurpose& purpose) {
  const std::string name = other_tool(api);
  return text::format(
      "Another tool{} holds CUPTI's subscriber, of which there is one in a process (a profiler, a "
      "debugger, `reprise explain`): {}.",
      name.empty() ? "" : text::format(" ({})", name), purpose.left_out);
}

// The subscription, and the number of its users.
struct Subscription {
  std::mutex mutex;
  std::size_t holders = 0;   // users, including watchers
  std::size_t watchers = 0;  // of all calls
  OpenedCupti cupti;
  CUpti_SubscriberHandle subscriber = nullptr;
};

std::string failure(const CuptiPurpose& purpose, const OpenedCupti& cupti, const char* call, CUptiResult result) {
  return text::format("{}: {}.", purpose.impossible, failure_text(cupti, call, result));
}

// Returns the reason as a sentence if it is not possible. With the mutex held, as the next ones.
std::string hold(Subscription& to, const CuptiPurpose& purpose) {
  if (to.holders == 0) {
    to.cupti = opened_cupti();
    if (!to.cupti.unavailable.empty()) return text::format("{}: {}.", purpose.impossible, to.cupti.unavailable);
    const CUptiResult subscribed = to.cupti.api.subscribe(&to.subscriber, &on_call, nullptr);
    if (subscribed == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) return held_by_another(to.cupti.api, purpose);
    if (subscribed != CUPTI_SUCCESS) return failure(purpose, to.cupti, "cuptiSubscribe", subscribed);
  }
  ++to.holders;
  return {};
}

void release(Subscription& held) {
  if (--held.holders == 0) (void)held.cupti.api.unsubscribe(held.subscriber);
}

CUptiResult enable_calls(const Subscription& held, bool enable) {
  CUptiResult result = CUPTI_SUCCESS;
  for (const CUpti_CallbackDomain domain : {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RUNTIME_API})
    if (const CUptiResult one = held.cupti.api.enable_domain(enable ? 1 : 0, held.subscriber, domain);
        result == CUPTI_SUCCESS)
      result = one;
  return result;
}

// Ends the callbacks: waits for those underway on other threads, which CUPTI does not do at unsubscription. For a
// limited time: a callback may be waiting for a lock of the program's.
void stop_callbacks(const Subscription& held) {
  (void)enable_calls(held, false);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  while (callbacks_underway.load(std::memory_order_acquire) != 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
}

void unwatch() {
  Subscription& held = support::Immortal<Subscription>::get();
  const std::scoped_lock lock(held.mutex);
  const bool last = --held.watchers == 0;
  if (last) stop_callbacks(held);
  release(held);
  if (last) monitor().forget();
}

}  // namespace

std::shared_ptr<void> hold_cupti(const CuptiPurpose& purpose, std::string* why) {
  Subscription& held = support::Immortal<Subscription>::get();
  const std::scoped_lock lock(held.mutex);
  *why = hold(held, purpose);
  if (!why->empty()) return nullptr;
  return {&held, [](Subscription* to_end) {
            const std::scoped_lock ending(to_end->mutex);
            release(*to_end);
          }};
}

std::shared_ptr<void> watch_through_cupti(std::string* why) {
  constexpr CuptiPurpose purpose{"Calls of CUDA cannot be watched", "calls of CUDA are not watched"};
  Subscription& held = support::Immortal<Subscription>::get();
  const std::scoped_lock lock(held.mutex);
  *why = hold(held, purpose);
  if (!why->empty()) return nullptr;
  if (held.watchers == 0) {
    if (const CUptiResult enabled = enable_calls(held, true); enabled != CUPTI_SUCCESS) {
      *why = failure(purpose, held.cupti, "cuptiEnableDomain", enabled);
      if (held.holders > 1) (void)enable_calls(held, false);
      release(held);
      return nullptr;
    }
  }
  ++held.watchers;
  return {&held, [](Subscription*) { unwatch(); }};
}

std::optional<CaptureFindings> describe_watched(StreamHandle stream) {
  return monitor().describe(stream);
}

void on_watched_capture(std::function<void(const CaptureFindings&)> sink) {
  monitor().on_finished(std::move(sink));
}

void report_watched_captures_that_did_not_end() {
  monitor().process_ends();
}

}  // namespace reprise::backend::cuda
