// SPDX-License-Identifier: Apache-2.0
#include "trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

#include "kernels.h"
#include "progress.h"
#include "reprise/annotations.h"
#include "reprise/kernel.h"

namespace digits {
namespace {

using reprise::launch;
using reprise::LaunchConfig;

/// Larger batches have less noise in their gradients and allow larger steps.
float learning_rate(unsigned batch) {
  return std::min(0.5F, 0.1F * std::sqrt(static_cast<float>(batch) / 32));
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double seconds_between(std::chrono::steady_clock::time_point begin, std::chrono::steady_clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

Trainer::Trainer(const Dataset& dataset, unsigned batch, float dropout, std::uint64_t seed)
    : batch_(batch),
      steps_(dataset.train.count() / batch),
      seed_(seed),
      rate_(learning_rate(batch)),
      images_(dataset.train.pixels),
      test_images_(dataset.test.pixels),
      labels_(dataset.train.labels),
      test_labels_(dataset.test.labels),
      shuffled_(dataset.train.count()),
      order_(dataset.train.count()),
      number_(1),
      loss_sum_(1),
      correct_(1),
      batch_images_(std::size_t{batch} * pixels_per_image),
      batch_labels_(batch),
      network_(batch, dropout),
      test_(dataset.test.count()) {}

void Trainer::step() {
  const reprise::annotate scope("batch");  // inner scopes override it: it remains for the choice of the batch
  launch(batch_images_.size(), GatherBatch{}, images_.data(), labels_.data(), order_.data(), number_.data(),
         batch_images_.data(), batch_labels_.data(), batch_, pixels_per_image);
  network_.train(batch_images_.data(), batch_labels_.data(), loss_sum_.data(), rate_, side_);
  launch(LaunchConfig::cover(1, 32), AdvanceStep{}, number_.data(), steps_);
}

Run Trainer::run(const std::string& label, unsigned epochs, const std::function<void()>& give_step) {
  using Clock = std::chrono::steady_clock;
  const auto stream = reprise::current_stream();
  const std::vector<float> start = initial_parameters(seed_);
  Progress progress(label, epochs);
  std::mt19937_64 random(seed_);
  std::iota(shuffled_.begin(), shuffled_.end(), 0U);
  begin_epoch(random);
  network_.set_parameters(start);
  give_step();  // warms up
  network_.set_parameters(start);
  network_.seed_dropout(seed_);

  Run run;
  std::vector<double> submit_times, step_times;
  for (unsigned epoch = 1; epoch <= epochs; ++epoch) {
    begin_epoch(random);
    stream.synchronize();
    const auto begin = Clock::now();
    for (unsigned i = 0; i < steps_; ++i) give_step();
    const auto submitted = Clock::now();
    stream.synchronize();
    step_times.push_back(seconds_between(begin, Clock::now()) / steps_);
    submit_times.push_back(seconds_between(begin, submitted) / steps_);
    run.loss = mean_loss();
    run.accuracy = test_accuracy();
    progress.show(epoch, run.loss, run.accuracy);
  }
  run.step_seconds = median(std::move(step_times));
  run.submit_seconds = median(std::move(submit_times));
  run.parameters = network_.parameters();
  return run;
}

void Trainer::begin_epoch(std::mt19937_64& random) {
  for (std::size_t i = shuffled_.size() - 1; i > 0; --i) std::swap(shuffled_[i], shuffled_[random() % (i + 1)]);
  order_.write_async(shuffled_);
  number_.fill_bytes_async(0);
  loss_sum_.fill_bytes_async(0);
}

double Trainer::mean_loss() const {
  return loss_sum_.read().front() / (static_cast<double>(steps_) * batch_);
}

double Trainer::test_accuracy() {
  correct_.fill_bytes_async(0);
  network_.forward(test_images_.data(), test_);
  launch(test_.rows, CountCorrect{}, test_.scores.data(), test_labels_.data(), correct_.data(), test_.rows, classes);
  return static_cast<double>(correct_.read().front()) / test_.rows;
}

}  // namespace digits
