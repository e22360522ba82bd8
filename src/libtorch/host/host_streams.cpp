// SPDX-License-Identifier: Apache-2.0
#include "libtorch/host/host_streams.h"

#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/check.h"
#include "backend/framework.h"
#include "reprise/error.h"
#include "reprise/event.h"
#include "reprise/memory.h"
#include "support/immortal.h"
#include "text/format.h"

namespace reprise::libtorch {
namespace {

// libtorch's current device of this type, where the current device of this library is of another type.
thread_local int current_index = 0;

// False for the device of a HostSimulator, which libtorch does not know.
bool is_known(const Device& device) {
  return device.type() == DeviceType::host && !device.backend().of_simulator();
}

int current_host_index() {
  const Device current = current_device();
  return is_known(current) ? current.index() : current_index;
}

void set_current_index(int index) {
  current_index = index;
  if (is_known(current_device()))
    backend::set_current_device(Device(*backend::host_backends().at(static_cast<std::size_t>(index))));
}

// Streams of libtorch live as long as the process; it returns views of them. As on CUDA there are 32 per device and
// priority, returned in turn.
StreamRef pooled_stream(const Device& device, int priority) {
  struct Pool {
    std::vector<std::unique_ptr<Stream>> streams;
    std::size_t given_out = 0;
  };
  struct Pools {
    std::mutex mutex;
    std::map<std::pair<int, int>, Pool> pools;
  };
  constexpr std::size_t streams_of_a_pool = 32;
  static support::Immortal<Pools> pools;
  const std::lock_guard lock(pools->mutex);
  Pool& pool = pools->pools[{device.index(), priority}];
  if (pool.streams.size() < streams_of_a_pool) {
    StreamOptions options;
    options.priority = priority;
    pool.streams.push_back(std::make_unique<Stream>(device, options));
  }
  return pool.streams[pool.given_out++ % streams_of_a_pool]->ref();
}

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return type_here; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    if (device.index() >= 0 && device.index() != before.index()) set_current_index(device.index());
    return before;
  }
  c10::Device getDevice() const override { return {type_here, static_cast<c10::DeviceIndex>(current_host_index())}; }
  void setDevice(c10::Device device) const override { exchangeDevice(device); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { exchangeDevice(device); }

  c10::Stream getStream(c10::Device device) const override { return host_c10_stream(current_stream_of(device)); }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return host_c10_stream(host_device_of(device).default_stream());
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return host_c10_stream(pooled_stream(host_device_of(device), high_priority ? -1 : 0));
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return host_c10_stream(pooled_stream(host_device_of(device), priority));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return host_c10_stream(backend::exchange_current_stream(host_stream_of(stream)));
  }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex /*device*/,
              c10::EventFlag flag) const override {
    const StreamRef on = host_stream_of(stream);
    if (*event == nullptr) {
      EventOptions options;
      options.timing = flag == c10::EventFlag::BACKEND_DEFAULT;
      *event = new Event(on.device(), options);
    }
    static_cast<Event*>(*event)->record(on);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) static_cast<Event*>(event)->wait(host_stream_of(stream));
  }
  bool queryEvent(void* event) const override { return event == nullptr || static_cast<Event*>(event)->query(); }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) static_cast<Event*>(event)->synchronize();
  }
  void destroyEvent(void* event, c10::DeviceIndex /*device*/) const noexcept override {
    delete static_cast<Event*>(event);
  }
  double elapsedTime(void* start, void* end, c10::DeviceIndex /*device*/) const override {
    TORCH_CHECK(start != nullptr && end != nullptr,
                "Both events must be recorded before the time between them is queried.");
    return static_cast<double>(elapsed_ms(*static_cast<Event*>(start), *static_cast<Event*>(end)));
  }

  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(backend::host_backends().size());
  }
  bool queryStream(const c10::Stream& stream) const override { return host_stream_of(stream).query(); }
  void synchronizeStream(const c10::Stream& stream) const override { host_stream_of(stream).synchronize(); }
  void synchronizeDevice(c10::DeviceIndex device) const override { host_device_of({type_here, device}).synchronize(); }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    if (data.get() == nullptr) return;
    CachingAllocator::of(host_device_of(data.device())).record_stream(data.get(), host_stream_of(stream));
  }
};

}  // namespace

Device host_device_of(c10::Device device) {
  const int index = device.index() < 0 ? current_host_index() : device.index();
  const auto& all = backend::host_backends();
  TORCH_CHECK(static_cast<std::size_t>(index) < all.size(), "expected a host device below ", all.size(), ", found ",
              device.str(), "; the environment variable REPRISE_HOST_DEVICES says how many there are");
  return Device(*all[static_cast<std::size_t>(index)]);
}

c10::Device host_c10_device(const Device& device) {
  if (!is_known(device))
    throw UsageError(
        text::format("expected a host device of the process for tensors, such as host:0; found {}; the device of a "
                     "HostSimulator has no tensors: name the device, host_device(0), or make another one current",
                     device.str()));
  return {type_here, static_cast<c10::DeviceIndex>(device.index())};
}

c10::Device current_c10_device() {
  const Device current = current_device();
  return current.type() == DeviceType::host ? host_c10_device(current) : c10::Device(type_here, current_index);
}

StreamRef host_stream_of(const c10::Stream& stream) {
  return StreamRef(host_device_of(stream.device()), reinterpret_cast<StreamHandle>(stream.id()));
}

c10::Stream host_c10_stream(const StreamRef& stream) {
  return c10::Stream(c10::Stream::UNSAFE, host_c10_device(stream.device()),
                     reinterpret_cast<c10::StreamId>(stream.native()));
}

void register_guard() {
  static support::Immortal<Guard> guard;
  static const c10::impl::DeviceGuardImplRegistrar registrar(type_here, &*guard);
}

}  // namespace reprise::libtorch
