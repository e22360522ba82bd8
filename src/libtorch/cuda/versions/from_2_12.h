// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/TensorBase.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

// libtorch 2.12 and later.

namespace reprise::libtorch::version {

// --- Generators ---------------------------------------------------------------------------------------------------

using GeneratorStatePointer = c10::intrusive_ptr<at::CUDAGeneratorState>;

// A private member, which nothing public returns: an explicit instantiation may name it.
GeneratorStatePointer& state_of(at::CUDAGeneratorImpl& generator);
template <auto State>
struct PrivateState {
  friend GeneratorStatePointer& state_of(at::CUDAGeneratorImpl& generator) { return generator.*State; }
};
template struct PrivateState<&at::CUDAGeneratorImpl::state_>;

/// The generator counts draws of a capture by its id: takes_part() must be called.
constexpr bool draws_by_capture_id = true;

/// Draws of a CUDA generator in one capture. To be used under the generator's mutex, but for constructor and
/// destructor. Captures that are underway at once have a state each.
class GeneratorDraws final {
 public:
  using State = at::CUDAGeneratorState;

  explicit GeneratorDraws(const c10::intrusive_ptr<c10::GeneratorImpl>& generator)
      : state_(state_of(*at::check_generator<at::CUDAGeneratorImpl>(at::Generator(generator)))) {}
  ~GeneratorDraws() { detach(); }
  GeneratorDraws(const GeneratorDraws&) = delete;
  GeneratorDraws& operator=(const GeneratorDraws&) = delete;

  const GeneratorStatePointer& state() const { return state_; }

  /// Draws read seed and offset from these tensors, from takes_part() on.
  bool attach(at::TensorBase seed, at::TensorBase offset) {
    words_ = seed.const_data_ptr();
    in_capture_ = c10::make_intrusive<at::CUDAGeneratorCaptureState>();
    in_capture_->rng_state_seed_extragraph_ = std::move(seed);
    in_capture_->rng_state_offset_extragraph_ = std::move(offset);
    return true;
  }

  /// The capture has begun, or that of a body in it: these share what was drawn.
  void takes_part(std::uint64_t capture_id) {
    if (!in_capture_) return;
    ids_.push_back(capture_id);
    const std::lock_guard lock(state_->capture_states_mutex_);
    state_->capture_states_[capture_id] = in_capture_;
  }

  /// Draws for a child graph. Returns the offset before that, in the graph. If the state was used otherwise meanwhile,
  /// drawn() says so.
  std::uint64_t draw(std::uint64_t increment) {
    return drawn() ? std::exchange(in_capture_->offset_intragraph_, in_capture_->offset_intragraph_ + increment) : 0;
  }

  /// By how much the draws advanced the offset; nullopt if the state was used otherwise meanwhile.
  std::optional<std::uint64_t> drawn() const {
    if (!in_capture_ || !in_capture_->rng_state_seed_extragraph_.defined() ||
        in_capture_->rng_state_seed_extragraph_.const_data_ptr() != words_)
      return std::nullopt;
    return in_capture_->offset_intragraph_;
  }

  /// Undoes attach().
  void detach() noexcept {
    const std::lock_guard lock(state_->capture_states_mutex_);
    for (const std::uint64_t each : ids_) {
      const auto found = state_->capture_states_.find(each);
      if (found != state_->capture_states_.end() && found->second == in_capture_) state_->capture_states_.erase(found);
    }
    ids_.clear();
    in_capture_.reset();
  }

  /// Draws of other captures read other words.
  std::uintptr_t words_in_use() const { return 0; }

 private:
  const GeneratorStatePointer state_;
  const void* words_ = nullptr;
  c10::intrusive_ptr<at::CUDAGeneratorCaptureState> in_capture_;
  std::vector<std::uint64_t> ids_;  // of the capture and its bodies
};

}  // namespace reprise::libtorch::version
