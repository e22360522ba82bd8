// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "dataset.h"
#include "reprise/event.h"
#include "reprise/memory.h"
#include "reprise/random.h"
#include "reprise/stream.h"

namespace digits {

/// A fully connected layer, and the place of its weights in the parameters of the network: `inputs` + 1 rows of
/// `outputs` values, the last row being the bias.
struct Layer {
  unsigned inputs;
  unsigned outputs;
  std::size_t offset;

  constexpr std::size_t parameters() const { return std::size_t{inputs + 1} * outputs; }
  constexpr std::size_t end() const { return offset + parameters(); }
};

inline constexpr unsigned hidden = 256;
inline constexpr Layer layer1{pixels_per_image, hidden, 0};
inline constexpr Layer layer2{hidden, hidden, layer1.end()};
inline constexpr Layer layer3{hidden, classes, layer2.end()};
inline constexpr std::size_t parameter_count = layer3.end();

/// Random weights and zero biases, the same for the same seed on every machine.
std::vector<float> initial_parameters(std::uint64_t seed);

/// The activations of the layers for a number of images, in device memory.
struct Activations {
  explicit Activations(unsigned images);

  unsigned rows;
  reprise::Buffer<float> hidden1, hidden2;
  reprise::Buffer<float> scores;
};

/// The network on a device. Its functions submit work to the current stream, and neither allocate nor wait, so that
/// they can be captured. One thread at a time.
class Network {
 public:
  /// For training with `batch` images a step, in which each value of the hidden layers is left out with probability
  /// `dropout`.
  Network(unsigned batch, float dropout);

  void set_parameters(std::span<const float> values);
  std::vector<float> parameters() const;
  /// Sets the seed of dropout.
  void seed_dropout(std::uint64_t seed) { dropout_.set_current_seed(seed); }

  /// Computes the scores of the classes for as many images as `activations` has rows.
  void forward(const float* images, Activations& activations) const { forward(images, activations, 1); }

  /// Forward, backward and a step of gradient descent. Adds the loss of the batch, summed over the images, to
  /// `*loss_sum`. Part of the work is forked to `side`, and joined again.
  void train(const float* images, const std::uint8_t* labels, double* loss_sum, float rate,
             const reprise::StreamRef& side);

 private:
  void forward(const float* images, Activations& activations, float keep) const;
  void leave_out(reprise::Buffer<float>& values, float keep) const;
  void weight_gradient(const Layer& layer, const float* input, const float* output_gradient,
                       const reprise::StreamRef& stream);
  void input_gradient(const Layer& layer, const float* output_gradient, const float* input, float* gradient) const;
  void update(const Layer& layer, float rate, const reprise::StreamRef& stream);

  float keep_;  // probability that a value stays
  reprise::Generator dropout_;
  reprise::Buffer<float> parameters_, gradients_;
  Activations activations_;
  reprise::Buffer<float> hidden1_gradient_, hidden2_gradient_;
  // Points of the step at which one stream waits for the other; see train().
  reprise::Event scored_, hidden2_ready_, hidden1_ready_, joined_;
};

}  // namespace digits
