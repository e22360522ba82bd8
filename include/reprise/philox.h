// SPDX-License-Identifier: Apache-2.0
#pragma once

#if __has_include(<Random123/philox.h>)
#include <Random123/philox.h>
#else
#error "expected the headers of Random123: install librandom123-dev, or set REPRISE_RANDOM123_INCLUDE_DIR in CMake"
#endif

#include <cstdint>

#include "reprise/device_code.h"
#include "reprise/random.h"

/// \file
/// Random numbers inside a kernel: Philox 4x32-10 of the library Random123, whose headers are required. Not part of
/// reprise.h.

namespace reprise {
inline namespace REPRISE_KERNEL_ABI {

/// The numbers of one thread: those of cuRAND's `curandStatePhilox4_32_10` after `curand_init(seed, subsequence,
/// offset)`, and so of PyTorch's CUDA generator. A value of 48 bytes, for registers.
///
///     struct Noise {
///       REPRISE_KERNEL void operator()(Thread t, PhiloxState state, float* x, std::size_t n) const {
///         if (t.global_x() < n) x[t.global_x()] = Philox(state, t.global_x()).uniform();
///       }
///     };
///     launch(n, Noise{}, generator.philox_state(1), x.data(), n);
class Philox {
 public:
  /// The stream of numbers of a thread: the thread's number is the subsequence.
  REPRISE_KERNEL Philox(const PhiloxState& state, std::uint64_t subsequence)
      : Philox(state.seed(), subsequence, state.offset()) {}
  /// \param seed which of 2^64 families of streams.
  /// \param subsequence which stream of it.
  /// \param offset how many of its numbers to skip.
  REPRISE_KERNEL Philox(std::uint64_t seed, std::uint64_t subsequence, std::uint64_t offset)
      : index_(static_cast<unsigned>(offset % 4)) {
    const std::uint64_t block = offset / 4;
    key_.v[0] = static_cast<std::uint32_t>(seed);
    key_.v[1] = static_cast<std::uint32_t>(seed >> 32U);
    counter_.v[0] = static_cast<std::uint32_t>(block);
    counter_.v[1] = static_cast<std::uint32_t>(block >> 32U);
    counter_.v[2] = static_cast<std::uint32_t>(subsequence);
    counter_.v[3] = static_cast<std::uint32_t>(subsequence >> 32U);
    output_ = philox4x32_R(10, counter_, key_);
  }

  /// The next number: each of 2^32 as likely as the others (`curand`).
  REPRISE_KERNEL std::uint32_t operator()() {
    const std::uint32_t number = output_.v[index_];
    if (++index_ == 4) {
      index_ = 0;
      for (unsigned i = 0; i < 4 && ++counter_.v[i] == 0; ++i) {
      }
      output_ = philox4x32_R(10, counter_, key_);
    }
    return number;
  }

  /// The next number as a fraction greater than 0 and at most 1 (`curand_uniform`).
  REPRISE_KERNEL float uniform() {
    constexpr float step = 2.3283064e-10F;  // 2^-32
    return static_cast<float>((*this)()) * step + step / 2.0F;
  }

 private:
  philox4x32_ctr_t counter_;
  philox4x32_key_t key_;
  philox4x32_ctr_t output_;
  unsigned index_;  // of the next number in output_
};

}  // namespace REPRISE_KERNEL_ABI
}  // namespace reprise
