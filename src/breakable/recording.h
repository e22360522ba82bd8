// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/objects/outside_work.h"
#include "backend/objects/tracked_stream.h"
#include "breakable/breaks.h"
#include "breakable/forks.h"
#include "memory/lifetime/last_launch.h"
#include "memory/watches/block_watch.h"
#include "reprise/capture_options.h"
#include "reprise/graph.h"
#include "reprise/stream.h"

namespace reprise::breakables {

/// Settings for the capture of a body with eager parts.
struct RecordingPlan {
  const char* call;      ///< the user's, for errors
  GraphOptions options;  ///< of each segment; `pool` is set
  StreamRef captured;
  /// The stream on which segments are replayed at once; nullopt: eager parts are refused, as nothing may take effect.
  std::optional<StreamRef> run = {};
  /// The stream that was current before: work that the body submits to it is refused, unless it is the captured one.
  std::optional<StreamRef> outside = {};
  /// The frame of the call that runs the body, whose locals lie below it; null if it is not known.
  const void* frame = nullptr;
  bool instantiate = true;
  /// The stream of the capture is no stream of the user's: an eager part must not use it.
  bool captured_is_internal = true;
  std::function<void()> before_first_run = {};
};

/// A capture of a body with eager parts.
///
///     made -> begin() -> [run_part() ...] -> end()
///
/// While the segment is captured, `last` has it; at each call of eager() it becomes one of the breaks. The stream that
/// is captured must be current from begin() to end(). Where something fails, no capture is underway any more; end()
/// throws the first error again, if the body has not. Destroyed before end(), it abandons the capture; segments before
/// stay.
///
/// Used on one thread, whose current one it is meanwhile, unless a function of an eager part runs.
class Recording {
 public:
  /// The last segment, the breaks and the order of launches are the caller's.
  Recording(CUDAGraph& last, Breaks& breaks, memory::LastLaunch& last_launch, RecordingPlan plan);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /// The recording of the calling thread; null if it captures nothing, or without eager parts, or is in one.
  static Recording* current() noexcept;
  /// While it lives, the thread is in no recording.
  class Suspended;

  /// Begins the next segment. The owner begins the first one.
  void begin();
  /// Implements eager(). \throws as eager().
  void run_part(std::unique_ptr<eager_detail::Function> function);
  /// In the handler of an exception of an eager part: abandons the capture, and keeps the exception for end().
  void fail_part() noexcept;
  /// Ends the last segment, without replaying it, and copies the results of the last eager part to where it reads them.
  /// \throws as capture_end(); the first error of run_part().
  void end();
  void abandon() noexcept;

  bool has_run() const noexcept { return has_run_; }        ///< a segment or an eager part has taken effect
  bool part_threw() const noexcept { return part_threw_; }  ///< the error is that of an eager part's function
  /// Work of the body was refused because of its stream.
  bool refused_outside() const noexcept { return refused_outside_; }
  bool refused() const noexcept { return refused_; }  ///< an eager part, because of RecordingPlan::run
  bool last_has_nodes() const noexcept { return last_has_nodes_; }
  std::size_t nodes() const noexcept { return nodes_; }  ///< of all segments that have ended

 private:
  /// A stream that was forked off in an earlier segment. Null `tracked`: a foreign one, whose end is not notified.
  struct Fork {
    StreamRef stream;
    std::shared_ptr<backend::TrackedStream> tracked;

    bool has_ended() const noexcept { return tracked != nullptr && !tracked->is(stream); }
  };

  void require_here() const;
  void refuse_outside();
  void allow_outside() noexcept;
  void require_lasting(const eager_detail::Function& function) const;
  std::size_t end_segment(bool is_last);
  void end_capture();
  void require_live() const;
  void run_segment_before();
  std::string segment_name(std::size_t number) const;

  CUDAGraph& last_;
  Breaks& breaks_;
  memory::LastLaunch& last_launch_;
  const RecordingPlan plan_;
  const std::string name_ = plan_.options.name;
  Recording* const before_;
  std::shared_ptr<Forks> forks_;                 // of the segment
  std::vector<Fork> forks_before_;               // of earlier segments, which captured what the body submitted to them
  std::optional<backend::OutsideWork> outside_;  // of the segment
  const memory::FreeLog frees_;                  // in all segments and eager parts
  std::exception_ptr failure_;
  bool capturing_ = false;
  bool has_run_ = false;
  bool refused_outside_ = false;
  bool part_threw_ = false;
  bool refused_ = false;
  bool last_has_nodes_ = false;
  bool results_pending_ = false;  // of the last break
  std::size_t nodes_ = 0;
};

class Recording::Suspended {
 public:
  Suspended() noexcept;
  ~Suspended();
  Suspended(const Suspended&) = delete;
  Suspended& operator=(const Suspended&) = delete;

 private:
  Recording* const before_;
};

}  // namespace reprise::breakables
