// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "captures/capture.h"
#include "reprise/annotations.h"
#include "reprise/detail/export.h"
#include "reprise/graph_types.h"
#include "reprise/memory.h"
#include "reprise/stream.h"

namespace reprise::inspect {

/// True if the address lies in the words of progress marks, of any graph. Thread-safe.
REPRISE_EXPORT_INTERNAL bool is_progress_word(const void* address);

/// Progress of replays of a graph: a word of pinned memory for each scope, which a memset node sets where the
/// scope ends, and which another one clears at the beginning. A word each, as bodies may run in any order or not at
/// all.
///
/// A graph keeps its words when it is captured again. Each capture sets them to another value, so that what replays of
/// an earlier one have left, or still leave, is none of its marks.
///
/// Threads: add() in the capture, on any thread; last() on any thread.
class ProgressMarks {
 public:
  static constexpr std::size_t limit = 4096;  ///< of scopes

  /// The words of one graph. is_progress_word() finds them.
  class Words {
   public:
    explicit Words(const Device& device);
    ~Words();
    Words(const Words&) = delete;
    Words& operator=(const Words&) = delete;

    Device device() const noexcept { return device_; }
    std::uint32_t* data() noexcept { return words_.data(); }
    bool has(const void* address) const noexcept {
      const auto* const word = static_cast<const std::uint32_t*>(address);
      return !std::less<>{}(word, words_.data()) && std::less<>{}(word, words_.data() + words_.size());
    }
    /// A value that no capture has set them to.
    std::uint32_t next_value() noexcept { return last_value_.fetch_add(1, std::memory_order_relaxed) + 1; }

   private:
    const Device device_;
    HostBuffer<std::uint32_t> words_;
    std::atomic<std::uint32_t> last_value_{0};
  };

  explicit ProgressMarks(std::shared_ptr<Words> words) : words_(std::move(words)), value_(words_->next_value()) {}
  ProgressMarks(const ProgressMarks&) = delete;
  ProgressMarks& operator=(const ProgressMarks&) = delete;

  /// Captures the node that clears the words, before all work.
  /// \throws BackendError
  void clear_on(const StreamRef& stream);
  /// Captures the node of a scope that ends on this stream. Scopes beyond the limit have none.
  /// \throws BackendError
  void add(const StreamRef& stream, const Annotation& annotation, bool in_body);

  /// The same scopes, in words of another graph.
  std::shared_ptr<ProgressMarks> in(std::shared_ptr<Words> words) const;
  /// What a node of this object sets, where marks that in() returned do so.
  void move_to(const ProgressMarks& marks, MemsetNodeParams& set) const;

  /// The scope that was captured last among all whose words are set; nullopt if there is none.
  std::optional<Annotation> last() const;
  /// True if the address is that of a word.
  bool has(const void* address) const noexcept { return words_->has(address); }
  /// Number of nodes that were captured, without those in bodies of control flow.
  std::size_t nodes() const;

 private:
  const std::shared_ptr<Words> words_;
  const std::uint32_t value_;  // of a word that is set
  mutable std::mutex mutex_;   // guards the rest
  std::vector<Annotation> scopes_;
  std::size_t nodes_ = 1;
};

}  // namespace reprise::inspect
