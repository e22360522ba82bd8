// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "float4.h"
#include "reprise/kernel.h"
#include "reprise/philox.h"

// The kernels of the training step, written once for the host device and for CUDA.
//
// Matrices are row-major. A layer's weights are a matrix of `inputs` + 1 rows and `outputs` columns: the last row is
// the bias, as if every input had one more value that is always one.
//
// Each output value is computed by one thread in a fixed order, and no two threads add to the same float. So the
// results do not depend on the scheduling of threads, and training is bitwise reproducible on a given device.
//
// A thread computes a small tile of the output instead of one value: its sums stay in registers, and each value that is
// loaded serves the whole tile.
//
// Each kernel declares its memory (accesses) for the race check of the host device: REPRISE_HOST_RACES=1.

namespace digits {

/// Rows and columns of the tile that a thread computes where the sums run down the columns.
inline constexpr unsigned tile_rows = 4, tile_columns = 8;
/// The same where the sums run along the rows (InputGradient).
inline constexpr unsigned dot_rows = 2, dot_columns = 4;
/// Neighbouring values that a thread of Sgd handles.
inline constexpr unsigned run_length = 8;
/// Values that a thread of Dropout handles: as many as Philox makes numbers at a time.
inline constexpr unsigned dropout_run = 4;

inline namespace REPRISE_KERNEL_ABI {

/// The sums of a tile: sum over k of left(r, k) * right(k, c), for `tile_rows` rows and `tile_columns` columns.
struct Tile {
  static constexpr unsigned vectors = tile_columns / 4;
  Float4 sum[tile_rows][vectors];

  /// Every row starts from the same values.
  REPRISE_KERNEL explicit Tile(const float* row) {
    for (auto& sums : sum)
      for (std::size_t v = 0; v < vectors; ++v) sums[v] = Float4::load(row + 4 * v);
  }
  /// `left` is addressed by two strides, so that it can be a transposed matrix.
  REPRISE_KERNEL void add_products(const float* left, std::size_t row_stride, std::size_t k_stride, const float* right,
                                   std::size_t right_stride, unsigned count) {
    for (unsigned k = 0; k < count; ++k) {
      Float4 values[vectors];
      for (std::size_t v = 0; v < vectors; ++v) values[v] = Float4::load(right + k * right_stride + 4 * v);
      for (unsigned r = 0; r < tile_rows; ++r) {
        const Float4 factor = Float4::all(left[r * row_stride + k * k_stride]);
        for (unsigned v = 0; v < vectors; ++v) sum[r][v].add_product(factor, values[v]);
      }
    }
  }
  REPRISE_KERNEL void store(float* to, std::size_t stride) const {
    for (unsigned r = 0; r < tile_rows; ++r)
      for (std::size_t v = 0; v < vectors; ++v) sum[r][v].store(to + r * stride + 4 * v);
  }
};

/// One value of such a product, for tiles that stick out over the edge of the matrix.
REPRISE_KERNEL inline float dot(const float* left, std::size_t left_stride, const float* right,
                                std::size_t right_stride, unsigned count, float sum) {
  for (unsigned k = 0; k < count; ++k) sum += left[k * left_stride] * right[k * right_stride];
  return sum;
}

/// Collects the images and labels of batch number `*step` of the epoch. One thread a pixel.
struct GatherBatch {
  REPRISE_KERNEL void operator()(reprise::Thread t, const float* images, const std::uint8_t* labels,
                                 const std::uint32_t* order, const std::uint32_t* step, float* batch_images,
                                 std::uint8_t* batch_labels, unsigned batch, unsigned pixels) const {
    const std::size_t row = t.global_x() / pixels, pixel = t.global_x() % pixels;
    if (row >= batch) return;
    const std::size_t image = order[std::size_t{*step} * batch + row];
    batch_images[row * pixels + pixel] = images[image * pixels + pixel];
    if (pixel == 0) batch_labels[row] = labels[image];
  }

  static auto accesses(const float* images, const std::uint8_t*, const std::uint32_t*, const std::uint32_t* step,
                       float* batch_images, std::uint8_t* batch_labels, unsigned batch, unsigned pixels) {
    // The images read depend on values in device memory; nothing writes them.
    return std::array{reprise::reads(images, 1), reprise::reads(step, 1),
                      reprise::writes(batch_images, std::size_t{batch} * pixels), reprise::writes(batch_labels, batch)};
  }
};

/// output = input * weights + bias, negative values replaced by zero if `relu`. One thread a tile: x counts tiles of
/// columns, y tiles of rows.
struct Forward {
  REPRISE_KERNEL void operator()(reprise::Thread t, const float* input, const float* weights, float* output,
                                 unsigned rows, unsigned inputs, unsigned outputs, bool relu) const {
    const std::size_t row = t.global_y() * tile_rows, column = t.global_x() * tile_columns;
    if (row >= rows || column >= outputs) return;
    const float* bias = weights + std::size_t{inputs} * outputs;
    if (row + tile_rows <= rows && column + tile_columns <= outputs) {
      Tile tile(bias + column);
      tile.add_products(input + row * inputs, inputs, 1, weights + column, outputs, inputs);
      float* to = output + row * outputs + column;
      tile.store(to, outputs);
      for (unsigned r = 0; relu && r < tile_rows; ++r)
        for (unsigned c = 0; c < tile_columns; ++c) to[r * outputs + c] = positive(to[r * outputs + c]);
      return;
    }
    for (std::size_t r = row; r < rows && r < row + tile_rows; ++r)
      for (std::size_t c = column; c < outputs && c < column + tile_columns; ++c) {
        const float sum = dot(input + r * inputs, 1, weights + c, outputs, inputs, bias[c]);
        output[r * outputs + c] = relu ? positive(sum) : sum;
      }
  }

  static auto accesses(const float* input, const float* weights, float* output, unsigned rows, unsigned inputs,
                       unsigned outputs, bool) {
    return std::array{reprise::reads(input, std::size_t{rows} * inputs),
                      reprise::reads(weights, (std::size_t{inputs} + 1) * outputs),
                      reprise::writes(output, std::size_t{rows} * outputs)};
  }

 private:
  REPRISE_KERNEL static float positive(float value) { return value < 0 ? 0 : value; }
};

/// Keeps each value with probability `keep`, divided by it, and replaces the others by zero. One thread for
/// `dropout_run` values, each with a random number of its own.
struct Dropout {
  REPRISE_KERNEL void operator()(reprise::Thread t, reprise::PhiloxState state, float* values, float keep,
                                 std::size_t count) const {
    const std::size_t first = t.global_x() * dropout_run;
    if (first >= count) return;
    reprise::Philox philox(state, t.global_x());
    for (std::size_t i = first; i < count && i < first + dropout_run; ++i)
      values[i] = philox.uniform() <= keep ? values[i] / keep : 0;
  }

  static auto accesses(const reprise::PhiloxState& state, float* values, float, std::size_t count) {
    return std::array{state.access(), reprise::writes(values, count)};
  }
};

/// Softmax and cross-entropy of a batch: adds the batch's summed loss to `*loss_sum`, and replaces the scores by the
/// gradient of the mean loss. One block; `shared_bytes` for a float a thread.
struct SoftmaxLoss {
  REPRISE_KERNEL void operator()(reprise::Block& block, float* scores, const std::uint8_t* labels, double* loss_sum,
                                 unsigned batch, unsigned classes) const {
    float* losses = block.shared<float>(block.size());
    block.for_each_thread([&](reprise::Thread t) {
      float loss = 0;
      for (unsigned row = t.rank(); row < batch; row += block.size())
        loss += gradient_of_row(scores + std::size_t{row} * classes, classes, labels[row], batch);
      losses[t.rank()] = loss;
    });
    block.for_each_thread([&](reprise::Thread t) {
      if (t.rank() != 0) return;
      double sum = 0;
      for (unsigned i = 0; i < block.size(); ++i) sum += static_cast<double>(losses[i]);
      *loss_sum += sum;
    });
  }
  static auto accesses(float* scores, const std::uint8_t* labels, double* loss_sum, unsigned batch, unsigned classes) {
    return std::array{reprise::writes(scores, std::size_t{batch} * classes), reprise::reads(labels, batch),
                      reprise::writes(loss_sum, 1)};
  }

 private:
  REPRISE_KERNEL static float gradient_of_row(float* row, unsigned classes, unsigned label, unsigned batch) {
    float largest = row[0];
    for (unsigned c = 1; c < classes; ++c) largest = row[c] > largest ? row[c] : largest;
    const float shifted = row[label] - largest;
    float sum = 0;
    for (unsigned c = 0; c < classes; ++c) {
      row[c] = std::exp(row[c] - largest);
      sum += row[c];
    }
    const float scale = 1 / (sum * static_cast<float>(batch));
    for (unsigned c = 0; c < classes; ++c) row[c] *= scale;
    row[label] -= 1 / static_cast<float>(batch);
    return std::log(sum) - shifted;
  }
};

/// Gradient of a layer's weights: input^T * output_gradient, and the sum of output_gradient's rows for the bias. One
/// thread a tile: x counts tiles of columns; y tiles of rows, and one more for the bias.
struct WeightGradient {
  REPRISE_KERNEL void operator()(reprise::Thread t, const float* input, const float* output_gradient, float* gradient,
                                 unsigned batch, unsigned inputs, unsigned outputs) const {
    const std::size_t row = t.global_y() * tile_rows, column = t.global_x() * tile_columns;
    if (row > inputs || column >= outputs) return;
    if (row + tile_rows <= inputs && column + tile_columns <= outputs) {
      const float zeros[tile_columns] = {};
      Tile tile(zeros);
      tile.add_products(input + row, 1, inputs, output_gradient + column, outputs, batch);
      tile.store(gradient + row * outputs + column, outputs);
      return;
    }
    const float one = 1;
    for (std::size_t r = row; r <= inputs && r < row + tile_rows; ++r)
      for (std::size_t c = column; c < outputs && c < column + tile_columns; ++c)
        gradient[r * outputs + c] = r < inputs ? dot(input + r, inputs, output_gradient + c, outputs, batch, 0)
                                               : dot(&one, 0, output_gradient + c, outputs, batch, 0);
  }

  static auto accesses(const float* input, const float* output_gradient, float* gradient, unsigned batch,
                       unsigned inputs, unsigned outputs) {
    return std::array{reprise::reads(input, std::size_t{batch} * inputs),
                      reprise::reads(output_gradient, std::size_t{batch} * outputs),
                      reprise::writes(gradient, (std::size_t{inputs} + 1) * outputs)};
  }
};

/// Gradient of a layer's inputs, where the inputs are outputs of a relu and of Dropout: output_gradient * weights^T /
/// keep, zero where the input is not positive. One thread a tile of `dot_rows` times `dot_columns`, as in Forward.
struct InputGradient {
  REPRISE_KERNEL void operator()(reprise::Thread t, const float* output_gradient, const float* weights,
                                 const float* input, float* gradient, float keep, unsigned batch, unsigned inputs,
                                 unsigned outputs) const {
    const std::size_t row = t.global_y() * dot_rows, column = t.global_x() * dot_columns;
    if (row >= batch || column >= inputs) return;
    if (row + dot_rows <= batch && column + dot_columns <= inputs) {
      tile(output_gradient + row * outputs, weights + column * outputs, input + row * inputs + column,
           gradient + row * inputs + column, keep, inputs, outputs);
      return;
    }
    for (std::size_t r = row; r < batch && r < row + dot_rows; ++r)
      for (std::size_t c = column; c < inputs && c < column + dot_columns; ++c) {
        const float sum = dot(output_gradient + r * outputs, 1, weights + c * outputs, 1, outputs, 0);
        gradient[r * inputs + c] = input[r * inputs + c] > 0 ? sum / keep : 0;
      }
  }

  static auto accesses(const float* output_gradient, const float* weights, const float* input, float* gradient, float,
                       unsigned batch, unsigned inputs, unsigned outputs) {
    return std::array{reprise::reads(output_gradient, std::size_t{batch} * outputs),
                      reprise::reads(weights, std::size_t{inputs} * outputs),
                      reprise::reads(input, std::size_t{batch} * inputs),
                      reprise::writes(gradient, std::size_t{batch} * inputs)};
  }

 private:
  REPRISE_KERNEL static void tile(const float* output_gradient, const float* weights, const float* input,
                                  float* gradient, float keep, std::size_t inputs, unsigned outputs) {
    const float zeros[4] = {};
    Float4 sum[dot_rows][dot_columns];
    for (auto& row : sum)
      for (Float4& value : row) value = Float4::load(zeros);
    const unsigned whole = outputs / 4 * 4;
    for (unsigned k = 0; k < whole; k += 4)
      for (unsigned r = 0; r < dot_rows; ++r) {
        const Float4 factors = Float4::load(output_gradient + r * std::size_t{outputs} + k);
        for (unsigned c = 0; c < dot_columns; ++c)
          sum[r][c].add_product(factors, Float4::load(weights + c * std::size_t{outputs} + k));
      }
    for (unsigned r = 0; r < dot_rows; ++r)
      for (unsigned c = 0; c < dot_columns; ++c) {
        const float total = dot(output_gradient + r * std::size_t{outputs} + whole, 1,
                                weights + c * std::size_t{outputs} + whole, 1, outputs - whole, sum[r][c].sum());
        gradient[r * inputs + c] = input[r * inputs + c] > 0 ? total / keep : 0;
      }
  }
};

/// weights -= rate * gradient. One thread for `run_length` values.
struct Sgd {
  REPRISE_KERNEL void operator()(reprise::Thread t, float* weights, const float* gradient, float rate,
                                 std::size_t count) const {
    const std::size_t first = t.global_x() * run_length;
    if (first + run_length <= count) {
      float updated[run_length];
      for (unsigned i = 0; i < run_length; ++i) updated[i] = weights[first + i] - rate * gradient[first + i];
      for (unsigned i = 0; i < run_length; ++i) weights[first + i] = updated[i];
      return;
    }
    for (std::size_t i = first; i < count; ++i) weights[i] -= rate * gradient[i];
  }

  static auto accesses(float* weights, const float* gradient, float, std::size_t count) {
    return std::array{reprise::reads(gradient, count), reprise::writes(weights, count)};
  }
};

/// The next GatherBatch takes the next batch, after the last of an epoch the first. One thread.
struct AdvanceStep {
  REPRISE_KERNEL void operator()(reprise::Thread t, std::uint32_t* step, std::uint32_t steps) const {
    if (t.global_x() == 0) *step = (*step + 1) % steps;
  }

  static auto accesses(std::uint32_t* step, std::uint32_t) { return std::array{reprise::writes(step, 1)}; }
};

/// Adds to `*correct` how many rows have their highest score at their label. One thread a row.
struct CountCorrect {
  REPRISE_KERNEL void operator()(reprise::Thread t, const float* scores, const std::uint8_t* labels,
                                 std::uint32_t* correct, unsigned rows, unsigned classes) const {
    if (t.global_x() >= rows) return;
    const float* row = scores + t.global_x() * classes;
    unsigned best = 0;
    for (unsigned c = 1; c < classes; ++c) best = row[c] > row[best] ? c : best;
    if (best == labels[t.global_x()]) reprise::atomic_add(correct, std::uint32_t{1});
  }

  static auto accesses(const float* scores, const std::uint8_t* labels, std::uint32_t* correct, unsigned rows,
                       unsigned classes) {
    return std::array{reprise::reads(scores, std::size_t{rows} * classes), reprise::reads(labels, rows),
                      reprise::writes(correct, 1)};
  }
};

}  // namespace REPRISE_KERNEL_ABI
}  // namespace digits
