// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "tests/differential/pieces.h"

// Control flow of random programs, and of the sources that are printed of them: nodes in a capture, and eagerly what
// the host does that reads the same condition.

namespace reprise::differential {

/// The number of words of device memory for the condition of one operation.
inline constexpr std::size_t words_of_condition = 2;

/// *condition follows from *in; less than `conditions`. A value that is larger by one gives the next condition. The
/// word behind it keeps the first one of a loop.
struct Choose {
  REPRISE_KERNEL void operator()(Thread, Word* condition, const Word* in, Word value, Word conditions) const {
    condition[0] = condition[1] = ((*in * 0x9E3779B1U >> 20) + value % conditions) % conditions;
  }
  static auto accesses(Word* condition, const Word* in, Word, Word) {
    return std::array{reads(in, 1), writes(condition, words_of_condition)};
  }
};

/// At the end of an iteration, whose number is null in an eager run. A wrong number ends the loop too early.
struct CountDown {
  REPRISE_KERNEL void operator()(Thread, Word* condition, const Word* iteration) const {
    const bool right = iteration == nullptr || *iteration == condition[1] - condition[0];
    condition[0] = right ? condition[0] - 1 : 0;
  }
  static auto accesses(Word* condition, const Word* iteration) {
    return std::array{reads(condition, words_of_condition), writes(condition, 1),
                      reads(iteration, iteration != nullptr ? 1 : 0)};
  }
};

/// A body of control flow.
struct FlowBody {
  std::function<void(const StreamRef&)> run;
  Draws draws = {};  ///< how often it draws random numbers
};

/// One operation of control flow on a stream, whose condition is chosen from the value at an address.
class Flow {
 public:
  /// Where it is: the words of device memory for its condition, and the generators of its device.
  struct Place {
    bool capturing;
    Word* condition;
    const Generator* generators;
  };

  Flow(const StreamRef& stream, const Place& place, const Word* in, Word value, Word conditions)
      : stream_(stream), place_(place) {
    launch(stream, LaunchConfig{}, Choose{}, place.condition, in, value, conditions);
  }

  void if_(const FlowBody& body) const {
    if (place_.capturing) return reprise::if_(stream_, place_.condition, body.run);
    run_one({body}, read() != 0 ? 0 : 1);
  }

  void if_else(const FlowBody& body, const FlowBody& otherwise) const {
    if (place_.capturing) return reprise::if_else(stream_, place_.condition, body.run, otherwise.run);
    run_one({body, otherwise}, read() != 0 ? 0 : 1);
  }

  void switch_(const std::vector<FlowBody>& bodies) const {
    if (!place_.capturing) return run_one(bodies, read());
    std::vector<CaptureBody> captured;
    for (const FlowBody& each : bodies) captured.emplace_back(each.run);
    reprise::switch_(stream_, place_.condition, captured);
  }

  /// The body as often as the condition says.
  /// \param limit LoopOptions::max_iterations
  void while_(const FlowBody& body, Word limit) const {
    const auto iteration = [&](const StreamRef& stream, const Word* number) {
      body.run(stream);
      launch(stream, LaunchConfig{}, CountDown{}, place_.condition, number);
    };
    if (place_.capturing) {
      (void)reprise::while_(stream_, place_.condition,
                            [&](const StreamRef& stream, const Loop& loop) { iteration(stream, loop.iterations()); },
                            {.max_iterations = limit});
      return;
    }
    Word count = 0;
    for (; (limit == 0 || count < limit) && read() != 0; ++count) iteration(stream_, nullptr);
    for (; count < limit; ++count) draw_without(body);
  }

 private:
  Word read() const {
    Word condition = 0;
    copy_async(&condition, place_.condition, sizeof(condition), stream_);
    stream_.synchronize();
    return condition;
  }

  void run_one(const std::vector<FlowBody>& bodies, std::size_t chosen) const {
    for (std::size_t i = 0; i < bodies.size(); ++i)
      if (i == chosen)
        bodies[i].run(stream_);
      else
        draw_without(bodies[i]);
  }

  /// The numbers of a body that does not run count as drawn.
  void draw_without(const FlowBody& body) const {
    for (std::size_t g = 0; g < body.draws.size(); ++g)
      for (unsigned i = 0; i < body.draws[g]; ++i) (void)place_.generators[g].philox_state(drawn, stream_);
  }

  StreamRef stream_;
  Place place_;
};

}  // namespace reprise::differential
