// SPDX-License-Identifier: Apache-2.0
#include "reprise/random.h"

#include <random>
#include <utility>

#include "backend/notifications.h"
#include "backend/per_device.h"
#include "captures/registry.h"
#include "random/capture_draws.h"
#include "random/generator_impl.h"
#include "text/format.h"

namespace reprise {

using random::GeneratorImpl;

namespace random {

GeneratorState GeneratorImpl::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

namespace {

[[noreturn]] void refuse(const char* call, const char* why) {
  throw UsageError(
      text::format("{}: {}. A graph does not record a seed or an offset: each replay goes on where the generator is "
                   "then. Set them before the capture or between replays.",
                   call, why));
}

void refuse_in_capture(const char* call, const StreamRef& current) {
  if (current.capture_status() != CaptureStatus::none)
    refuse(call, "the calling thread's current stream is being captured");
}

}  // namespace

// Under the mutex.
void GeneratorImpl::require_no_draws(const char* call) const {
  if (captures_ > 0) refuse(call, "a capture that draws random numbers from this generator is underway");
}

void GeneratorImpl::require_settable(const char* call) const {
  refuse_in_capture(call, current_stream(device_));
  const std::lock_guard lock(mutex_);
  require_no_draws(call);
}

void GeneratorImpl::set_state(const char* call, const GeneratorState& state) {
  if (state.offset % 4 != 0)
    throw UsageError(text::format(
        "{}: expected a multiple of 4 as the offset, because Philox makes four numbers at a time; found {}", call,
        state.offset));
  require_settable(call);
  const std::lock_guard lock(mutex_);
  require_no_draws(call);
  state_ = state;
}

[[gnu::hot]] GeneratorState GeneratorImpl::spend(std::uint64_t increment) {
  const std::lock_guard lock(mutex_);
  const GeneratorState before = state_;
  state_.offset += increment;
  return before;
}

void GeneratorImpl::undo_spend(const GeneratorState& before, std::uint64_t increment) noexcept {
  const std::lock_guard lock(mutex_);
  if (state_ == GeneratorState{before.seed, before.offset + increment}) state_ = before;
}

void GeneratorImpl::begin_capture() noexcept {
  const std::lock_guard lock(mutex_);
  ++captures_;
}

void GeneratorImpl::end_capture() noexcept {
  const std::lock_guard lock(mutex_);
  --captures_;
}

namespace {

// The default ones. The seed of those to come is guarded by their mutex.
using Defaults = backend::PerDevice<std::shared_ptr<GeneratorImpl>>;
std::uint64_t seed_of_defaults = Generator::default_seed;

constinit support::Callback<const Device&> forget_default([](const Device& device) noexcept {
  Defaults::erase(device);
});
[[maybe_unused]] const bool forgets_defaults = (backend::simulator_end_callbacks.add(forget_default), true);

}  // namespace
}  // namespace random

Generator::Generator(Device device, std::uint64_t seed)
    : impl_(std::make_shared<random::GeneratorImpl>(device, GeneratorState{seed, 0})) {}

Device Generator::device() const noexcept {
  return impl_->device();
}

void Generator::set_current_seed(std::uint64_t seed) {
  impl_->set_seed("Generator::set_current_seed", seed);
}

std::uint64_t Generator::current_seed() const {
  return impl_->state().seed;
}

std::uint64_t Generator::seed() {
  std::random_device source;
  const std::uint64_t seed = (std::uint64_t{source()} << 32U) | source();
  impl_->set_seed("Generator::seed", seed);
  return seed;
}

void Generator::set_offset(std::uint64_t offset) {
  impl_->set_state("Generator::set_offset", {current_seed(), offset});
}

std::uint64_t Generator::offset() const {
  return impl_->state().offset;
}

GeneratorState Generator::get_state() const {
  return impl_->state();
}

void Generator::set_state(const GeneratorState& state) {
  impl_->set_state("Generator::set_state", state);
}

Generator Generator::clone() const {
  return Generator(std::make_shared<random::GeneratorImpl>(impl_->device(), impl_->state()));
}

PhiloxState Generator::philox_state(std::uint64_t increment) const {
  return philox_state(increment, current_stream(impl_->device()));
}

PhiloxState Generator::philox_state(std::uint64_t increment, const StreamRef& stream) const {
  if (stream.device() != impl_->device())
    throw UsageError(
        text::format("Generator::philox_state: the stream is of {}, and the generator of {}; use one of the "
                     "stream's device, such as default_generator(stream.device()).",
                     stream.device().str(), impl_->device().str()));
  if (increment > UINT64_MAX - 3)
    throw UsageError(text::format(
        "Generator::philox_state: expected the most numbers that one thread of the launch draws; found {}, "
        "more than an offset can count.",
        increment));
  increment = random::whole_offsets(increment);
  const captures::Found found = captures::find(stream);
  if (found.part != captures::Part::none) return random::draw_in_capture(impl_, increment, stream, found);
  const GeneratorState before = impl_->spend(increment);
  return {before.seed, before.offset, nullptr};
}

Generator default_generator(Device device) {
  return random::Defaults::use(device, [&](std::shared_ptr<GeneratorImpl>& generator) {
    const GeneratorState state{random::seed_of_defaults, 0};
    if (generator == nullptr) generator = std::make_shared<GeneratorImpl>(device, state);
    return Generator(generator);
  });
}

void manual_seed(std::uint64_t seed) {
  random::Defaults::use_all([&](const auto& generators) {
    random::refuse_in_capture("manual_seed", current_stream());
    for (const auto& entry : generators) entry.second->require_settable("manual_seed");
    random::seed_of_defaults = seed;
    for (const auto& entry : generators) entry.second->set_seed("manual_seed", seed);
  });
}

}  // namespace reprise
