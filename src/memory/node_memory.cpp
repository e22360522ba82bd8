// SPDX-License-Identifier: Apache-2.0
#include "memory/node_memory.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <utility>

#include "backend/backend.h"
#include "backend/check.h"
#include "backend/per_device.h"
#include "memory/device_words.h"
#include "text/format.h"
#include "text/size.h"

namespace reprise::memory {

using backend::Backend;
using backend::Call;
using backend::RelaxedCaptureMode;

/// What is known for a device.
struct NodeMemory::OfDevice {
  std::vector<NodeMemory*> graphs;                         // that were captured there
  std::vector<Block> ended;                                // left by graphs that have ended
  std::vector<std::pair<const void*, std::string>> freed;  // by the end of a graph, with its text; the last ones
  bool any = false;                                        // there was a graph
};

namespace {

constinit captures::Slot<NodeMemory> node_memory_of;

// Blocks that are known, and addresses in OfDevice::freed, so that free_async() costs one load where there are none.
constinit std::atomic<std::size_t> known{0};

constexpr std::size_t most_freed = 1000;

}  // namespace

NodeMemory::NodeMemory(const captures::Capture& capture)
    : device_(capture.device()),
      name_(capture.name().empty() ? "a graph" : text::format("the graph `{}`", capture.name())) {
  backend::PerDevice<OfDevice>::use(device_, [&](OfDevice& all) {
    all.graphs.push_back(this);
    all.any = true;
  });
}

NodeMemory::~NodeMemory() {
  std::vector<Block> blocks;
  backend::PerDevice<OfDevice>::use(device_, [&](OfDevice& all) {
    std::erase(all.graphs, this);
    blocks.swap(blocks_);
  });
  known -= blocks.size();
  for (const Block& block : blocks) {
    try {
      if (block.left) release(block);
    } catch (const std::exception& error) {
      warn(error.what());
    }
  }
}

// Frees it, or lists it as left.
void NodeMemory::release(const Block& block) {
  const std::optional<backend::PointerInfo> now = query(block);
  if (now && !is_allocation(*now, block)) return;
  const bool freed = owned_ && !block.of_the_program && now && block.id && free(block);
  backend::PerDevice<OfDevice>::use(block.device, [&](OfDevice& all) {
    if (!freed) {
      all.ended.push_back(block);
      ++known;
      return;
    }
    if (all.freed.size() == most_freed)
      all.freed.erase(all.freed.begin());
    else
      ++known;
    all.freed.emplace_back(block.address, name_);
  });
}

void NodeMemory::allocated(captures::Capture& capture, const Device& device, void* address, std::size_t bytes) {
  const std::shared_ptr<NodeMemory> memory = capture.get_or_attach(node_memory_of, capture);
  if (memory == nullptr) return;
  backend::PerDevice<OfDevice>::use(memory->device_, [&](OfDevice& all) {
    std::erase_if(all.freed, [&](const auto& each) { return each.first == address; });  // it is allocated again
    memory->blocks_.push_back({device, address, bytes});
  });
  ++known;
}

void NodeMemory::freed(const captures::Capture* capture, const void* address) noexcept {
  if (known.load(std::memory_order_relaxed) == 0) return;
  const auto is_it = [&](const Block& block) { return block.address == address; };
  const std::shared_ptr<NodeMemory> own = capture != nullptr ? capture->get(node_memory_of) : nullptr;
  backend::PerDevice<OfDevice>::use_all([&](auto& devices) {
    for (auto& [backend, all] : devices) {
      if (capture == nullptr) known -= std::erase_if(all.ended, is_it);
      known -= std::erase_if(all.freed, [&](const auto& each) { return each.first == address; });  // it was given again
      for (NodeMemory* const graph : all.graphs) {
        if (graph == own.get())
          known -= std::erase_if(graph->blocks_, is_it);
        else
          for (Block& block : graph->blocks_) block.of_the_program |= is_it(block);
      }
    }
  });
}

std::shared_ptr<NodeMemory> NodeMemory::end(captures::Capture& capture) noexcept {
  std::shared_ptr<NodeMemory> memory = capture.detach(node_memory_of);
  return memory != nullptr && memory->bytes() != 0 ? memory : nullptr;
}

void NodeMemory::graph_ends(bool owned, const LastLaunch& last) noexcept {
  last_ = last;
  std::vector<Block> blocks;
  backend::PerDevice<OfDevice>::use(device_, [&](OfDevice&) {
    owned_ = owned;
    blocks = blocks_;
  });
  for (Block& block : blocks) {
    const std::optional<backend::PointerInfo> now = query(block);
    block.left = !now || is_allocation(*now, block);
    if (now) block.id = now->id;
  }
  backend::PerDevice<OfDevice>::use(device_, [&](OfDevice&) {
    for (Block& block : blocks_) {
      const auto queried = std::ranges::find(blocks, block.address, &Block::address);
      if (queried == blocks.end()) continue;
      block.left = queried->left;
      block.id = queried->id;
    }
  });
}

std::uint64_t NodeMemory::bytes() const noexcept {
  return backend::PerDevice<OfDevice>::use(device_, [&](OfDevice&) {
    std::uint64_t sum = 0;
    for (const Block& block : blocks_) sum += block.bytes;
    return sum;
  });
}

// None if the driver does not say.
std::optional<backend::PointerInfo> NodeMemory::query(const Block& block) noexcept {
  backend::PointerInfo info;
  return !block.device.backend().pointer_info(block.address, &info).failed() ? std::optional(info) : std::nullopt;
}

// By the driver's number of it: other code may have freed the memory, and got the address again.
bool NodeMemory::is_allocation(const backend::PointerInfo& info, const Block& block) noexcept {
  return info.kind == backend::MemoryKind::device && info.base == block.address && (!block.id || *block.id == info.id);
}

// False if it stays.
bool NodeMemory::free(const Block& block) noexcept {
  try {
    Backend& backend = block.device.backend();
    const RelaxedCaptureMode relaxed(backend);
    const StreamRef stream = stream_of_words(block.device);
    if (block.device == device_) last_.order_before(stream);
    const backend::Result result = backend.memory_free_async(block.address, stream.native());
    return result == ErrorCode::invalid_value || backend::warn_on_error(backend, Call::memory_free_async, result);
  } catch (const std::exception& error) {
    warn(error.what());
    return false;
  }
}

NodeMemory::Sizes NodeMemory::on(const Device& device) {
  if (known.load(std::memory_order_relaxed) == 0) return {};
  return backend::PerDevice<OfDevice>::use(device, [&](OfDevice& all) {
    Sizes sizes;
    for (const NodeMemory* const graph : all.graphs)
      for (const Block& block : graph->blocks_) sizes.of_graphs += block.bytes;
    known -= std::erase_if(all.ended, [](const Block& block) {
      const std::optional<backend::PointerInfo> now = query(block);
      return now && !is_allocation(*now, block);
    });
    for (const Block& block : all.ended) sizes.of_ended += block.bytes;
    return sizes;
  });
}

std::string NodeMemory::text(const Device& device) {
  const Sizes sizes = on(device);
  if (sizes.of_graphs + sizes.of_ended == 0) return "";
  return text::format(
      "\n  besides, allocation nodes (allocate_async): {} that replays leave allocated, and {} left by graphs that "
      "have "
      "ended",
      text::size_text(sizes.of_graphs), text::size_text(sizes.of_ended));
}

std::string NodeMemory::freed_with(const void* address) {
  return backend::PerDevice<OfDevice>::use_all([&](auto& devices) {
    for (auto& [backend, all] : devices) {
      const auto found =
          std::ranges::find(all.freed.rbegin(), all.freed.rend(), address, &std::pair<const void*, std::string>::first);
      if (found != all.freed.rend()) return found->second;
    }
    return std::string();
  });
}

void NodeMemory::trim(const Device& device) noexcept {
  if (!backend::PerDevice<OfDevice>::use(device, [](const OfDevice& all) { return all.any; })) return;
  const RelaxedCaptureMode relaxed(device.backend());
  backend::WarnOnError(device.backend()).memory_pool_trim(0);
}

}  // namespace reprise::memory
