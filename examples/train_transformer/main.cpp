// SPDX-License-Identifier: Apache-2.0
// Trains a small language model, character by character, on a text that a grammar writes. The whole step, forward,
// loss, backward, clipping and AdamW, is one graph (reprise::libtorch::graphed_step), whose learning rate follows a
// schedule. Trains once eagerly and once by that graph, compares the losses and the time, and lets the model write.

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "model.h"
#include "picture.h"
#include "reprise/libtorch/clip_grad.h"
#include "reprise/libtorch/graphed_step.h"
#include "reprise/libtorch/optim.h"
#include "support/program.h"
#include "support/tensors.h"
#include "text.h"

namespace train_transformer {
namespace {

using example::say;
using torch::Tensor;
namespace lib = reprise::libtorch;

struct Options {
  std::optional<std::string> device, svg;
  // Without a value: by the device.
  std::optional<std::int64_t> steps, rows, context, blocks, width, heads;
  std::optional<double> rate;
  double dropout = 0.1;
  std::uint32_t seed = 1;
  std::int64_t sample = 120;
};

/// What is trained, and on what.
struct Plan {
  torch::Device device;
  std::int64_t steps, rows;
  double rate;
  std::uint32_t seed;
  Sizes sizes;
  Tensor inputs, targets;  ///< all places of the text: `context` characters, and those that follow each
  Tensor places;           ///< of the rows of each step
};

constexpr double clip_norm = 1.0;

Plan plan_of(const Options& options, const Alphabet& alphabet, const std::string& text) {
  const torch::Device device = example::tensor_device(options.device);
  const bool large = device.is_cuda();
  Plan plan{device,
            options.steps.value_or(large ? 600 : 400),
            options.rows.value_or(large ? 16 : 8),
            options.rate.value_or(large ? 0.001 : 0.01),
            options.seed,
            {alphabet.size(), options.context.value_or(large ? 128 : 32), options.blocks.value_or(large ? 6 : 2),
             options.width.value_or(large ? 256 : 32), options.heads.value_or(large ? 8 : 2), options.dropout},
            {},
            {},
            {}};
  if (plan.sizes.width % plan.sizes.heads != 0)
    throw example::InputError(
        fmt::format("--width: {} is no multiple of the {} heads", plan.sizes.width, plan.sizes.heads));
  // Views: a row of `inputs` begins at each character. Batches are gathered on the device, which no step waits for.
  const Tensor characters = alphabet.encode(text).to(device);
  const std::int64_t last = characters.size(0) - 1;
  plan.inputs = characters.slice(0, 0, last).unfold(0, plan.sizes.context, 1);
  plan.targets = characters.slice(0, 1).unfold(0, plan.sizes.context, 1);
  torch::manual_seed(options.seed);
  plan.places = torch::randint(plan.inputs.size(0), {plan.steps, plan.rows}, torch::kLong).to(device);
  return plan;
}

/// The schedule: rises for a tenth of the steps, then falls to a tenth, as a cosine.
double rate_of(const Plan& plan, std::int64_t step) {
  const double rise = std::max(1.0, static_cast<double>(plan.steps) / 10), at = static_cast<double>(step);
  const double fall = 0.55 + 0.45 * std::cos(std::numbers::pi * at / static_cast<double>(plan.steps));
  return plan.rate * std::min(1.0, (at + 1) / rise) * fall;
}

Tensor loss_of(const Tensor& logits, const Tensor& target) {
  return torch::nn::functional::cross_entropy(logits.flatten(0, 1), target.flatten());
}

struct Trained {
  explicit Trained(const Plan& plan) {
    torch::manual_seed(plan.seed);
    model = Transformer(plan.sizes);
    model->to(plan.device);  // before the optimizer is made
  }
  Transformer model{nullptr};
  std::vector<float> losses;
  double characters_per_second = 0;
  std::size_t nodes = 0;  // of the graph
};

/// Trains with `step(inputs, targets)`, which returns the loss.
template <class Step>
void train(const Plan& plan, lib::optim::AdamW& optimizer, Trained& trained, const Step& step) {
  using Clock = std::chrono::steady_clock;
  const std::int64_t first_timed = plan.steps / 5;  // kernels are loaded before
  const Tensor losses = torch::zeros({plan.steps}, plan.device);
  auto begin = Clock::now();
  for (std::int64_t i = 0; i < plan.steps; ++i) {
    if (i == first_timed) {
      reprise::current_stream().synchronize();
      begin = Clock::now();
    }
    optimizer.set_learning_rate(rate_of(plan, i));
    const Tensor rows = plan.places.select(0, i);
    const Tensor loss = step(plan.inputs.index_select(0, rows), plan.targets.index_select(0, rows));
    losses.select(0, i).copy_(loss.detach());  // on the device: the graph overwrites its loss
  }
  reprise::current_stream().synchronize();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  trained.characters_per_second =
      static_cast<double>((plan.steps - first_timed) * plan.rows * plan.sizes.context) / seconds;
  const Tensor on_host = losses.cpu();
  trained.losses.assign(on_host.data_ptr<float>(), on_host.data_ptr<float>() + plan.steps);
}

Trained train_eagerly(const Plan& plan) {
  Trained trained(plan);
  lib::optim::AdamW optimizer(trained.model->parameters(), lib::optim::AdamWOptions(plan.rate));
  train(plan, optimizer, trained, [&](const Tensor& input, const Tensor& target) {
    const Tensor loss = loss_of(trained.model->forward(input), target);
    loss.backward();
    lib::clip_grad_norm_(trained.model->parameters(), clip_norm);
    optimizer.step();
    optimizer.zero_grad();
    return loss;
  });
  return trained;
}

Trained train_graphed(const Plan& plan) {
  Trained trained(plan);
  lib::optim::AdamW optimizer(trained.model->parameters(), lib::optim::AdamWOptions(plan.rate));
  const Tensor rows = plan.places.select(0, 0);
  const std::tuple samples(plan.inputs.index_select(0, rows), plan.targets.index_select(0, rows));
  const lib::GraphedStep step =
      lib::graphed_step(trained.model, &loss_of, optimizer, samples, {.clip = lib::ClipNorm{clip_norm}});
  trained.nodes = step.graph().node_count();
  train(plan, optimizer, trained, step);
  return trained;
}

/// The largest difference between two losses of one step, relative to the first.
double difference(const std::vector<float>& one, const std::vector<float>& other) {
  double most = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    const double relative = std::abs(one[i] - other[i]) / static_cast<double>(std::abs(one[i]));
    most = std::isnan(relative) ? INFINITY : std::max(most, relative);
  }
  return most;
}

/// What the model writes, from the beginning of the text on.
std::string write(const Plan& plan, Transformer& model, const Alphabet& alphabet, std::string text,
                  std::int64_t characters) {
  const torch::NoGradGuard no_grad;
  model->eval();
  torch::manual_seed(plan.seed);
  for (std::int64_t i = 0; i < characters; ++i) {
    const std::size_t from = text.size() - std::min(text.size(), static_cast<std::size_t>(plan.sizes.context));
    const Tensor logits = model->forward(alphabet.encode(text.substr(from)).to(plan.device).unsqueeze(0));
    const Tensor chances = (logits.select(0, 0).select(0, -1).cpu() / 0.7).softmax(0);
    text += alphabet.character(chances.multinomial(1).item<std::int64_t>());
  }
  return text;
}

float mean_of_last_tenth(const std::vector<float>& losses) {
  const std::size_t count = std::max<std::size_t>(1, losses.size() / 10);
  float sum = 0;
  for (std::size_t i = losses.size() - count; i < losses.size(); ++i) sum += losses[i];
  return sum / static_cast<float>(count);
}

void draw(const std::string& svg, const Plan& plan, const Trained& eager, const Trained& graphed) {
  std::vector<float> rates;
  for (std::int64_t i = 0; i < plan.steps; ++i) rates.push_back(static_cast<float>(rate_of(plan, i) / plan.rate));
  const auto named = [](const char* name, const Trained& trained) {
    return fmt::format("{}: {:.0f} characters a second", name, trained.characters_per_second);
  };
  write_picture(svg, "Loss of a language model in training",
                {{named("loss, eager", eager), "#d8a890", 4, eager.losses},
                 {named("loss, graphed", graphed), "#1f4f8f", 1.2, graphed.losses},
                 {fmt::format("learning rate, as a part of {}", plan.rate), "#999", 1.2, rates}});
  say("picture    {}\n", svg);
}

bool run(const Options& options) {
  if (options.svg) require_writable(*options.svg);
  const std::string text = write_text(100'000, options.seed);
  const Alphabet alphabet(text);
  const Plan plan = plan_of(options, alphabet, text);
  const reprise::DeviceGuard on_device(example::library_device(plan.device));
  say("device     {}\n", plan.device.str());
  say("text       {} characters of {} kinds: \"{}\" and so on\n", text.size(), alphabet.size(), text.substr(0, 40));

  const Trained eager = train_eagerly(plan);
  Trained graphed = train_graphed(plan);
  std::int64_t parameters = 0;
  for (const Tensor& each : graphed.model->parameters()) parameters += each.numel();
  say("model      {} blocks of width {}, {} parameters; each step has {} rows of {} characters\n", plan.sizes.blocks,
      plan.sizes.width, parameters, plan.rows, plan.sizes.context);
  say("step       one graph of {} nodes\n", graphed.nodes);

  const float last = mean_of_last_tenth(graphed.losses);
  say("loss       {:.4f} at first, {:.4f} after {} steps (mean of the last tenth)\n", graphed.losses.front(), last,
      plan.steps);
  // To the last bit, where the kernels of both are the same: always on the host device.
  const double apart = difference(eager.losses, graphed.losses);
  const bool same = plan.device.is_cuda() ? apart < 0.05 : apart == 0;
  if (apart == 0)
    say("graphed    the same loss as eager, to the last bit, in every step\n");
  else
    say("graphed    {} loss as eager: they differ by up to {:.2g} of it\n", same ? "nearly the same" : "NOT the same",
        apart);
  say("speed      {:.0f} characters (tokens) a second eager, {:.0f} graphed, {:.2f} x\n", eager.characters_per_second,
      graphed.characters_per_second, graphed.characters_per_second / eager.characters_per_second);

  if (options.sample > 0) {
    const std::string written = write(plan, graphed.model, alphabet, "the ", options.sample);
    const Words words = count_words(written);
    say("writes     {}\n", written);
    say("words      {} of {} are of the grammar\n", words.known, words.all);
  }
  if (options.svg) draw(*options.svg, plan, eager, graphed);
  return same && last <= graphed.losses.front();
}

}  // namespace
}  // namespace train_transformer

int main(int argc, char** argv) {
  train_transformer::Options options;
  CLI::App app("Trains a small language model on a generated text, eagerly and with the whole step as one graph.",
               "train_transformer");
  example::add_device_option(app, options.device);
  const auto number = [&](const char* name, auto& value, const char* what, std::int64_t least, std::int64_t most) {
    app.add_option(name, value, what)->type_name("N")->check(CLI::Range(least, most));
  };
  number("--steps", options.steps, "Steps of training (default: 400; on CUDA 600)", 1, 1 << 20);
  number("--rows", options.rows, "Rows of a batch (default: 8; on CUDA 16)", 1, 1 << 12);
  number("--context", options.context, "Characters of a row (default: 32; on CUDA 128)", 1, 1 << 12);
  number("--blocks", options.blocks, "Blocks of the model (default: 2; on CUDA 6)", 1, 1 << 8);
  number("--width", options.width, "Values for a character (default: 32; on CUDA 256)", 1, 1 << 14);
  number("--heads", options.heads, "Heads of attention (default: 2; on CUDA 8)", 1, 1 << 8);
  number("--sample", options.sample, "Characters that the model writes in the end (default: 120)", 0, 1 << 16);
  number("--seed", options.seed, "Of text, parameters and batches (default: 1)", 0, 1 << 30);
  app.add_option("--rate", options.rate, "The highest learning rate of the schedule (default: 0.01; on CUDA 0.001)")
      ->type_name("RATE")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--dropout", options.dropout, "Values that are left out in training")
      ->capture_default_str()
      ->type_name("PART")
      ->check(CLI::Range(0.0, 0.9));
  app.add_option("--svg", options.svg, "Draws the losses to this file")->type_name("FILE");
  return example::run(app, argc, argv, [&] { return train_transformer::run(options); });
}
