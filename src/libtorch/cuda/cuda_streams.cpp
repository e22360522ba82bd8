// SPDX-License-Identifier: Apache-2.0
#include "libtorch/cuda/cuda_tensors.h"
#include "support/immortal.h"
#include "support/thread_object.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <cstddef>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "reprise/error.h"

namespace reprise::libtorch {
namespace {

using c10::cuda::CUDAStream;

// The stream ids of libtorch's pool streams by handle: a handle alone would be the id of a foreign stream. A few dozen
// at most, which live as long as the process.
struct Names {
  std::shared_mutex mutex;
  std::unordered_map<StreamHandle, c10::StreamId> ids;
};

Names& names() {
  static support::Immortal<Names> instance;  // streams are queried until the process ends
  return *instance;
}

// Stores the id of a stream whose id is not its handle; that of a foreign stream is.
void store_name(StreamHandle handle, c10::StreamId id) {
  if (id == reinterpret_cast<c10::StreamId>(handle)) return;
  Names& all = names();
  const std::unique_lock lock(all.mutex);
  all.ids.try_emplace(handle, id);
}

// An id always means one stream; so libtorch, which makes the device current for this query, is queried once.
[[gnu::hot]] StreamHandle handle_of(const CUDAStream& stream) {
  struct Named {
    c10::StreamId id = 0;  // the default stream, which is null on each device
    c10::DeviceIndex device = 0;
    StreamHandle handle = nullptr;
  };
  thread_local Named last;
  const Named key{stream.id(), stream.device_index(), nullptr};
  if (key.id == 0) return nullptr;
  if (key.id != last.id || key.device != last.device) [[unlikely]] {
    last = {key.id, key.device, stream.stream()};
    store_name(last.handle, key.id);
  }
  return last.handle;
}

CUDAStream stream_with(c10::DeviceIndex device, StreamHandle handle) {
  if (handle == nullptr) return c10::cuda::getDefaultCUDAStream(device);
  Names& all = names();
  const std::shared_lock lock(all.mutex);
  const auto found = all.ids.find(handle);
  if (found == all.ids.end()) return c10::cuda::getStreamFromExternal(handle, device);
  return CUDAStream(CUDAStream::UNCHECKED,
                    c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::CUDA, device), found->second));
}

// libtorch keeps the current streams of a thread in a `thread_local` object. Static objects of the program end after
// that one does on the main thread, and guards among them restore streams and devices: what is current is kept here
// from then on. libtorch's own calls check for errors with a static object, which ends before objects that are older.
enum class ThreadPhase : char { unseen, watched, over };
constinit thread_local ThreadPhase phase = ThreadPhase::unseen;
constinit thread_local int device_after_the_end = 0;

std::vector<StreamHandle>& streams_after_the_end() {
  return support::ThreadObject<std::vector<StreamHandle>>::get();
}

struct EndOfThread {
  EndOfThread() { phase = ThreadPhase::watched; }
  ~EndOfThread() {
    device_after_the_end = current_cuda_device();
    try {
      for (c10::DeviceIndex device = 0; device < c10::cuda::device_count(); ++device)
        streams_after_the_end().push_back(handle_of(c10::cuda::getCurrentCUDAStream(device)));
    } catch (const std::exception&) {  // the default streams are current
    }
    phase = ThreadPhase::over;
  }
  EndOfThread(const EndOfThread&) = delete;
  EndOfThread& operator=(const EndOfThread&) = delete;
};

// True when libtorch does not keep the streams of this thread any more.
[[gnu::cold]] bool watch_thread(c10::DeviceIndex device) {
  if (phase == ThreadPhase::over) return true;
  static_cast<void>(c10::cuda::getCurrentCUDAStream(device));  // libtorch's object is made before, so it ends after
  thread_local const EndOfThread end;
  static_cast<void>(end);
  return false;
}

bool is_over(c10::DeviceIndex device) {
  return phase != ThreadPhase::watched && watch_thread(device);
}

StreamHandle& stream_after_the_end(int device) {
  std::vector<StreamHandle>& all = streams_after_the_end();
  const auto place = static_cast<std::size_t>(device);
  if (place >= all.size()) all.resize(place + 1);
  return all[place];
}

}  // namespace

[[gnu::hot]] StreamHandle current_cuda_stream(int device) noexcept {
  const auto index = static_cast<c10::DeviceIndex>(device);
  if (is_over(index)) [[unlikely]]
    return stream_after_the_end(device);
  return handle_of(c10::cuda::getCurrentCUDAStream(index));
}

void set_current_cuda_stream(int device, StreamHandle stream) noexcept {
  const auto index = static_cast<c10::DeviceIndex>(device);
  if (is_over(index)) [[unlikely]] {
    stream_after_the_end(device) = stream;
    return;
  }
  c10::cuda::setCurrentCUDAStream(stream_with(index, stream));
}

int current_cuda_device() noexcept {
  if (phase == ThreadPhase::over) [[unlikely]]
    return device_after_the_end;
  c10::DeviceIndex device = 0;
  return c10::cuda::GetDevice(&device) == cudaSuccess ? device : 0;
}

void set_current_cuda_device(int device) noexcept {
  const auto index = static_cast<c10::DeviceIndex>(device);
  try {
    if (is_over(index))
      device_after_the_end = device;
    else
      static_cast<void>(c10::cuda::SetDevice(index));
  } catch (const c10::Error& error) {
    warn(error.what_without_backtrace());
  }
}

bool is_pooled_cuda_stream(StreamHandle stream) noexcept {
  Names& all = names();
  const std::shared_lock lock(all.mutex);
  return all.ids.contains(stream);
}

StreamRef cuda_stream_of(const c10::Stream& stream) {
  return StreamRef(cuda_device_of(stream.device()), handle_of(CUDAStream(stream)));
}

c10::Stream cuda_c10_stream(const StreamRef& stream) {
  return stream_with(static_cast<c10::DeviceIndex>(stream.device().index()), stream.native());
}

}  // namespace reprise::libtorch
