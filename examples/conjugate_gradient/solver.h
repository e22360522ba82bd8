// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reprise/memory.h"
#include "reprise/stream.h"

namespace conjugate_gradient {

/// What the kernels of one solution share, in device memory.
struct State {
  double square = 0;             ///< of the residual's norm
  double target = 0;             ///< at which the solution is good enough
  double alpha = 0, beta = 0;    ///< lengths of the next steps
  std::uint32_t iterations = 0;  ///< done
  std::uint32_t go_on = 0;       ///< 0: the solution is good enough, or there were as many iterations as there may be
  std::uint32_t limit = 0;       ///< the most iterations
};

/// Solves Poisson's equation on a square with the method of conjugate gradients: -u_xx - u_yy = 1 inside, u = 0 on the
/// edge, on a grid of `side` times `side` points. All sums are made in a fixed order, so that every way to run the
/// iterations has the same result, to the last bit.
class Solver {
 public:
  /// \param tolerance of the residual's norm, relative to its first one.
  Solver(std::size_t side, double tolerance, std::uint32_t limit);

  /// Submits the work before the first iteration to the stream, to run or to be captured; so below.
  void start(const reprise::StreamRef& stream);
  void iterate(const reprise::StreamRef& stream);

  /// Device memory that is not zero as long as the iteration must go on.
  const std::uint32_t* go_on() const noexcept { return &state_.data()->go_on; }
  /// Reads it, after the work of the stream.
  bool goes_on(const reprise::StreamRef& stream);

  /// The following wait for the work of the stream.
  State state(const reprise::StreamRef& stream) const { return state_.read(stream).front(); }
  std::vector<double> solution(const reprise::StreamRef& stream) const { return u_.read(stream); }
  /// The norm of the residual before each iteration and after the last one.
  std::vector<double> residuals(const reprise::StreamRef& stream) const;

 private:
  void dot(const reprise::Buffer<double>& a, const reprise::Buffer<double>& b, const reprise::StreamRef& stream);

  const std::size_t side_;
  const double tolerance_;
  const std::uint32_t limit_;
  reprise::Buffer<State> state_;
  reprise::Buffer<double> u_, residual_, direction_, image_;  // of each point
  reprise::Buffer<double> rows_;                              // sums of a row each
  reprise::Buffer<double> squares_;                           // of the residual, after each iteration
  reprise::HostBuffer<std::uint32_t> answer_;
};

}  // namespace conjugate_gradient
