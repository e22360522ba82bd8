// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/TensorBase.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <optional>
#include <utility>

// Up to libtorch 2.11 the state of a generator serves the draws of one capture at a time.

namespace reprise::libtorch::version {

/// The generator counts draws of a capture by its id: takes_part() must be called.
constexpr bool draws_by_capture_id = false;

/// Draws of a CUDA generator in one capture. To be used under the generator's mutex, but for constructor and
/// destructor, which may allocate and free.
///
/// The state of a generator is accessed as a graph of libtorch's, to which the generator passes it. The generator
/// counts such graphs, and makes new tensors for the first one: while this one is registered, no other is the first.
class GeneratorDraws final : private at::cuda::CUDAGraph {
 public:
  using State = at::CUDAGeneratorState;

  explicit GeneratorDraws(const c10::intrusive_ptr<c10::GeneratorImpl>& generator) {
    try {
      register_generator_state(at::Generator(generator));
    } catch (...) {
      // The state refused this one, as while the current stream is being captured: the destructor of a graph
      // unregisters all that it has, which throws for a state that does not know the graph.
      captured_generator_states_.clear();
      throw;
    }
  }

  c10::intrusive_ptr<State> state() const { return captured_generator_states_.begin()->first; }

  /// Draws read seed and offset from these tensors from now on. False if they serve another capture.
  bool attach(at::TensorBase seed, at::TensorBase offset) {
    State& here = *state();
    if (here.capturing_) return false;
    words_ = seed.const_data_ptr();
    before_ =
        Before{std::exchange(here.seed_extragraph_, std::move(seed)),
               std::exchange(here.offset_extragraph_, std::move(offset)), std::exchange(here.offset_intragraph_, 0)};
    here.capturing_ = true;
    return true;
  }

  /// The capture has begun, or that of a body in it.
  void takes_part(std::uint64_t /*capture_id*/) {}

  /// Draws for a child graph. Returns the offset before that, in the graph. If the state was used otherwise meanwhile,
  /// drawn() says so.
  std::uint64_t draw(std::uint64_t increment) {
    return drawn() ? std::exchange(state()->offset_intragraph_, state()->offset_intragraph_ + increment) : 0;
  }

  /// By how much the draws advanced the offset; nullopt if the state was used otherwise meanwhile.
  std::optional<std::uint64_t> drawn() const {
    const State& here = *state();
    if (!before_ || !here.capturing_ || !here.seed_extragraph_.defined() ||
        here.seed_extragraph_.const_data_ptr() != words_)
      return std::nullopt;
    return here.offset_intragraph_;
  }

  /// Undoes attach().
  void detach() noexcept {
    if (!before_) return;
    State& here = *state();
    here.capturing_ = false;
    here.offset_intragraph_ = before_->offset_in_graph;
    here.seed_extragraph_ = std::move(before_->seed);
    here.offset_extragraph_ = std::move(before_->offset);
    before_.reset();
  }

  /// The address from which draws of the capture that has the state read the seed; 0 if none has.
  std::uintptr_t words_in_use() const {
    const State& here = *state();
    if (!here.capturing_ || !here.seed_extragraph_.defined()) return 0;
    return reinterpret_cast<std::uintptr_t>(here.seed_extragraph_.const_data_ptr());
  }

 private:
  struct Before {
    at::TensorBase seed, offset;
    std::uint64_t offset_in_graph;
  };

  const void* words_ = nullptr;
  std::optional<Before> before_;
};

}  // namespace reprise::libtorch::version
