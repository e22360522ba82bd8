// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/types.h"
#include "captures/capture.h"
#include "memory/lifetime/last_launch.h"
#include "reprise/device.h"

namespace reprise::memory {

/// Memory of a graph's allocation nodes that none of its nodes frees: each launch leaves it allocated.
///
///     made by the first allocated() of a capture -> [freed() there: forgotten] -> end(): held by the graph's resources
///     -> graph_ends() -> destroyed with the resources, when nothing can launch the graph and its last launch is over
///
/// With `auto_free_on_launch` the graph owns the memory: the next launch frees it, and so does the end of this object.
/// Without, and once the program has freed it by an address that it holds, outside of the capture, it is the program's:
/// what is allocated then stays, and is listed until it is freed.
///
/// Only allocate_async() is known: other code frees what it allocates. Thread-safe.
class NodeMemory {
 public:
  explicit NodeMemory(const captures::Capture& capture);
  ~NodeMemory();
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  /// A node of the capture allocates this.
  static void allocated(captures::Capture& capture, const Device& device, void* address, std::size_t bytes);
  /// A node of the capture frees it; null: the program has freed it, outside of captures. The driver took the address.
  static void freed(const captures::Capture* capture, const void* address) noexcept;
  /// The end of the capture: null if its nodes leave nothing, or when called again.
  static std::shared_ptr<NodeMemory> end(captures::Capture& capture) noexcept;

  /// The graph is about to destroy template and executable. \param owned it was instantiated with auto_free_on_launch.
  /// \param last its last launch, behind which the memory is freed; that of other code is over when this object ends.
  void graph_ends(bool owned, const LastLaunch& last) noexcept;

  std::uint64_t bytes() const noexcept;

  /// Sizes in bytes, on one device.
  struct Sizes {
    std::uint64_t of_graphs = 0;  ///< that replays leave allocated
    std::uint64_t of_ended = 0;   ///< that graphs left which have ended, and that is not freed
  };
  static Sizes on(const Device& device);
  /// In words, for errors, as a line after others; empty if there is none.
  static std::string text(const Device& device);
  /// The name of the graph whose end freed this address, as in "the graph `encoder`"; empty if none did.
  static std::string freed_with(const void* address);

  /// Releases what the driver keeps of freed memory for later graphs. For callers that need memory, without a lock.
  static void trim(const Device& device) noexcept;

 private:
  struct Block {
    Device device;
    void* address;
    std::size_t bytes;
    bool of_the_program = false;           // the program has freed it before
    bool left = false;                     // it may have been allocated when the graph ended
    std::optional<std::uint64_t> id = {};  // the driver's number of that allocation; none: it is not known
  };
  struct OfDevice;

  static std::optional<backend::PointerInfo> query(const Block& block) noexcept;
  static bool is_allocation(const backend::PointerInfo& info, const Block& block) noexcept;
  bool free(const Block& block) noexcept;
  void release(const Block& block);

  const Device device_;     // of the capture
  const std::string name_;  // of the graph, as in errors
  bool owned_ = false;
  LastLaunch last_;
  std::vector<Block> blocks_;  // guarded by the table of devices
};

}  // namespace reprise::memory
