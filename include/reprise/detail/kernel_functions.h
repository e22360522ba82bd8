// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "reprise/handles.h"

/// \file
/// Data in a kernel's record for each CUDA device. For internal use.

namespace reprise {

/// The functions of one kernel, by the index of the CUDA device: every launch needs one. A copy is empty. Thread-safe,
/// without locks. For internal use.
class KernelFunctions {
 public:
  static constexpr std::size_t most_devices = 16;  ///< of devices from this index on nothing is kept

  KernelFunctions() noexcept = default;                          ///< empty
  KernelFunctions(const KernelFunctions& /*other*/) noexcept {}  ///< empty: a copied record gets another finder
  KernelFunctions& operator=(const KernelFunctions&) = delete;

  /// Null if none was added.
  FunctionHandle find(int device) const noexcept {
    const auto index = static_cast<std::size_t>(device);
    return index < most_devices ? functions_[index].load(std::memory_order_acquire) : nullptr;
  }
  /// Keeps the function, if the index is below `most_devices`.
  void add(int device, FunctionHandle function) noexcept {
    const auto index = static_cast<std::size_t>(device);
    if (index < most_devices) functions_[index].store(function, std::memory_order_release);
  }

 private:
  std::array<std::atomic<FunctionHandle>, most_devices> functions_{};
};

}  // namespace reprise
