// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "reprise/accesses.h"
#include "reprise/detail/export.h"
#include "reprise/device.h"
#include "reprise/device_code.h"
#include "reprise/stream.h"

/// \file
/// Random numbers in graphs: each replay draws new numbers, the ones that eager work would have drawn.

namespace reprise {

namespace random {
class GeneratorImpl;
}

/// The start of a kernel's random numbers: a kernel argument, made by Generator::philox_state() for one launch.
///
/// Eagerly it holds seed and offset. In a capture it points to two words on the device, the seed and the offset of the
/// running replay; `base_offset` is added to the latter. (PyTorch's `PhiloxCudaState`.)
struct PhiloxState {
  std::uint64_t eager_seed = 0;          ///< without words: the seed
  std::uint64_t base_offset = 0;         ///< without words: the offset; else added to that of the replay
  const std::uint64_t* words = nullptr;  ///< of the graph, on the device: seed and offset of the replay; or null

  /// Only within a kernel.
  REPRISE_KERNEL std::uint64_t seed() const { return words != nullptr ? words[0] : eager_seed; }
  /// The offset, a multiple of 4. Only within a kernel.
  REPRISE_KERNEL std::uint64_t offset() const { return words != nullptr ? words[1] + base_offset : base_offset; }
  /// The memory that a launch with this argument reads, for the `accesses` of a kernel.
  MemoryAccess access() const { return reads(words, words != nullptr ? 2 : 0); }
};

/// The whole state of a generator.
struct GeneratorState {
  std::uint64_t seed = 0;    ///< which family of streams of numbers
  std::uint64_t offset = 0;  ///< numbers of each stream already drawn; a multiple of 4
  friend bool operator==(const GeneratorState&, const GeneratorState&) = default;
};

/// A source of random numbers for kernels of one device: Philox 4x32-10, with the numbers of cuRAND and of PyTorch's
/// CUDA generator for the same seed, subsequence and offset. A handle: copies share one state; clone() copies the
/// state.
///
/// Numbers are computed in kernels. The generator assigns each launch a range of offsets, in the order of the calls of
/// philox_state():
///
///     launch(config, Dropout{}, generator.philox_state(1), x, y, n);  // each thread draws one number at most
///
/// *In a capture of this library* the generator takes part at the first draw, in any number of captures at once.
/// Drawing in a capture does not advance the offset; each CUDAGraph::replay() advances it by what was drawn in its
/// capture: eager work and replays in any order draw what eager work alone would have drawn. Replays of several graphs
/// and threads draw in the order of the calls of replay().
///
/// Thread-safe. The state lives as long as a handle, or a graph that drew from it.
class REPRISE_EXPORT Generator {
 public:
  /// The seed if none is passed, as in PyTorch.
  static constexpr std::uint64_t default_seed = 67280421310721;

  /// A new generator with offset 0.
  explicit Generator(Device device = current_device(), std::uint64_t seed = default_seed);

  /// Shares the state. So does a move: a moved-from generator can be used as before.
  Generator(const Generator&) = default;
  Generator& operator=(const Generator&) = default;

  Device device() const noexcept;

  /// Sets the seed, and the offset to 0.
  /// \throws UsageError in a capture of the thread's current stream, or during a capture that drew from this
  ///         generator.
  void set_current_seed(std::uint64_t seed);
  std::uint64_t current_seed() const;
  /// Sets an unpredictable seed, and the offset to 0. Returns the seed.
  /// \throws UsageError as set_current_seed().
  std::uint64_t seed();
  /// Sets how many numbers of each stream count as drawn.
  /// \throws UsageError if it is not a multiple of 4, or as set_current_seed().
  void set_offset(std::uint64_t offset);
  std::uint64_t offset() const;  ///< a multiple of 4

  GeneratorState get_state() const;
  /// \throws UsageError as set_offset().
  void set_state(const GeneratorState& state);
  /// Returns an independent generator with the same seed and offset.
  Generator clone() const;

  /// Reserves a range of numbers for one launch on a stream.
  /// \param increment the most numbers that a thread draws; rounded up to a multiple of 4.
  /// \param stream the stream of the launch, of the generator's device.
  /// \throws UsageError if the stream is of another device, or takes part in a capture that is not of this library;
  ///         BackendError with ErrorCode::stream_capture_invalidated if it takes part in one that was broken.
  PhiloxState philox_state(std::uint64_t increment, const StreamRef& stream) const;
  /// As above, for a launch on the calling thread's current stream of the generator's device.
  PhiloxState philox_state(std::uint64_t increment) const;

  /// True if both share one state.
  friend bool operator==(const Generator&, const Generator&) noexcept = default;

  /// For internal use.
  const std::shared_ptr<random::GeneratorImpl>& impl() const noexcept { return impl_; }

 private:
  explicit Generator(std::shared_ptr<random::GeneratorImpl> impl) noexcept : impl_(std::move(impl)) {}
  friend Generator default_generator(Device device);
  std::shared_ptr<random::GeneratorImpl> impl_;
};

/// The default generator of a device, made at the first use with Generator::default_seed.
REPRISE_EXPORT Generator default_generator(Device device = current_device());

/// Sets the seed of the default generators of all devices (PyTorch's `torch.cuda.manual_seed_all`).
/// \throws UsageError as Generator::set_current_seed().
REPRISE_EXPORT void manual_seed(std::uint64_t seed);

}  // namespace reprise
