// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "captures/capture.h"
#include "reprise/annotations.h"
#include "reprise/memory.h"
#include "reprise/stream.h"

namespace reprise::inspect {

/// Progress of replays of a graph: a word of pinned memory for each scope, which a memset node sets where the
/// scope ends, and which another one clears at the beginning. A word each, as bodies may run in any order or not at
/// all.
///
/// The words are shared by captures that are compared with each other, in which addresses must not differ.
///
/// Threads: add() in the capture, on any thread; last() on any thread.
class ProgressMarks {
 public:
  using Words = HostBuffer<std::uint32_t>;
  static constexpr std::size_t limit = 4096;  ///< of scopes

  explicit ProgressMarks(std::shared_ptr<Words> words) : words_(std::move(words)) {}
  ProgressMarks(const ProgressMarks&) = delete;
  ProgressMarks& operator=(const ProgressMarks&) = delete;

  /// Captures the node that clears the words, before all work.
  /// \throws BackendError
  void clear_on(const StreamRef& stream);
  /// Captures the node of a scope that ends on this stream. Scopes beyond the limit have none.
  /// \throws BackendError
  void add(const StreamRef& stream, const Annotation& annotation, bool in_body);

  /// The scope that was captured last among all whose words are set; nullopt if there is none.
  std::optional<Annotation> last() const;
  /// True if the address is that of a word.
  bool has(const void* address) const noexcept {
    const auto* const word = static_cast<const std::uint32_t*>(address);
    return !std::less<>{}(word, words_->data()) && std::less<>{}(word, words_->data() + words_->size());
  }
  /// Number of nodes that were captured, without those in bodies of control flow.
  std::size_t nodes() const;

 private:
  const std::shared_ptr<Words> words_;
  mutable std::mutex mutex_;  // guards the rest
  std::vector<Annotation> scopes_;
  std::size_t nodes_ = 1;
};

}  // namespace reprise::inspect
