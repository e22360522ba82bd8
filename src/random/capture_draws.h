// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/check.h"
#include "captures/registry.h"
#include "kernels/advance_kernel.h"
#include "random/draw_source.h"
#include "reprise/event.h"
#include "reprise/memory.h"

namespace reprise::random {

/// Gives device words back to where they came from.
struct WordsDeleter {
  CachingAllocator* allocator;
  void operator()(std::uint64_t* words) const noexcept { detail::deallocate_buffer(*allocator, words); }
};
using Words = std::unique_ptr<std::uint64_t, WordsDeleter>;

/// Allocates a GraphRngState to lend to an ExternalGenerator: outside of all private pools, and never reported as an
/// input of a graph.
Words allocate_lent_words(const Device& device);

/// What one graph draws from one generator.
///
/// In the capture: words on the device, a head node at the root of the graph, and every stream that draws depends on
/// it. After it: the mirror, what the next replay would draw by itself; if that is not where the generator is, the head
/// node's parameters are changed in the executable.
struct GraphDraws {
  std::shared_ptr<DrawSource> generator;
  Advance parameters = {};  ///< of the head node, in the template and then in the executable

  bool mirror_valid = false;  ///< the mirror agrees with the executable
  GeneratorState mirror = {};
  std::optional<GeneratorState> spent = {};  ///< the generator before the replay that is being launched

  // What a replay touches ends here.
  std::uint64_t* words = nullptr;  ///< GraphRngState, on the device
  GraphNodeHandle head = nullptr;
  std::vector<StreamHandle> dependent = {};  ///< streams of the capture that come after the head node
};

/// The random numbers of one capture, and then of its graph. In a slot of the capture from the first draw, or hold(),
/// to end().
///
/// Threads: draws come from any thread while the capture is underway; the rest from one at a time.
class CaptureDraws {
 public:
  CaptureDraws() = default;
  ~CaptureDraws() { close(); }
  CaptureDraws(const CaptureDraws&) = delete;
  CaptureDraws& operator=(const CaptureDraws&) = delete;

  /// The capture keeps a generator from being set, although it has not drawn from it.
  static void hold(captures::Capture& capture, const std::shared_ptr<DrawSource>& generator);
  /// Ends the draws of the capture: generators can be set again. Null if it drew nothing and held none, or when called
  /// again.
  static std::shared_ptr<CaptureDraws> end(captures::Capture& capture) noexcept;

  /// A range of numbers for one launch on a stream of the capture.
  PhiloxState draw(const std::shared_ptr<DrawSource>& generator, std::uint64_t increment, const StreamRef& stream,
                   GraphHandle graph);
  /// Kernels anywhere in the graph of a capture that has ended read `words`, and drew `increment` numbers: a head node
  /// comes before all others.
  void add_drawn(const std::shared_ptr<DrawSource>& generator, Words words, std::uint64_t increment, GraphHandle graph);
  /// A stream was destroyed: its handle may come back for another one.
  void stream_ends(const StreamRef& stream) noexcept;

  bool empty() const noexcept { return draws_.empty(); }
  /// The device words, which lie in the graph's pool: kept alive by the owner of this pointer, as long as the graph.
  std::shared_ptr<void> take_words() noexcept { return std::move(words_); }

  /// The capture has ended: the template's head nodes get the number of draws of the whole graph.
  void finish();
  /// Notifies of a new executable, without parameters yet.
  void instantiated(GraphExecHandle exec) noexcept;
  /// Spends the numbers of one replay, and updates the executable to draw them. If it fails nothing was spent.
  void before_replay(const StreamRef& stream);
  /// It was launched.
  void replayed() noexcept { ordered_ = true; }
  /// The launch failed: the numbers are not spent.
  void replay_failed() noexcept;

 private:
  GraphDraws& add(const std::shared_ptr<DrawSource>& generator, Words words, std::uint64_t increment,
                  GraphHandle graph);
  GraphDraws& draws_of(const std::shared_ptr<DrawSource>& generator, const StreamRef& stream, GraphHandle graph);
  void close() noexcept;
  void clear_words();
  void prepare(GraphDraws& draws);
  void undo_spend() noexcept;

  std::vector<std::unique_ptr<GraphDraws>> draws_;
  bool ordered_ = false;  // a launch of the executable came after `cleared_`, and so do all further ones
  // What a replay touches ends here.
  std::mutex mutex_;                               // guards `draws_` and the rest while the capture is underway
  std::vector<std::shared_ptr<DrawSource>> held_;  // until close()
  std::shared_ptr<std::vector<Words>> words_ = std::make_shared<std::vector<Words>>();
  std::vector<Event> cleared_;  // the words are
  GraphExecHandle exec_ = nullptr;
};

/// Draws in the capture that a stream takes part in, as captures::find() found it.
/// \throws UsageError if that is not of this library; BackendError with code 901 if it is broken.
PhiloxState draw_in_capture(const std::shared_ptr<DrawSource>& generator, std::uint64_t increment,
                            const StreamRef& stream, const captures::Found& found);

}  // namespace reprise::random
