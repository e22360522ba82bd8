// SPDX-License-Identifier: Apache-2.0
#include "memory/device_words.h"

#include "backend/check.h"
#include "backend/per_device.h"
#include "memory/allocator_impl.h"

namespace reprise::memory {
namespace {

struct StreamOfWords {
  StreamHandle handle = nullptr;
};

}  // namespace

StreamRef stream_of_words(const Device& device) {
  return backend::PerDevice<StreamOfWords>::use(device, [&](StreamOfWords& stream) {
    if (stream.handle == nullptr)
      backend::Checked(device.backend()).stream_create(&stream.handle, backend::StreamFlags::non_blocking, 0);
    return StreamRef(device, stream.handle);
  });
}

DeviceWords allocate_words(std::size_t bytes, const StreamRef& stream) {
  CachingAllocator& allocator = CachingAllocator::of(stream.device());
  void* const words = allocator.impl().allocate_words(bytes, stream);
  return DeviceWords(static_cast<std::uint64_t*>(words), DeviceWordsDeleter{&allocator});
}

DeviceWords allocate_hidden_words(std::size_t bytes, const Device& device) {
  DeviceWords words = allocate_words(bytes, stream_of_words(device));
  CachingAllocator::of(device).impl().hide_from_graphs(words.get());
  return words;
}

}  // namespace reprise::memory
