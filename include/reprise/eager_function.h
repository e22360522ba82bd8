// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "reprise/detail/buffer_results.h"
#include "reprise/detail/export.h"
#include "reprise/detail/function_object.h"
#include "reprise/device.h"
#include "reprise/memory.h"
#include "reprise/stream.h"

/// \file
/// The function of an eager part without its types, as BreakableGraph keeps it. For internal use.

namespace reprise::eager_detail {

using function_detail::FunctionObject;
using function_detail::is_empty;

/// A buffer that an eager part returned, or the memory to which it is copied.
struct Result {
  void* data = nullptr;
  std::size_t count = 0;        ///< of values
  std::size_t value_bytes = 0;  ///< of one
  const std::type_info* type = nullptr;
  std::optional<Device> device = {};  ///< nullopt for a buffer without memory
};

/// Copies what a run returned to where the graph expects it, on a stream.
/// \throws UsageError unless there are as many buffers of the same sizes, on the same device; BackendError.
REPRISE_EXPORT void copy_results(std::span<const Result> fixed, std::span<const Result> returned,
                                 const StreamRef& stream);

/// Calls a function that takes nothing, a StreamRef or a `cudaStream_t`.
template <class F>
decltype(auto) call(F& function, const StreamRef& stream) {
  static_assert(std::invocable<F&> || std::invocable<F&, StreamRef> || std::invocable<F&, StreamHandle>,
                "the function of an eager part takes nothing, a StreamRef or a cudaStream_t");
  if constexpr (std::invocable<F&>)
    return std::invoke(function);
  else if constexpr (std::invocable<F&, StreamRef>)
    return std::invoke(function, stream);
  else
    return std::invoke(function, stream.native());
}
template <class F>
using ReturnedBy = decltype(eager_detail::call(std::declval<F&>(), std::declval<const StreamRef&>()));

/// The function of an eager part, and where its results go.
///
///     run -> copy_results | drop_results -> run ...
class REPRISE_EXPORT Function {
 public:
  virtual ~Function() = default;
  Function(const Function&) = delete;
  Function& operator=(const Function&) = delete;

  /// \throws what the function throws.
  virtual void run(const StreamRef& stream) = 0;
  /// Copies the results of the run to their fixed memory. \throws as eager_detail::copy_results().
  virtual void copy_results(const StreamRef& stream) = 0;
  virtual void drop_results() noexcept = 0;
  /// The object, with all that it has by value.
  virtual std::span<const std::byte> object() const noexcept = 0;

 protected:
  Function() = default;
};

template <class F, class Returned = ReturnedBy<F>>
class FunctionOf final : public Function {
  static_assert(
      results_detail::BufferResults<Returned>,
      "an eager part returns nothing, a Buffer, or a std::vector, std::array, std::tuple or std::pair of buffers: a "
      "value of the host would be that of the capture in every replay; tensors are copied to others that were made "
      "before the capture");

 public:
  template <class From>
  explicit FunctionOf(From&& from) : function_(std::forward<From>(from)) {}

  void run(const StreamRef& stream) override { returned_.emplace(eager_detail::call(function_.get(), stream)); }
  void copy_results(const StreamRef& stream) override {
    eager_detail::copy_results(fixed_, listed(*returned_), stream);
    returned_.reset();
  }
  void drop_results() noexcept override { returned_.reset(); }
  std::span<const std::byte> object() const noexcept override { return function_.bytes(); }

  /// Memory for results like those of the first run, which later ones are copied to.
  Returned make_fixed(const StreamRef& stream) {
    const std::vector<Result> first = listed(*returned_);
    Returned made =
        results_detail::make<Buffer, Returned>(first.size(), [&]<class T>(std::type_identity<T>, std::size_t number) {
          return first[number].count == 0 ? Buffer<T>() : Buffer<T>(first[number].count, stream);
        });
    fixed_ = listed(made);
    return made;
  }

 private:
  static std::vector<Result> listed(const Returned& returned) {
    std::vector<Result> results;
    results_detail::for_each(returned, [&]<class T>(const Buffer<T>& buffer) {
      const std::optional<Device> device = buffer.data() != nullptr ? std::optional(buffer.device()) : std::nullopt;
      results.push_back({buffer.data(), buffer.size(), sizeof(T), &typeid(T), device});
    });
    return results;
  }

  FunctionObject<F> function_;
  std::optional<Returned> returned_;
  std::vector<Result> fixed_;
};

template <class F>
class FunctionOf<F, void> final : public Function {
 public:
  template <class From>
  explicit FunctionOf(From&& from) : function_(std::forward<From>(from)) {}

  void run(const StreamRef& stream) override { eager_detail::call(function_.get(), stream); }
  void copy_results(const StreamRef& /*stream*/) override {}
  void drop_results() noexcept override {}
  std::span<const std::byte> object() const noexcept override { return function_.bytes(); }

 private:
  FunctionObject<F> function_;
};

/// True if the calling thread captures a body with eager parts; false if it captures nothing.
/// \throws UsageError if its current stream takes part in a capture without eager parts.
REPRISE_EXPORT bool is_breakable();
/// Ends the segment, runs it and the function, and begins the next segment.
/// \throws what eager() throws.
REPRISE_EXPORT void run_part(std::unique_ptr<Function> function);
/// In the handler of an exception behind run_part(): abandons the capture, which throws the exception again at its end.
REPRISE_EXPORT void fail_part() noexcept;
[[noreturn]] REPRISE_EXPORT void refuse_empty_function();

}  // namespace reprise::eager_detail
