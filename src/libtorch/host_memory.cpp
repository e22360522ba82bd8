// SPDX-License-Identifier: Apache-2.0
#include "libtorch/host_memory.h"

#include <cstring>

#include "backend/backend.h"
#include "backend/check.h"
#include "libtorch/host_streams.h"
#include "reprise/memory.h"

namespace reprise::libtorch {
namespace {

const c10::Device current_one{c10::DeviceType::PrivateUse1, -1};

void free_device_memory(void* block) {
  if (block == nullptr) return;
  backend::PointerInfo info;
  backend::Backend& runtime = *backend::host_backends().front();
  const backend::RelaxedCaptureMode relaxed(runtime);
  if (!backend::report(runtime, backend::Call::pointer_info, runtime.pointer_info(block, &info))) return;
  const auto index = static_cast<std::size_t>(info.device_index);
  detail::deallocate_buffer(CachingAllocator::of(Device(*backend::host_backends().at(index))), block);
}

class DeviceMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const Device device = host_device_of(current_one);
    void* const block = CachingAllocator::of(device).allocate(bytes, current_stream(device));
    return {block, block, &free_device_memory, c10_device(device)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_device_memory; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    copy_async(to, from, bytes, current_stream_of(current_one));
  }
};

void free_pinned_memory(void* block) {
  if (block == nullptr) return;
  backend::Backend& runtime = *backend::host_backends().front();
  const backend::RelaxedCaptureMode relaxed(runtime);
  backend::report(runtime, backend::Call::pinned_free, runtime.pinned_free(block));
}

class PinnedMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* block = nullptr;
    if (bytes > 0) {
      backend::Backend& runtime = *backend::host_backends().front();
      const backend::RelaxedCaptureMode relaxed(runtime);
      backend::check(runtime, backend::Call::pinned_allocate, runtime.pinned_allocate(&block, bytes));
    }
    return {block, block, &free_pinned_memory, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_pinned_memory; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
};

}  // namespace

c10::Allocator* device_allocator() {
  static DeviceMemory allocator;
  return &allocator;
}

c10::Allocator* pinned_allocator() {
  static PinnedMemory allocator;
  return &allocator;
}

}  // namespace reprise::libtorch
