// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "reprise/capture.h"
#include "reprise/detail/export.h"
#include "reprise/stream.h"

/// \file
/// Control flow within a graph: the device decides in each replay which captured bodies run, and how often.
///
///     Loop loop;
///     CUDAGraph solve = capture([&] {
///       launch(n, Start{}, x, go_on);
///       loop = while_(go_on, [&] { launch(n, Step{}, x, go_on); }, {.max_iterations = 1000});
///     });
///     solve.replay();
///     if (loop.last_run().stopped) ...  // not converged
///
/// Each function is called while a stream is captured by this library, and adds a conditional node of CUDA to its
/// graph, after prior work on the stream and before later work. Bodies run once, at this call, and are captured; a
/// stream of their own is the calling thread's current one meanwhile, and is passed to them (CaptureBody).
///
/// *The condition* is a word in device memory, which a kernel of this library reads when the replay reaches the node;
/// of a loop, at the end of the body, too. Kernels before the node, or in the body, write it. It is an input of the
/// graph as any other memory (CUDAGraph::inputs()).
///
/// *Bodies* hold kernels, copies and sets of device and pinned memory, child graphs, and further control flow, at any
/// depth; streams may be forked off the body's one, and are joined before it ends. Everything else is refused:
/// functions of the host, allocate_async() and free_async() (`cudaMallocAsync`), external events, copies of pageable
/// memory. Work submitted meanwhile to the enclosing stream is refused, too: it would not be in the body.
///
/// *Memory* that a body allocates from CachingAllocator, and of tensors, belongs to the graph. What a body does not
/// free stays allocated after it. What was allocated outside of a while_ body and is freed in it is not given out again
/// in that body, whose next iteration may read it.
///
/// *Random numbers.* All bodies of an if_, if_else and switch_ count as drawn, whether they run or not. A body of
/// while_ draws other numbers in each iteration, and counts as drawn LoopOptions::max_iterations times, which it must
/// have. Generators of libtorch's CUDA tensors cannot be drawn from in the body of a while_.
///
/// *Limits of CUDA.* A graph with control flow has one executable at a time, and cannot become a child graph, be cloned
/// or be changed by CUDAGraph::update(); CUDAGraph::recapture() instantiates it anew. if_else and switch_ need a driver
/// of CUDA 12.8 or later.
///
/// \throws UsageError (each function) for a null or unaligned condition, an empty or missing body, a stream that takes
///         part in no capture of this library, and work that a body cannot hold; CaptureError if the capture of a body
///         was broken or a stream was not joined; BackendError if the runtime fails; what a body throws. Once the node
///         was added, nodes cannot be removed: the whole capture fails at its end.
///
/// Threads: any that captures, as for launches.

namespace reprise {

namespace graphs {
struct LoopMemory;
}  // namespace graphs

/// Adds a body that runs if `*condition` is not zero when a replay reaches it.
/// \param stream takes part in a capture of this library.
/// \param condition in memory of the stream's device; read in each replay.
/// \param body is called once, at this call.
REPRISE_EXPORT void if_(const StreamRef& stream, const std::uint32_t* condition, CaptureBody body);
/// As above, for the calling thread's current stream.
REPRISE_EXPORT void if_(const std::uint32_t* condition, CaptureBody body);

/// Adds two bodies, of which one runs.
/// \param stream takes part in a capture of this library.
/// \param condition in memory of the stream's device; read in each replay.
/// \param body runs if `*condition` is not zero.
/// \param otherwise runs if it is zero.
REPRISE_EXPORT void if_else(const StreamRef& stream, const std::uint32_t* condition, CaptureBody body,
                            CaptureBody otherwise);
/// As above, for the calling thread's current stream.
REPRISE_EXPORT void if_else(const std::uint32_t* condition, CaptureBody body, CaptureBody otherwise);

/// Adds bodies of which one runs, or none.
/// \param stream takes part in a capture of this library.
/// \param index in memory of the stream's device; read in each replay: the number of the body, from 0. If there is no
///        such body, none runs.
/// \param bodies at least one; each is called once, at this call.
REPRISE_EXPORT void switch_(const StreamRef& stream, const std::uint32_t* index, std::span<const CaptureBody> bodies);
/// As above, for bodies that are written in braces.
REPRISE_EXPORT void switch_(const StreamRef& stream, const std::uint32_t* index,
                            std::initializer_list<CaptureBody> bodies);
/// As above, for the calling thread's current stream.
REPRISE_EXPORT void switch_(const std::uint32_t* index, std::span<const CaptureBody> bodies);
/// As above, for the calling thread's current stream, and bodies that are written in braces.
REPRISE_EXPORT void switch_(const std::uint32_t* index, std::initializer_list<CaptureBody> bodies);

/// Options of while_.
struct LoopOptions {
  /// The most iterations of one run; 0: no limit. A loop that never ends cannot be stopped.
  std::uint32_t max_iterations = 0;
};

class LoopBody;

/// Results of the runs of a while_. A handle to memory of the graph, which it keeps; cheap to copy. One that was not
/// made by while_ is empty.
///
/// It stays valid when the graph is captured again (CUDAGraph::recapture()): the loop of the first call of while_ has
/// the memory of the one that was first before, and so on.
class REPRISE_EXPORT Loop {
 public:
  /// Result of one run.
  struct Run {
    std::uint32_t iterations = 0;  ///< of the body
    bool stopped = false;          ///< the limit ended it, while the condition was still not zero
  };

  Loop() = default;

  /// Returns the result of the last run: waits for the work of `stream`, which is one that the graph was replayed on,
  /// or comes after such. Of an inner loop: the last run of the last iteration of the outer one. All zeros before the
  /// first run. After a recapture: of the loop before, until the next replay.
  /// \throws UsageError for an empty handle, and while the stream is captured; BackendError if the runtime fails.
  Run last_run(const StreamRef& stream) const;
  Run last_run() const;  ///< as above, for the current stream of the loop's device

  /// The number of iterations until now, on the device: in the body, that of the iteration, from 0. The body gets its
  /// loop as an argument (LoopBody), since it is captured before while_ returns.
  /// \throws UsageError for an empty handle.
  const std::uint32_t* iterations() const;

 private:
  friend Loop while_(const StreamRef& stream, const std::uint32_t* condition, LoopBody body,
                     const LoopOptions& options);
  explicit Loop(std::shared_ptr<const graphs::LoopMemory> memory) : memory_(std::move(memory)) {}

  std::shared_ptr<const graphs::LoopMemory> memory_;
};

/// A reference to the body of while_: a function that CaptureBody takes, or one that takes its Loop as well, alone or
/// after the stream:
///
///     while_(go_on, [&](StreamRef inside, Loop loop) { launch(inside, n, Step{}, x, loop.iterations(), go_on); });
///
/// Valid as long as the function; for parameters, not to be stored.
class LoopBody {
 public:
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, LoopBody> &&
           (std::constructible_from<CaptureBody, F&> || std::invocable<F&, Loop> ||
            std::invocable<F&, StreamRef, Loop> || std::invocable<F&, StreamHandle, Loop>))
      LoopBody(F&& function) {  // NOLINT(google-explicit-constructor): bodies are passed as they are
    if constexpr (std::constructible_from<CaptureBody, F&>) {
      if (const CaptureBody body(function); body)
        call_ = [body](const StreamRef& stream, const Loop& /*loop*/) { body(stream); };
    } else {
      if constexpr (std::is_pointer_v<std::remove_reference_t<F>> || requires { function.operator bool(); })
        if (!static_cast<bool>(function)) return;
      call_ = [&function](const StreamRef& stream, const Loop& loop) {
        if constexpr (std::invocable<F&, Loop>)
          function(loop);
        else if constexpr (std::invocable<F&, StreamRef, Loop>)
          function(stream, loop);
        else
          function(stream.native(), loop);
      };
    }
  }

  /// An empty one, which while_ refuses.
  LoopBody(std::nullptr_t) noexcept {}  // NOLINT(google-explicit-constructor)

  /// False for an empty std::function or a null function pointer.
  explicit operator bool() const noexcept { return static_cast<bool>(call_); }
  void operator()(const StreamRef& stream, const Loop& loop) const { call_(stream, loop); }

 private:
  std::function<void(const StreamRef& stream, const Loop& loop)> call_;
};

/// Adds a body that runs as long as `*condition` is not zero.
/// \param stream takes part in a capture of this library.
/// \param condition in memory of the stream's device; read before each iteration.
/// \param body is called once, at this call.
/// \param options the limit of iterations.
/// \return a handle that shows how often the body ran: the one that the body got.
REPRISE_EXPORT Loop while_(const StreamRef& stream, const std::uint32_t* condition, LoopBody body,
                           const LoopOptions& options = {});
/// As above, for the calling thread's current stream.
REPRISE_EXPORT Loop while_(const std::uint32_t* condition, LoopBody body, const LoopOptions& options = {});

}  // namespace reprise
