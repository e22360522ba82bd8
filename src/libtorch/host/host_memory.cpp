// SPDX-License-Identifier: Apache-2.0
#include "libtorch/host/host_memory.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/check.h"
#include "libtorch/host/host_streams.h"
#include "reprise/event.h"
#include "reprise/memory.h"
#include "support/immortal.h"

namespace reprise::libtorch {
namespace {

const c10::Device current_one{c10::DeviceType::PrivateUse1, -1};

void free_device_memory(void* block) {
  if (block == nullptr) return;
  backend::PointerInfo info;
  backend::Backend& runtime = *backend::host_backends().front();
  const backend::RelaxedCaptureMode relaxed(runtime);
  // Refused when the device is unusable, which was reported before: its memory is not reused.
  if (runtime.pointer_info(block, &info) != ErrorCode::success) return;
  const auto index = static_cast<std::size_t>(info.device_index);
  reprise::detail::deallocate_buffer(CachingAllocator::of(Device(*backend::host_backends().at(index))), block);
}

class DeviceMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const Device device = host_device_of(current_one);
    try {
      void* const block = CachingAllocator::of(device).allocate(bytes, current_stream(device));
      return {block, block, &free_device_memory, host_c10_device(device)};
    } catch (const OutOfMemoryError& error) {
      TORCH_CHECK_WITH(OutOfMemoryError, false, error.what());
    }
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_device_memory; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    copy_async(to, from, bytes, current_stream_of(current_one));
  }
};

// Pinned memory in blocks of powers of two. Freeing it would wait for the device.
class PinnedBlocks {
 public:
  void* allocate(std::size_t bytes) {
    const std::size_t size = std::bit_ceil(std::max<std::size_t>(bytes, 512));
    const std::lock_guard lock(mutex_);
    for (auto& [begin, block] : blocks_)
      if (block.size == size && block.is_free && std::ranges::all_of(block.uses, &Event::query, &Use::event)) {
        block = Block{size};
        return reinterpret_cast<void*>(begin);
      }
    void* memory = nullptr;
    backend::Checked(*backend::host_backends().front()).pinned_allocate(&memory, size);
    blocks_.insert_or_assign(reinterpret_cast<std::uintptr_t>(memory), Block{size});
    return memory;
  }

  void deallocate(void* memory) {
    const std::lock_guard lock(mutex_);
    blocks_.at(reinterpret_cast<std::uintptr_t>(memory)).is_free = true;
  }

  void used(const void* address, const StreamRef& stream) {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    const std::lock_guard lock(mutex_);
    auto found = blocks_.upper_bound(at);
    if (found == blocks_.begin()) return;
    --found;
    if (at >= found->first + found->second.size) return;
    auto& uses = found->second.uses;
    auto use = std::ranges::find(uses, stream, &Use::stream);
    if (use == uses.end()) use = uses.insert(use, {stream, Event(stream.device(), EventOptions{.timing = false})});
    use->event.record(stream);
  }

 private:
  struct Use {
    StreamRef stream;
    Event event;
  };
  struct Block {
    std::size_t size;
    bool is_free = false;
    std::vector<Use> uses = {};  // a free one is given out again when they are done
  };

  std::mutex mutex_;
  std::map<std::uintptr_t, Block> blocks_;  // by address
};

PinnedBlocks& pinned_blocks() {
  static support::Immortal<PinnedBlocks> blocks;  // tensors may live until the process ends
  return *blocks;
}

void free_pinned_memory(void* block) {
  if (block != nullptr) pinned_blocks().deallocate(block);
}

class PinnedMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const backend::RelaxedCaptureMode relaxed(*backend::host_backends().front());
    void* const block = bytes > 0 ? pinned_blocks().allocate(bytes) : nullptr;
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

void pinned_memory_used(const void* address, const StreamRef& stream) {
  pinned_blocks().used(address, stream);
}

}  // namespace reprise::libtorch
