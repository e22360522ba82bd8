// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reprise/detail/export.h"
#include "reprise/device.h"
#include "reprise/device_view.h"
#include "reprise/memory.h"
#include "reprise/stream.h"

/// \file
/// The result of a call of a GraphCache.

namespace reprise {

namespace cache_detail {

/// The memory of one result.
struct ResultMemory {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// Source of results: an entry, or one call whose results are its own.
struct Lender {
  explicit Lender(Device its_device) : device(its_device) {}

  Device device;
  std::shared_ptr<void> owner = {};       ///< of the memory
  std::vector<ResultMemory> memory = {};  ///< of each result
  std::atomic<std::uint64_t> call{0};     ///< the last one, whose results are there
  std::string key = {};                   ///< as text, with the name of the cache
};

/// The results of one call.
struct Outcome {
  std::shared_ptr<const Lender> lender = {};  ///< null: there are none
  std::uint64_t call = 0;

  std::size_t count() const noexcept { return lender == nullptr ? 0 : lender->memory.size(); }
};

/// The lengths of a padded call; 0 otherwise.
struct Lengths {
  std::size_t length = 0, padded = 0;
};

/// \throws UsageError if the result was overwritten.
REPRISE_EXPORT void check_result(const Lender* lender, std::uint64_t call);
/// \throws UsageError unless the values are rows for each of `length`, if that is not 0.
REPRISE_EXPORT void check_rows(const char* what, std::size_t number, std::size_t values, std::size_t length);
/// Copies to the host after prior work on `stream`, and waits.
REPRISE_EXPORT void read_result(const Lender* lender, const void* data, void* values, std::size_t bytes,
                                const StreamRef* stream);

}  // namespace cache_detail

/// A Buffer that the body of a GraphCache returned, as a result of one call. It lies in memory of the entry, which the
/// next call of the same key overwrites; with CacheOutputs::copy, and after an eager run, in memory of its own.
///
/// Valid also after the entry, and after the cache. Copies refer to the same memory. It may be dropped while work on
/// the stream of its call still reads it; what reads it on other streams must have completed by then. Thread-safe, if
/// the next call of the key does not run at the same time.
template <class T>
class CacheResult {
 public:
  CacheResult() = default;  ///< of nothing

  /// The device address; null if it is empty.
  /// \throws UsageError if a later call has overwritten it. So do all members below.
  T* data() const {
    cache_detail::check_result(lender_.get(), call_);
    return data_;
  }
  /// Number of values; after run_padded() those of the valid rows.
  std::size_t size() const noexcept { return size_; }
  std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }  ///< of `size()` values
  std::size_t padded_size() const noexcept { return padded_size_; }      ///< number of values, with the padding
  bool empty() const noexcept { return size_ == 0; }
  /// False if a later call of the key has overwritten it.
  bool is_valid() const noexcept { return lender_ == nullptr || lender_->call == call_; }

  /// The values, for work that is submitted before the next call of the key.
  DeviceView<const T> view() const { return {data(), size_}; }
  operator DeviceView<const T>() const { return view(); }  // NOLINT(google-explicit-constructor): as a Buffer

  /// Returns a copy of the values, made after prior work on `stream`; waits until that is done.
  std::vector<T> read(const StreamRef& stream) const { return read_on(&stream); }
  /// As above, on the current stream of the device.
  std::vector<T> read() const { return read_on(nullptr); }

  /// For internal use.
  CacheResult(const cache_detail::Outcome& outcome, std::size_t number, const cache_detail::Lengths& lengths)
      : lender_(outcome.lender), call_(outcome.call) {
    const cache_detail::ResultMemory& memory = lender_->memory[number];
    data_ = static_cast<T*>(memory.data);
    size_ = padded_size_ = memory.bytes / sizeof(T);
    if (lengths.padded != 0) size_ = padded_size_ / lengths.padded * lengths.length;
  }

 private:
  std::vector<T> read_on(const StreamRef* stream) const {
    const T* const from = data();
    std::vector<T> values(size_);
    cache_detail::read_result(lender_.get(), from, values.data(), size_bytes(), stream);
    return values;
  }

  std::shared_ptr<const cache_detail::Lender> lender_;
  std::uint64_t call_ = 0;
  T* data_ = nullptr;
  std::size_t size_ = 0, padded_size_ = 0;
};

namespace cache_detail {

template <class T>
struct InputOf<CacheResult<T>> {
  using type = DeviceView<const T>;
};

}  // namespace cache_detail
}  // namespace reprise
