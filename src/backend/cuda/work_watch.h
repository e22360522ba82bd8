// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "backend/cuda/driver_api.h"
#include "backend/monitor.h"
#include "backend/rules/cuda_calls.h"

namespace reprise::backend::cuda {

/// Watches what a stream captures behind one node, for the first call that adds to it: see Monitor::watch_work.
class CudaWorkWatch final : public WorkWatch {
 public:
  /// \param driver outlives this object.
  CudaWorkWatch(const DriverApi& driver, CUstream stream, CUgraphNode last);
  ~CudaWorkWatch() override;
  CudaWorkWatch(const CudaWorkWatch&) = delete;
  CudaWorkWatch& operator=(const CudaWorkWatch&) = delete;

  std::optional<CaptureFindings::ObservedCall> first() const override;

  /// True while there is a watch, in any thread.
  static bool any() noexcept { return count_.load(std::memory_order_relaxed) > 0; }
  /// Notes a call that may have submitted work to the stream, after its success on the calling thread, in every watch
  /// that it concerns. Without memory, nothing is noted.
  static void note(const char* name, CUstream stream) noexcept;
  /// The same for a call of this library.
  static void note_own(Call call, CUstream stream) noexcept {
    if (gives_work(call)) note(cuda_name(call), stream);
  }

 private:
  enum class Work : std::uint8_t { none, of_this_call, of_another_call };

  struct Captured {
    CUgraph graph = nullptr;
    std::span<const CUgraphNode> last;  // valid until the next call on the stream
  };

  std::optional<Captured> captured() const;
  Work new_work(bool waits) const;
  bool is_first_behind_last(CUgraph graph, CUgraphNode node) const;

  static inline constinit std::atomic<int> count_ = 0;

  const DriverApi& driver_;
  const CUstream stream_;
  const CUgraphNode last_;
  std::size_t nodes_before_ = 0;                       // of the graph, when the watch began
  const std::uint64_t thread_;                         // that made it: the per-thread stream is another one on others
  bool over_ = false;                                  // the first call has been made, seen or not
  std::optional<CaptureFindings::ObservedCall> call_;  // as over_, guarded by the mutex of all watches
};

}  // namespace reprise::backend::cuda
