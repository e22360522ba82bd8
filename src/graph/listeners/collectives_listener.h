// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "graph/listeners/capture_listener.h"
#include "reprise/detail/export.h"

namespace reprise::graphs {

/// A communicator whose collectives graphs contain: work that completes when other processes do theirs.
///
/// Thread-safe.
class Communicator {
 public:
  Communicator() = default;
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// This process among those that take part: "rank 1 of 4".
  virtual std::string describe() const = 0;
  /// Ends the collectives that are underway, in replays, too; later ones fail. Does nothing when called again.
  virtual void abort() noexcept = 0;
  virtual bool aborted() const noexcept = 0;
};

/// The communicators of one capture; then held by its graph, so that they outlive its launches. Each once. Thread-safe
/// during the capture.
class REPRISE_EXPORT_INTERNAL CapturedCollectives {
 public:
  using Communicators = std::vector<std::shared_ptr<Communicator>>;

  static std::shared_ptr<CapturedCollectives> of(captures::Capture& capture);
  static std::shared_ptr<CapturedCollectives> end(captures::Capture& capture) noexcept;

  /// \param uses what its collectives read and write; held as long. No memory of the graph's own pool.
  void add(std::shared_ptr<Communicator> communicator, std::shared_ptr<void> uses);
  /// To be called once the capture is over.
  const Communicators& all() const noexcept { return all_; }

 private:
  std::mutex mutex_;
  Communicators all_;
  std::vector<std::shared_ptr<void>> used_;
};

/// Collectives in the graph: it holds their communicators, can abort them, and is not replayed afterwards.
class CollectivesListener final : public ListenerOf<CollectivesListener> {
 public:
  void ended(captures::Capture& capture, CapturedGraph& graph) override;
  void abandoned(captures::Capture& capture) noexcept override {
    CapturedCollectives::end(capture);
    reset();
  }
  void added_as_child(const captures::ChildNode& child) override;
  /// \throws UsageError if a communicator was aborted.
  void before_replay(const StreamRef& stream) override;
  std::function<void()> adopt_from(const CollectivesListener& other, Adoption& /*adoption*/) override {
    return [this, theirs = other.collectives_] { collectives_ = theirs; };
  }
  void reset() noexcept override { collectives_.reset(); }

  /// Null if the graph has none.
  std::shared_ptr<CapturedCollectives> collectives() const noexcept { return collectives_.lock(); }

 private:
  std::weak_ptr<CapturedCollectives> collectives_;  // the resources of the graph hold it
};

}  // namespace reprise::graphs
