// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>

#include "random/draw_source.h"
#include "reprise/random.h"

namespace reprise::random {

/// `increment` rounded up to what an offset may be.
constexpr std::uint64_t whole_offsets(std::uint64_t increment) {
  return (increment + 3) / 4 * 4;
}

/// The state that the handles of a generator share. Thread-safe; nothing else is locked or called under its mutex.
class GeneratorImpl final : public DrawSource {
 public:
  GeneratorImpl(Device device, const GeneratorState& state) : device_(device), state_(state) {}

  Device device() const noexcept override { return device_; }
  GeneratorState state() const;
  /// \throws UsageError in a capture of the calling thread's current stream, while a capture draws, or if the offset is
  ///         none.
  void set_state(const char* call, const GeneratorState& state);
  /// Sets the seed, offset 0.
  /// \throws UsageError while a capture draws.
  void set_seed(const char* call, std::uint64_t seed) { set_state(call, {seed, 0}); }

  GeneratorState spend(std::uint64_t increment) override;
  void undo_spend(const GeneratorState& before, std::uint64_t increment) noexcept override;

  /// \throws UsageError if it cannot be set now.
  void require_settable(const char* call) const;

  void begin_capture() noexcept override;
  void end_capture() noexcept override;

 private:
  void require_no_draws(const char* call) const;

  const Device device_;
  mutable std::mutex mutex_;
  GeneratorState state_;
  int captures_ = 0;  // underway, that drew
};

}  // namespace reprise::random
