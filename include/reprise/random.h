// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "reprise/accesses.h"
#include "reprise/device.h"
#include "reprise/device_code.h"
#include "reprise/stream.h"

/// \file
/// Random numbers that are right in a graph: each replay draws other numbers, the ones that eager work would have
/// drawn.

namespace reprise {

namespace random {
class GeneratorImpl;
}

/// Where a kernel's random numbers begin: an argument of the kernel, made by Generator::philox_state() for one launch.
///
/// Eagerly it holds seed and offset. In a capture it points to device words of the graph, which hold those of the
/// replay that is running; the offset within the graph is added. (PyTorch's `PhiloxCudaState`.)
struct PhiloxState {
  std::uint64_t eager_seed = 0;          ///< without words: the seed
  std::uint64_t base_offset = 0;         ///< without words: the offset; else what is added to that of the replay
  const std::uint64_t* words = nullptr;  ///< of the graph, on the device: seed and offset of the replay; or null

  /// The seed. Only within a kernel.
  REPRISE_KERNEL std::uint64_t seed() const { return words != nullptr ? words[0] : eager_seed; }
  /// The offset, a multiple of 4. Only within a kernel.
  REPRISE_KERNEL std::uint64_t offset() const { return words != nullptr ? words[1] + base_offset : base_offset; }
  /// What a launch with this argument reads: for the `accesses` of a kernel.
  MemoryAccess access() const { return reads(words, words != nullptr ? 2 : 0); }
};

/// Seed and offset of a generator: all of its state.
struct GeneratorState {
  std::uint64_t seed = 0;    ///< which family of streams of numbers
  std::uint64_t offset = 0;  ///< how many numbers of each stream are spent; a multiple of 4
  friend bool operator==(const GeneratorState&, const GeneratorState&) = default;  ///< equal in both?
};

/// A source of random numbers for kernels of one device: Philox 4x32-10, with the numbers of cuRAND and of PyTorch's
/// CUDA generator for the same seed, subsequence and offset. A handle: copies share one state; clone() copies the
/// state.
///
/// Kernels draw by themselves. The generator gives each launch a range of offsets, in the order in which
/// philox_state() is called:
///
///     launch(config, Dropout{}, generator.philox_state(1), x, y, n);  // each thread draws one number at most
///
/// *In a capture of this library* the generator takes part by itself, in as many captures at once as there are. Drawing
/// in a capture spends nothing; each CUDAGraph::replay() spends what was drawn in its capture, on the numbers that
/// follow: eager work and replays in any order draw what eager work alone would have drawn. Replays of several graphs
/// and threads draw in the order in which replay() is called.
///
/// Thread-safe. The state lives as long as a handle, or a graph that drew from it.
class Generator {
 public:
  /// The seed of a generator that was given none, as in PyTorch.
  static constexpr std::uint64_t default_seed = 67280421310721;

  /// A new generator with offset 0.
  explicit Generator(Device device = current_device(), std::uint64_t seed = default_seed);

  Device device() const noexcept;  ///< whose kernels it is for

  /// Sets the seed; the offset is 0 then.
  /// \throws UsageError in a capture of the thread's current stream, or while one that drew from this is underway.
  void set_current_seed(std::uint64_t seed);
  std::uint64_t current_seed() const;  ///< the seed
  /// Sets a seed that nobody can foresee, and returns it; the offset is 0 then.
  /// \throws UsageError as set_current_seed().
  std::uint64_t seed();
  /// Sets how many numbers are spent.
  /// \throws UsageError if it is not a multiple of 4; as set_current_seed().
  void set_offset(std::uint64_t offset);
  std::uint64_t offset() const;  ///< how many numbers are spent, a multiple of 4

  GeneratorState get_state() const;  ///< seed and offset
  /// Sets both.
  /// \throws UsageError as set_offset().
  void set_state(const GeneratorState& state);
  /// A generator of its own with the same seed and offset.
  Generator clone() const;

  /// A range of numbers for one launch on a stream.
  /// \param increment how many numbers each thread draws at most; rounded up to a multiple of 4.
  /// \param stream where the kernel goes, of the generator's device.
  /// \throws UsageError if the stream is of another device, or takes part in a capture that is not of this library;
  ///         BackendError with Result::stream_capture_invalidated if it takes part in one that was broken.
  PhiloxState philox_state(std::uint64_t increment, const StreamRef& stream) const;
  /// For a launch on the calling thread's current stream of the generator's device.
  PhiloxState philox_state(std::uint64_t increment) const;

  /// The same state?
  friend bool operator==(const Generator&, const Generator&) noexcept = default;

  /// For the inside of this library.
  const std::shared_ptr<random::GeneratorImpl>& impl() const noexcept { return impl_; }

 private:
  explicit Generator(std::shared_ptr<random::GeneratorImpl> impl) noexcept : impl_(std::move(impl)) {}
  friend Generator default_generator(Device device);
  std::shared_ptr<random::GeneratorImpl> impl_;
};

/// The generator of a device that everything uses where nothing else was said. Made at the first use, with
/// Generator::default_seed.
Generator default_generator(Device device = current_device());

/// Sets the seed of the default generators of all devices (PyTorch's `torch.cuda.manual_seed_all`).
/// \throws UsageError as Generator::set_current_seed().
void manual_seed(std::uint64_t seed);

}  // namespace reprise
