// SPDX-License-Identifier: Apache-2.0
#include "network.h"

#include <cmath>
#include <random>

#include "kernels.h"
#include "reprise/annotations.h"
#include "reprise/kernel.h"

namespace digits {
namespace {

using reprise::Dim3;
using reprise::launch;
using reprise::LaunchConfig;
using reprise::StreamRef;

constexpr unsigned loss_threads = 256;

constexpr unsigned divide_up(std::size_t a, unsigned b) {
  return static_cast<unsigned>((a + b - 1) / b);
}

/// Threads along x for the tiles of a row of the output; blocks along y for the rows of tiles.
LaunchConfig tiles(std::size_t rows, unsigned columns, unsigned rows_of_tile, unsigned columns_of_tile) {
  constexpr unsigned threads = 32;
  LaunchConfig config;
  config.block = Dim3(threads);
  config.grid = Dim3(divide_up(divide_up(columns, columns_of_tile), threads), divide_up(rows, rows_of_tile));
  return config;
}

}  // namespace

std::vector<float> initial_parameters(std::uint64_t seed) {
  std::vector<float> values(parameter_count, 0.0F);
  std::mt19937_64 random(seed);
  for (const Layer& layer : {layer1, layer2, layer3}) {
    // The range keeps the variance of the activations the same from layer to layer.
    const float range = std::sqrt(6.0F / static_cast<float>(layer.inputs));
    for (std::size_t i = 0; i < std::size_t{layer.inputs} * layer.outputs; ++i) {
      const float from_0_to_1 = static_cast<float>(random() >> 40) * 0x1p-24F;
      values[layer.offset + i] = range * (2 * from_0_to_1 - 1);
    }
  }
  return values;
}

Activations::Activations(unsigned images)
    : rows(images),
      hidden1(std::size_t{images} * hidden),
      hidden2(std::size_t{images} * hidden),
      scores(std::size_t{images} * classes) {}

Network::Network(unsigned batch, float dropout)
    : keep_(1 - dropout),
      parameters_(parameter_count),
      gradients_(parameter_count),
      activations_(batch),
      hidden1_gradient_(activations_.hidden1.size()),
      hidden2_gradient_(activations_.hidden2.size()) {}

void Network::set_parameters(std::span<const float> values) {
  parameters_.write_async(values);
}

std::vector<float> Network::parameters() const {
  return parameters_.read();
}

void Network::forward(const float* images, Activations& activations, float keep) const {
  const reprise::annotate scope("forward");
  const auto run = [&](const Layer& layer, const float* input, float* output, bool relu) {
    launch(tiles(activations.rows, layer.outputs, tile_rows, tile_columns), Forward{}, input,
           parameters_.data() + layer.offset, output, activations.rows, layer.inputs, layer.outputs, relu);
  };
  run(layer1, images, activations.hidden1.data(), true);
  leave_out(activations.hidden1, keep);
  run(layer2, activations.hidden1.data(), activations.hidden2.data(), true);
  leave_out(activations.hidden2, keep);
  run(layer3, activations.hidden2.data(), activations.scores.data(), false);
}

void Network::leave_out(reprise::Buffer<float>& values, float keep) const {
  if (keep == 1) return;
  // A graph determines the numbers at each replay.
  launch(divide_up(values.size(), dropout_run), Dropout{}, dropout_.philox_state(dropout_run), values.data(), keep,
         values.size());
}

// The gradients of the activations are a chain, from the scores back to the first layer. The gradients of a layer's
// weights and their update can run concurrently with the following link of the chain:
//
//     current stream   scores -> hidden2 gradient -> hidden1 gradient -> weights 1 -> update 1 -> join
//     side stream            \-> weights 3 -------\-> update 3 -> weights 2 \-> update 2 ------/
//
// A layer's weights are updated only after the link that reads them.
void Network::train(const float* images, const std::uint8_t* labels, double* loss_sum, float rate,
                    const StreamRef& side) {
  const StreamRef main = reprise::current_stream();
  const unsigned batch = activations_.rows;
  forward(images, activations_, keep_);
  LaunchConfig one_block;
  one_block.block = Dim3(loss_threads);
  one_block.shared_bytes = loss_threads * sizeof(float);
  float* scores = activations_.scores.data();
  {
    const reprise::annotate scope("loss");
    launch(one_block, SoftmaxLoss{}, scores, labels, loss_sum, batch, classes);
  }

  scored_.record(main);
  side.wait(scored_);
  weight_gradient(layer3, activations_.hidden2.data(), scores, side);

  input_gradient(layer3, scores, activations_.hidden2.data(), hidden2_gradient_.data());
  hidden2_ready_.record(main);
  side.wait(hidden2_ready_);
  update(layer3, rate, side);
  weight_gradient(layer2, activations_.hidden1.data(), hidden2_gradient_.data(), side);

  input_gradient(layer2, hidden2_gradient_.data(), activations_.hidden1.data(), hidden1_gradient_.data());
  hidden1_ready_.record(main);
  side.wait(hidden1_ready_);
  update(layer2, rate, side);
  joined_.record(side);

  weight_gradient(layer1, images, hidden1_gradient_.data(), main);
  update(layer1, rate, main);
  main.wait(joined_);
}

void Network::weight_gradient(const Layer& layer, const float* input, const float* output_gradient,
                              const StreamRef& stream) {
  const reprise::annotate scope("backward");
  launch(stream, tiles(layer.inputs + 1, layer.outputs, tile_rows, tile_columns), WeightGradient{}, input,
         output_gradient, gradients_.data() + layer.offset, activations_.rows, layer.inputs, layer.outputs);
}

void Network::input_gradient(const Layer& layer, const float* output_gradient, const float* input,
                             float* gradient) const {
  const reprise::annotate scope("backward");
  launch(tiles(activations_.rows, layer.inputs, dot_rows, dot_columns), InputGradient{}, output_gradient,
         parameters_.data() + layer.offset, input, gradient, keep_, activations_.rows, layer.inputs, layer.outputs);
}

void Network::update(const Layer& layer, float rate, const StreamRef& stream) {
  const reprise::annotate scope("update");
  launch(stream, divide_up(layer.parameters(), run_length), Sgd{}, parameters_.data() + layer.offset,
         gradients_.data() + layer.offset, rate, layer.parameters());
}

}  // namespace digits
