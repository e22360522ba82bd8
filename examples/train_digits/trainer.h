// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "dataset.h"
#include "network.h"
#include "reprise/memory.h"
#include "reprise/stream.h"

namespace digits {

/// The results of a training run.
struct Run {
  std::vector<float> parameters;
  double loss = 0;            ///< mean over the images of the last epoch
  double accuracy = 0;        ///< on the held-out images, from 0 to 1
  double step_seconds = 0;    ///< a step until the device is done; median over the epochs of the epoch's mean
  double submit_seconds = 0;  ///< the host's part of it: until all work of the step is submitted
};

/// Trains a network on a device, again and again from the same start.
///
/// A whole step is work of the device: images, labels, their order in an epoch and the number of the step are in device
/// memory, and the step itself increments that number. So replaying a graph of one step takes the next batch each time.
///
/// Work is submitted to the current stream of the thread that made the object, and concurrent work to an own stream.
class Trainer {
 public:
  Trainer(const Dataset& dataset, unsigned batch, float dropout, std::uint64_t seed);

  /// Submits one step to the current stream; it takes the next batch of the epoch. Can be captured.
  void step();

  /// Trains from the start. `give_step` submits one step to the current stream, by step() or by a replay of it; it runs
  /// once before, so that costs of the first use are not measured.
  Run run(const std::string& label, unsigned epochs, const std::function<void()>& give_step);

  unsigned steps_per_epoch() const { return steps_; }  ///< whole batches; the images left over differ between epochs
  float rate() const { return rate_; }                 ///< of the gradient descent

 private:
  void begin_epoch(std::mt19937_64& random);
  double mean_loss() const;
  double test_accuracy();

  unsigned batch_, steps_;
  std::uint64_t seed_;
  float rate_;
  reprise::Stream side_;
  reprise::Buffer<float> images_, test_images_;
  reprise::Buffer<std::uint8_t> labels_, test_labels_;
  std::vector<std::uint32_t> shuffled_;    // of the epoch, on the host
  reprise::Buffer<std::uint32_t> order_;   // the same, on the device
  reprise::Buffer<std::uint32_t> number_;  // of the step within the epoch
  reprise::Buffer<double> loss_sum_;       // of the epoch
  reprise::Buffer<std::uint32_t> correct_;
  reprise::Buffer<float> batch_images_;
  reprise::Buffer<std::uint8_t> batch_labels_;
  Network network_;
  Activations test_;
};

}  // namespace digits
