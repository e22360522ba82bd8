// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "random/draw_source.h"

namespace at {
struct CUDAGeneratorState;
}

namespace reprise::libtorch {

namespace version {
class GeneratorDraws;
}

/// A CUDA generator of libtorch's, with the state that it has when this is made, as graphs of this library draw from
/// it.
///
/// In a capture libtorch's kernels read seed and offset through two tensors in the generator's state, and the state
/// adds up their draws: for one capture at a time, or by the capture's id (version::draws_by_capture_id). attach()
/// replaces these by tensors over a graph's own words; detach() restores them, so that graphs of at::cuda::CUDAGraph
/// work as before. Replays advance the state itself.
///
/// Thread-safe, as far as libtorch is: the state is used under the mutex of the generator.
class CudaGenerator final : public random::ExternalGenerator {
 public:
  /// \param generator of CUDA.
  /// \throws c10::Error if its state cannot be reached, as in a capture of the calling thread's current stream.
  explicit CudaGenerator(const at::Generator& generator);
  ~CudaGenerator() override;
  CudaGenerator(const CudaGenerator&) = delete;
  CudaGenerator& operator=(const CudaGenerator&) = delete;

  Device device() const noexcept override { return device_; }
  GeneratorState spend(std::uint64_t increment) override;
  void undo_spend(const GeneratorState& before, std::uint64_t increment) noexcept override;

  const void* identity() const noexcept override { return state_.get(); }
  bool attach(std::uint64_t* words) override;
  std::uint64_t draw(std::uint64_t increment) override;
  /// The capture for which words are attached has begun, or that of a body in it.
  void takes_part(std::uint64_t capture_id);
  std::optional<std::uint64_t> detach() override;
  void abandon() noexcept override;

  /// The address from which draws in a capture read the seed; 0 if none.
  std::uintptr_t words_in_use() const;

 private:
  const c10::intrusive_ptr<c10::GeneratorImpl> generator_;
  const Device device_;
  std::unique_ptr<version::GeneratorDraws> draws_;  // until the capture is over
  c10::intrusive_ptr<at::CUDAGeneratorState> state_;
};

}  // namespace reprise::libtorch
