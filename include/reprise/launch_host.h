// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "reprise/detail/export.h"
#include "reprise/detail/function_object.h"
#include "reprise/stream.h"

/// \file
/// Functions of the host in the order of a stream.

namespace reprise {

/// The function of launch_host() without its type. For internal use.
namespace host_detail {

class REPRISE_EXPORT Function {
 public:
  virtual ~Function() = default;
  Function(const Function&) = delete;
  Function& operator=(const Function&) = delete;

  virtual void run() = 0;
  /// The object, with all that it has by value.
  virtual std::span<const std::byte> object() const noexcept = 0;

 protected:
  Function() = default;
};

template <class F>
class FunctionOf final : public Function {
 public:
  // A copy has no bytes of an original on the stack that no code wrote, as the result of a move may have.
  template <class From>
  explicit FunctionOf(From&& from) : function_(as_source(from)) {}

  void run() override { function_.get()(); }
  std::span<const std::byte> object() const noexcept override { return function_.bytes(); }

 private:
  template <class From>
  static decltype(auto) as_source(From& from) {
    if constexpr (std::is_copy_constructible_v<F>)
      return std::as_const(from);
    else
      return std::move(from);
  }

  function_detail::FunctionObject<F> function_;
};

/// \param stream the stream whose prior work comes first.
/// \param function null for an empty one.
/// \throws as reprise::launch_host().
REPRISE_EXPORT void launch(const StreamRef& stream, std::unique_ptr<Function> function);

}  // namespace host_detail

/// Calls `function` on the host once prior work on `stream` has completed; later work of the stream waits for it
/// (`cudaLaunchHostFunc`). Returns without waiting. In a capture this is a node: each replay calls the function again,
/// and the graph owns a copy of it as long as the template, its executables and their running launches exist.
///
/// The function runs on a thread of the device runtime, which it must not call: no work, no waits, no allocations of
/// device memory. Runs of one graph come one after another. An exception becomes a warning.
///
/// The end of a capture refuses a function that refers to a local variable of the body, which is gone when replays call
/// it: capture by value what the body owns. InputOptions::allow_stack allows it.
///
/// What the function holds is destroyed on a thread of the program: after a launch outside of captures by a later call
/// of the library, such as launch_host(), capture() or release_finished_graphs().
/// \throws UsageError if the function is empty; BackendError if the runtime refuses the launch.
REPRISE_EXPORT void launch_host(const StreamRef& stream, std::function<void()> function);
template <class F>
requires std::invocable<F&>
void launch_host(const StreamRef& stream, F function) {
  using Kept = host_detail::FunctionOf<F>;
  host_detail::launch(stream, function_detail::is_empty(function) ? nullptr : std::make_unique<Kept>(function));
}

/// As above, on the current stream.
REPRISE_EXPORT void launch_host(std::function<void()> function);
template <class F>
requires std::invocable<F&>
void launch_host(F function) {
  launch_host(current_stream(), std::move(function));
}

}  // namespace reprise
