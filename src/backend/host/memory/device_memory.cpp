// SPDX-License-Identifier: Apache-2.0
#include "backend/host/memory/device_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "backend/host/capture/host_graph.h"
#include "backend/host/memory/fault_handler.h"
#include "support/immortal.h"

namespace reprise::backend::host {
namespace {

// The range is larger than the memory, because blocks cannot move: fragmentation of addresses must not appear as a lack
// of memory.
constexpr std::size_t range_factor = 4;
constexpr std::size_t commit_step = std::size_t{64} << 20;
constexpr std::size_t commit_step_in_need = std::size_t{64} << 10;  // a multiple of every size of pages

constexpr std::size_t round_up(std::size_t value, std::size_t step) {
  return (value + step - 1) / step * step;
}

// All memories of the process; operations may be submitted until it ends. The mutex is a leaf.
struct Memories {
  std::mutex mutex;
  std::vector<const DeviceMemory*> all;
};

Memories& memories() {
  return support::Immortal<Memories>::get();
}

// True if the system lets operations access these pages; it may count their bytes against a limit (ulimit -d).
bool is_accessible_once(std::byte* begin, std::size_t bytes) noexcept {
  return mprotect(begin, bytes, PROT_READ | PROT_WRITE) == 0 && mprotect(begin, bytes, PROT_NONE) == 0;
}

#if defined(__SANITIZE_THREAD__)
// ThreadSanitizer would note an access for each eight bytes: most of the time that its tests take. It sees who uses
// the memory before and after.
[[gnu::no_sanitize("thread")]] void poison_bytes(std::uintptr_t begin, std::uintptr_t end) noexcept {
  for (; begin < end && begin % 8 != 0; ++begin)
    *reinterpret_cast<volatile unsigned char*>(begin) = DeviceMemory::poison_byte;
  constexpr std::uint64_t word = 0x0101010101010101U * DeviceMemory::poison_byte;
  for (; end - begin >= 8; begin += 8) *reinterpret_cast<volatile std::uint64_t*>(begin) = word;
  for (; begin < end; ++begin) *reinterpret_cast<volatile unsigned char*>(begin) = DeviceMemory::poison_byte;
}
#else
void poison_bytes(std::uintptr_t begin, std::uintptr_t end) noexcept {
  std::memset(reinterpret_cast<void*>(begin), DeviceMemory::poison_byte, end - begin);
}
#endif

// Fills the touched pages only: freeing a large unused block must not cost its size in real memory. Needs no memory.
void fill_touched(std::byte* begin, std::size_t bytes) noexcept {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t end = start + bytes;
  std::array<unsigned char, 1024> resident;
  for (std::uintptr_t first = start / page * page; first < end; first += resident.size() * page) {
    const std::size_t pages = std::min(resident.size(), (round_up(end, page) - first) / page);
    const bool known = mincore(reinterpret_cast<void*>(first), pages * page, resident.data()) == 0;
    for (std::size_t i = 0; i < pages; ++i) {
      if (known && (resident[i] & 1U) == 0) continue;
      const std::uintptr_t from = std::max(start, first + i * page);
      const std::uintptr_t to = std::min(end, first + (i + 1) * page);
      poison_bytes(from, to);
    }
  }
}

}  // namespace

DeviceMemory::DeviceMemory(std::string device, std::size_t total_bytes, bool protect)
    : device_(std::move(device)), total_bytes_(round_up(total_bytes, alignment)), protect_(protect) {
  for (std::size_t factor = range_factor; factor > 0 && base_ == nullptr; --factor) {
    range_bytes_ = round_up(total_bytes_ * factor, commit_step);
    void* range = mmap(nullptr, range_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range != MAP_FAILED) base_ = static_cast<std::byte*>(range);
  }
  if (base_ == nullptr)
    throw Error("the host device could not reserve " + std::to_string(total_bytes_) +
                " bytes of addresses for its memory: " + std::strerror(errno) +
                "; reduce it with REPRISE_HOST_MEMORY or HostDeviceOptions::memory_bytes, or raise the limit of the "
                "process (ulimit -v)");
  try {
    holes_.emplace(0, Range{range_bytes_});
    const std::lock_guard lock(memories().mutex);
    memories().all.push_back(this);
  } catch (...) {
    munmap(base_, range_bytes_);
    throw;
  }
  if (protect_) watch_faults(*this);
}

DeviceMemory::~DeviceMemory() {
  {
    const std::lock_guard lock(memories().mutex);
    std::erase(memories().all, this);
  }
  if (protect_) forget_faults(*this);
  munmap(base_, range_bytes_);
}

std::string DeviceMemory::owner_of(const void* pointer) {
  const std::lock_guard lock(memories().mutex);
  for (const DeviceMemory* const memory : memories().all)
    if (memory->contains(pointer)) return memory->device_;
  return {};
}

ErrorCode DeviceMemory::allocate(void** pointer, std::size_t bytes) {
  const ErrorCode result = take(pointer, bytes, true);
  if (result != ErrorCode::success || (protect_ && !enter())) return result;
  const auto begin = reinterpret_cast<std::uintptr_t>(*pointer);
  poison_bytes(begin, begin + std::min(bytes, poisoned_at_first));
  if (protect_) leave();
  return result;
}

ErrorCode DeviceMemory::take(void** pointer, std::size_t bytes, bool backed) {
  if (bytes == 0) return ErrorCode::invalid_value;
  const std::lock_guard lock(mutex_);
  if (bytes > total_bytes_) return ErrorCode::out_of_memory;
  const std::size_t rounded = round_up(bytes, alignment);
  if (backed && rounded > total_bytes_ - used_bytes_) return ErrorCode::out_of_memory;
  const auto hole = std::find_if(holes_.begin(), holes_.end(),
                                 [&](const auto& candidate) { return candidate.second.bytes >= rounded; });
  if (hole == holes_.end()) return ErrorCode::out_of_memory;
  const std::size_t offset = hole->first;
  if (!commit(offset + rounded)) return ErrorCode::out_of_memory;
  blocks_.emplace(offset, Range{rounded, bytes, next_id(), backed});  // the last step that can fail
  Ranges::node_type rest = holes_.extract(hole);
  if (rest.mapped().bytes > rounded) {
    rest.key() += rounded;
    rest.mapped().bytes -= rounded;
    holes_.insert(std::move(rest));
  }
  if (backed) used_bytes_ += rounded;
  *pointer = base_ + offset;
  return ErrorCode::success;
}

ErrorCode DeviceMemory::back(void* pointer) {
  const std::lock_guard lock(mutex_);
  Range& range = blocks_.at(static_cast<std::size_t>(static_cast<std::byte*>(pointer) - base_));
  if (range.backed) return ErrorCode::success;
  if (range.bytes > total_bytes_ - used_bytes_) return ErrorCode::out_of_memory;
  range.backed = true;
  used_bytes_ += range.bytes;
  return ErrorCode::success;
}

void DeviceMemory::poison(void* pointer) noexcept {
  const auto offset = static_cast<std::size_t>(static_cast<std::byte*>(pointer) - base_);
  std::size_t bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    if (const auto block = blocks_.find(offset); block != blocks_.end()) bytes = block->second.bytes;
  }
  fill(offset, bytes);
}

// Leaves memory as it is that cannot be made accessible.
void DeviceMemory::fill(std::size_t offset, std::size_t bytes) noexcept {
  if (protect_ && !enter()) return;
  fill_touched(base_ + offset, bytes);
  if (protect_) leave();
}

ErrorCode DeviceMemory::free(void* pointer) {
  if (!contains(pointer)) return ErrorCode::invalid_value;
  const auto offset = static_cast<std::size_t>(static_cast<std::byte*>(pointer) - base_);
  Ranges::node_type freed;
  {
    const std::lock_guard lock(mutex_);
    freed = blocks_.extract(offset);
  }
  if (freed.empty()) return ErrorCode::invalid_value;
  Range& range = freed.mapped();
  fill(offset, range.bytes);  // in neither map now, so it cannot be allocated meanwhile
  const std::lock_guard lock(mutex_);
  if (range.backed) used_bytes_ -= range.bytes;
  auto next = holes_.lower_bound(offset);
  if (next != holes_.end() && next->first == offset + range.bytes) {
    range.bytes += next->second.bytes;
    next = holes_.erase(next);
  }
  if (next != holes_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second.bytes == offset) {
      before->second.bytes += range.bytes;
      return ErrorCode::success;
    }
  }
  holes_.insert(std::move(freed));
  return ErrorCode::success;
}

bool DeviceMemory::starts_block(const void* pointer) const {
  if (!contains(pointer)) return false;
  const std::lock_guard lock(mutex_);
  return blocks_.contains(static_cast<std::size_t>(static_cast<const std::byte*>(pointer) - base_));
}

bool DeviceMemory::contains(const void* pointer) const noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const auto base = reinterpret_cast<std::uintptr_t>(base_);
  return address >= base && address - base < range_bytes_;
}

std::optional<DeviceMemory::Block> DeviceMemory::find(const void* pointer) const {
  if (!contains(pointer)) return std::nullopt;
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(pointer) - base_);
  const std::lock_guard lock(mutex_);
  auto block = blocks_.upper_bound(offset);
  if (block == blocks_.begin()) return std::nullopt;
  --block;
  if (offset - block->first >= block->second.requested) return std::nullopt;
  return Block{base_ + block->first, block->second.requested, block->second.id};
}

std::size_t DeviceMemory::free_bytes() const {
  const std::lock_guard lock(mutex_);
  return total_bytes_ - used_bytes_;
}

bool DeviceMemory::commit(std::size_t end) {
  if (end <= committed_) return true;
  // The system may refuse the usual step, and not what is needed.
  for (const std::size_t step : {commit_step, commit_step_in_need}) {
    const std::size_t target = std::min(round_up(end, step), range_bytes_);
    const bool usable = protect_ && accessors_ == 0
                            ? is_accessible_once(base_ + committed_, target - committed_)
                            : mprotect(base_ + committed_, target - committed_, PROT_READ | PROT_WRITE) == 0;
    if (!usable) continue;
    committed_ = target;
    return true;
  }
  return false;
}

bool DeviceMemory::enter() noexcept {
  const std::lock_guard lock(mutex_);
  if (accessors_ == 0 && committed_ > 0 && mprotect(base_, committed_, PROT_READ | PROT_WRITE) != 0) return false;
  ++accessors_;
  return true;
}

void DeviceMemory::leave() noexcept {
  const std::lock_guard lock(mutex_);
  if (--accessors_ == 0 && committed_ > 0 && mprotect(base_, committed_, PROT_NONE) != 0 &&
      !std::exchange(protection_lost_, true))
    warn(
        "REPRISE_HOST_PROTECT: the system refused to protect the memory of a host device (mprotect() failed): accesses "
        "of the host to that memory are not found");
}

}  // namespace reprise::backend::host
