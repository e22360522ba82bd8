// SPDX-License-Identifier: Apache-2.0
#include "solver.h"

#include <array>
#include <cmath>

#include "reprise/kernel.h"

namespace conjugate_gradient {

namespace {

using reprise::reads;
using reprise::Thread;
using reprise::writes;

/// The residual of u = 0 is the right side, and the first direction.
struct Start {
  REPRISE_KERNEL void operator()(Thread t, double* u, double* residual, double* direction, std::size_t points) const {
    const std::size_t i = t.global_x();
    if (i >= points) return;
    u[i] = 0;
    residual[i] = direction[i] = 1;
  }
  static auto accesses(double* u, double* residual, double* direction, std::size_t points) {
    return std::array{writes(u, points), writes(residual, points), writes(direction, points)};
  }
};

/// image = A direction: four times each value, less its neighbours.
struct ApplyLaplace {
  REPRISE_KERNEL void operator()(Thread t, const double* direction, double* image, std::size_t side) const {
    const std::size_t i = t.global_x();
    if (i >= side * side) return;
    const std::size_t row = i / side, column = i % side;
    double value = 4 * direction[i];
    if (row > 0) value -= direction[i - side];
    if (row + 1 < side) value -= direction[i + side];
    if (column > 0) value -= direction[i - 1];
    if (column + 1 < side) value -= direction[i + 1];
    image[i] = value;
  }
  static auto accesses(const double* direction, double* image, std::size_t side) {
    return std::array{reads(direction, side * side), writes(image, side * side)};
  }
};

/// rows[i] = the products of row i, added from left to right.
struct DotRows {
  REPRISE_KERNEL void operator()(Thread t, const double* a, const double* b, double* rows, std::size_t side) const {
    const std::size_t row = t.global_x();
    if (row >= side) return;
    double sum = 0;
    for (std::size_t i = row * side; i < (row + 1) * side; ++i) sum += a[i] * b[i];
    rows[row] = sum;
  }
  static auto accesses(const double* a, const double* b, double* rows, std::size_t side) {
    return std::array{reads(a, side * side), reads(b, side * side), writes(rows, side)};
  }
};

REPRISE_KERNEL inline double sum_of(const double* rows, std::size_t side) {
  double sum = 0;
  for (std::size_t i = 0; i < side; ++i) sum += rows[i];
  return sum;
}

/// One thread: the norm of the first residual.
struct Begin {
  REPRISE_KERNEL void operator()(Thread, State* state, const double* rows, double* squares, std::size_t side,
                                 double tolerance, std::uint32_t limit) const {
    *state = {};
    state->square = squares[0] = sum_of(rows, side);
    state->target = tolerance * tolerance * state->square;
    state->limit = limit;
    state->go_on = state->square > state->target && limit > 0 ? 1 : 0;
  }
  static auto accesses(State* state, const double* rows, double* squares, std::size_t side, double, std::uint32_t) {
    return std::array{writes(state, 1), reads(rows, side), writes(squares, 1)};
  }
};

/// One thread: how far to go.
struct ChooseStep {
  REPRISE_KERNEL void operator()(Thread, State* state, const double* rows, std::size_t side) const {
    state->alpha = state->square / sum_of(rows, side);
  }
  static auto accesses(State* state, const double* rows, std::size_t side) {
    return std::array{reads(state, 1), writes(state, 1), reads(rows, side)};
  }
};

struct Advance {
  REPRISE_KERNEL void operator()(Thread t, const State* state, double* u, double* residual, const double* direction,
                                 const double* image, std::size_t points) const {
    const std::size_t i = t.global_x();
    if (i >= points) return;
    u[i] += state->alpha * direction[i];
    residual[i] -= state->alpha * image[i];
  }
  static auto accesses(const State* state, double* u, double* residual, const double* direction, const double* image,
                       std::size_t points) {
    return std::array{reads(state, 1),          reads(u, points),         writes(u, points),   reads(residual, points),
                      writes(residual, points), reads(direction, points), reads(image, points)};
  }
};

/// One thread: whether that was enough.
struct Finish {
  REPRISE_KERNEL void operator()(Thread, State* state, const double* rows, double* squares, std::size_t side) const {
    const double square = sum_of(rows, side);
    state->beta = square / state->square;
    state->square = square;
    squares[++state->iterations] = square;
    if (square <= state->target || state->iterations >= state->limit) state->go_on = 0;
  }
  static auto accesses(State* state, const double* rows, double* squares, std::size_t side) {
    return std::array{reads(state, 1), writes(state, 1), reads(rows, side), writes(squares, 1)};
  }
};

struct Turn {
  REPRISE_KERNEL void operator()(Thread t, const State* state, const double* residual, double* direction,
                                 std::size_t points) const {
    const std::size_t i = t.global_x();
    if (i < points) direction[i] = residual[i] + state->beta * direction[i];
  }
  static auto accesses(const State* state, const double* residual, double* direction, std::size_t points) {
    return std::array{reads(state, 1), reads(residual, points), reads(direction, points), writes(direction, points)};
  }
};

}  // namespace

Solver::Solver(std::size_t side, double tolerance, std::uint32_t limit)
    : side_(side),
      tolerance_(tolerance),
      limit_(limit),
      state_(1),
      u_(side * side),
      residual_(side * side),
      direction_(side * side),
      image_(side * side),
      rows_(side),
      squares_(std::size_t{limit} + 1),
      answer_(1) {}

void Solver::dot(const reprise::Buffer<double>& a, const reprise::Buffer<double>& b, const reprise::StreamRef& stream) {
  reprise::launch(stream, side_, DotRows{}, a.data(), b.data(), rows_.data(), side_);
}

void Solver::start(const reprise::StreamRef& stream) {
  const std::size_t points = side_ * side_;
  reprise::launch(stream, points, Start{}, u_.data(), residual_.data(), direction_.data(), points);
  dot(residual_, residual_, stream);
  reprise::launch(stream, reprise::LaunchConfig{}, Begin{}, state_.data(), rows_.data(), squares_.data(), side_,
                  tolerance_, limit_);
}

void Solver::iterate(const reprise::StreamRef& stream) {
  const std::size_t points = side_ * side_;
  const reprise::LaunchConfig one_thread;
  reprise::launch(stream, points, ApplyLaplace{}, direction_.data(), image_.data(), side_);
  dot(direction_, image_, stream);
  reprise::launch(stream, one_thread, ChooseStep{}, state_.data(), rows_.data(), side_);
  reprise::launch(stream, points, Advance{}, state_.data(), u_.data(), residual_.data(), direction_.data(),
                  image_.data(), points);
  dot(residual_, residual_, stream);
  reprise::launch(stream, one_thread, Finish{}, state_.data(), rows_.data(), squares_.data(), side_);
  reprise::launch(stream, points, Turn{}, state_.data(), residual_.data(), direction_.data(), points);
}

bool Solver::goes_on(const reprise::StreamRef& stream) {
  reprise::copy_async(answer_.data(), go_on(), sizeof(std::uint32_t), stream);
  stream.synchronize();
  return *answer_.data() != 0;
}

std::vector<double> Solver::residuals(const reprise::StreamRef& stream) const {
  std::vector<double> norms = squares_.read(stream);
  norms.resize(state(stream).iterations + 1);
  for (double& norm : norms) norm = std::sqrt(norm);
  return norms;
}

}  // namespace conjugate_gradient
