// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "captures/child_node.h"
#include "captures/edges.h"
#include "captures/registry.h"
#include "kernels/advance_kernel.h"
#include "memory/device_words.h"
#include "random/draw_source.h"
#include "reprise/detail/export.h"
#include "reprise/event.h"
#include "reprise/memory.h"

namespace reprise::random {

/// The kernel of the head node, for one thread. Its parameters: the words (`std::uint64_t*`), and an Advance.
const KernelRecord& advance_record();
/// True for the function of a kernel at the root of a child graph, or of a body that repeats: it reads the words of the
/// graph around it, and draws nothing.
REPRISE_EXPORT_INTERNAL bool derives_words(const backend::Backend& backend, FunctionHandle function);

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

  // Members that replays use are above.
  std::uint64_t* words = nullptr;  ///< GraphRngState, on the device
  /// Shared by all graphs that draw with these words: CUDAGraph::update().
  std::shared_ptr<const bool> users = std::make_shared<const bool>();
  GraphNodeHandle head = nullptr;
  std::vector<StreamHandle> dependent = {};  ///< streams of the capture that come after the head node
};

/// What the body of a `while` node draws from one generator while it is captured: each iteration draws other numbers,
/// and the node as many as the most iterations that it may have.
///
/// The body has words of its own, and a head node at its root that derives them from the numbers around it.
struct LoopDraws {
  std::shared_ptr<DrawSource> generator;
  const captures::Body* body;   ///< repeats
  std::uint64_t* words;         ///< GraphRngState, on the device
  std::uint64_t increment = 0;  ///< numbers drawn by one iteration
  GraphNodeHandle head = nullptr;
  std::vector<StreamHandle> dependent = {};  ///< streams of the body that come after the head node
};

/// The random numbers of one capture, and then of its graph. In a slot of the capture from the first draw, or hold(),
/// to end().
///
/// Threads: draws come from any thread while the capture is underway; the rest from one at a time.
class REPRISE_EXPORT_INTERNAL CaptureDraws {
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

  /// A range of numbers for one launch on a stream of the capture, as captures::find() found it.
  /// \throws UsageError in the body of a `while` node without a limit.
  PhiloxState draw(const std::shared_ptr<DrawSource>& generator, std::uint64_t increment, const StreamRef& stream,
                   const captures::Found& found);
  /// The capture of a body that repeats is about to end: the graph around it draws for all its iterations.
  static void end_body(captures::Capture& capture, const captures::Body& body);
  /// Kernels anywhere in the graph of a capture that has ended read `words`, and drew `increment` numbers: a head node
  /// comes before all others.
  void add_drawn(const std::shared_ptr<DrawSource>& generator, memory::DeviceWords words, std::uint64_t increment,
                 GraphHandle graph);
  /// The graph of these draws, which has ended its capture, becomes a child of another capture's. Each replay of the
  /// parent draws for it, in its place among the parent's own draws, and the copy reads the parent's words.
  void add_to_parent(const captures::ChildNode& child) const;
  /// Refuses further draws: the runtime's capture is about to be ended.
  void capture_ends() noexcept {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  /// Notifies that a stream is about to be destroyed; its handle may be reused.
  void stream_ends(const StreamRef& stream) noexcept;

  /// Replays neither draw nor come after words that are cleared.
  bool empty() const noexcept { return draws_.empty() && cleared_.empty(); }
  /// The device words, which lie in the graph's pool: kept alive by the owner of this pointer, as long as the graph.
  std::shared_ptr<void> take_words() noexcept { return std::move(words_); }

  /// The capture has ended: the template's head nodes get the number of draws of the whole graph.
  void finish();
  /// The same draws for another graph, whose executable was updated to this one, by nodes of its template. Both use the
  /// same words on the device.
  std::shared_ptr<CaptureDraws> adopted(const std::unordered_map<GraphNodeHandle, GraphNodeHandle>& nodes,
                                        GraphExecHandle exec) const;
  /// Notifies of a new executable, without parameters yet.
  void instantiated(GraphExecHandle exec) noexcept;
  /// Spends the numbers of one replay, and updates the executable to draw them. If it fails nothing was spent.
  void before_replay(const StreamRef& stream);
  /// Notifies that the launch succeeded.
  void replayed() noexcept { ordered_ = true; }
  /// The launch failed: the numbers are not spent.
  void replay_failed() noexcept;

 private:
  GraphDraws& add(const std::shared_ptr<DrawSource>& generator, memory::DeviceWords words, std::uint64_t increment,
                  GraphHandle graph);
  // Where the numbers of a graph begin, that of the capture or of a body that repeats: its head node.
  struct Level {
    const captures::Body* body = nullptr;  // null: the graph of the capture
    std::uint64_t* words = nullptr;
    std::uint64_t* increment = nullptr;
    GraphNodeHandle head = nullptr;  // null: it will come before all nodes of the graph
    std::vector<StreamHandle>* dependent = nullptr;
    std::shared_ptr<ExternalGenerator> external = {};  // counts instead of `increment`; then there is no head yet

    /// Returns where these numbers begin.
    std::uint64_t draw(std::uint64_t numbers) const;
  };
  using Lock = std::unique_lock<std::mutex>;
  memory::DeviceWords allocate_unlocked(Lock& lock, const StreamRef& stream);
  /// Refuses draws that found the capture before its end. \throws UsageError after capture_ends()
  void require_open() const;
  /// Unlocks where it allocates; what it returns is of the time after that.
  Level level_of(Lock& lock, const captures::Capture& capture, const std::shared_ptr<DrawSource>& generator,
                 const StreamRef& stream, GraphHandle graph, const captures::Body* body);
  Level loop_level(Lock& lock, const std::shared_ptr<DrawSource>& generator, const StreamRef& stream,
                   const captures::Body& body);
  void add_loop(const std::shared_ptr<DrawSource>& generator, memory::DeviceWords words, const StreamRef& stream,
                const captures::Body& body);
  void begin_after(const Level& level, const StreamRef& stream, const captures::Body* body);
  void connect(const Level& level, const Device& device, GraphNodeHandle node, GraphHandle graph,
               const captures::Body* body);
  PhiloxState draw_for_child(const GraphDraws& of_child, const captures::ChildNode& child);
  void end_loop(Lock& lock, const captures::Capture& capture, const LoopDraws& draws);
  void close() noexcept;
  void clear_words();
  void prepare(GraphDraws& draws);
  void set_parameters(GraphDraws& draws, const GeneratorState& from, bool shared);
  void undo_spend() noexcept;

  std::vector<std::unique_ptr<GraphDraws>> draws_;
  bool ordered_ = false;  // a launch of the executable came after `cleared_`, and so do all further ones
  // Members that replays use are above.
  std::mutex mutex_;                               // guards `draws_` and the rest while the capture is underway
  bool closed_ = false;                            // draws are refused
  std::vector<std::unique_ptr<LoopDraws>> loops_;  // of bodies that are being captured
  captures::AddedEdges edges_;                     // from head nodes
  std::vector<std::shared_ptr<DrawSource>> held_;  // until close()
  std::shared_ptr<std::vector<memory::DeviceWords>> words_ = std::make_shared<std::vector<memory::DeviceWords>>();
  std::vector<std::shared_ptr<const Event>> cleared_;  // the words are
  GraphExecHandle exec_ = nullptr;
};

/// Draws in the capture that a stream takes part in, as captures::find() found it.
/// \throws UsageError if that is not of this library; BackendError with code 901 if it is broken.
PhiloxState draw_in_capture(const std::shared_ptr<DrawSource>& generator, std::uint64_t increment,
                            const StreamRef& stream, const captures::Found& found);

}  // namespace reprise::random
