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

/// What a run of training came to.
struct Run {
  std::vector<float> parameters;
  double loss = 0;            ///< mean over the images of the last epoch
  double accuracy = 0;        ///< on the held-out images, a part of one
  double step_seconds = 0;    ///< a step until the device is done; median over the epochs of the epoch's mean
  double submit_seconds = 0;  ///< the host's part of it: until all work of the step is given to the device
};

/// Trains a network on a device, again and again from the same start.
///
/// A whole step is work of the device: images, labels, the order in which an epoch takes them and the number of the
/// step are in device memory, and the step itself counts on. So a graph of one step can be replayed with nothing else
/// to do, and takes the next batch each time.
///
/// The work goes to the current stream of the thread that made the object; a stream of its own takes what can run at
/// the same time.
class Trainer {
 public:
  Trainer(const Dataset& dataset, unsigned batch, float dropout, std::uint64_t seed);

  /// Gives one step to the current stream; it takes the next batch of the epoch. Can be captured.
  void step();

  /// Trains from the start. `give_step` gives one step to the current stream, by step() or by a replay of it; it is run
  /// once before, so that the first use of anything is in no measurement.
  Run run(const std::string& label, unsigned epochs, const std::function<void()>& give_step);

  unsigned steps_per_epoch() const { return steps_; }  ///< whole batches; each epoch leaves out other images
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
