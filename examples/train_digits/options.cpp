// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <charconv>
#include <iostream>
#include <limits>

#include "errors.h"

namespace digits {
namespace {

constexpr unsigned most_epochs = 1'000'000;

/// A whole number in digits only: no sign, no base, no fraction.
template <class T>
void parse_number(const std::string& name, const std::string& text, T least, T most, T& value) {
  T parsed = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, parsed);
  if (text.empty() || error != std::errc{} || stop != end || parsed < least || parsed > most)
    throw InputError(fmt::format("{}: expected a whole number from {} to {}, found \"{}\"", name, least, most, text));
  value = parsed;
}

template <class T>
void add_number(CLI::App& app, const std::string& name, T least, T most, T& value, const std::string& help) {
  app.add_option_function<std::string>(
         name, [=, &value](const std::string& text) { parse_number(name, text, least, most, value); }, help)
      ->type_name("N")
      ->default_str(std::to_string(value));
}

/// A decimal fraction, at least 0 and below 1.
void parse_fraction(const std::string& name, const std::string& text, float& value) {
  float parsed = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, parsed, std::chars_format::fixed);
  if (text.empty() || error != std::errc{} || stop != end || !(parsed >= 0 && parsed < 1))
    throw InputError(fmt::format("{}: expected a number from 0 to below 1, found \"{}\"", name, text));
  value = parsed;
}

void add_path(CLI::App& app, const std::string& name, std::filesystem::path& value, const std::string& help) {
  app.add_option_function<std::string>(
         name,
         [name, &value](const std::string& text) {
           if (text.empty()) throw InputError(name + ": expected the name of a file, found nothing");
           value = text;
         },
         help)
      ->type_name("FILE")
      ->default_str(value.string());
}

}  // namespace

std::optional<Options> parse_options(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Trains a network (64-256-256-10) on images of hand-written digits, first eagerly, then with the whole training "
      "step captured once as a graph and replayed; compares the two, and draws the graph.",
      "train_digits");
  app.add_option("--device", options.device,
                 "Where to train: host, host:1, cuda, cuda:0, ... (default: the first CUDA device, or else the "
                 "simulated host device)")
      ->type_name("DEVICE");
  add_number(app, "--epochs", 1U, most_epochs, options.epochs, "How often to go over the training images");
  add_number(app, "--batch", 1U, std::numeric_limits<unsigned>::max(), options.batch,
             "Images in a step, at most as many as there are for training");
  app.add_option_function<std::string>(
         "--dropout", [&](const std::string& text) { parse_fraction("--dropout", text, options.dropout); },
         "The part of the hidden values that a training step leaves out, at random")
      ->type_name("P")
      ->default_str(fmt::format("{}", options.dropout));
  add_number(app, "--seed", std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max(), options.seed,
             "Chooses the initial weights, the order of the images and what is left out");
  app.add_flag("--liveness", options.liveness,
               "Have each replay check that no memory which the graph uses was freed, and report what it uses");
  add_path(app, "--svg", options.svg, "Where to write the picture of the graph; it ends in .svg");
  add_path(app, "--data", options.data, "The images: 64 pixels (0 to 16) and a label (0 to 9) a line");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return std::nullopt;
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string text = error.what();
    throw InputError(text.substr(0, text.find(':')) + ": expected one value (--help lists the options)");
  } catch (const CLI::ExtrasError&) {
    throw InputError(
        fmt::format("unknown option or argument \"{}\" (--help lists the options)", app.remaining().front()));
  } catch (const CLI::ParseError& error) {
    throw InputError(std::string(error.what()) + " (--help lists the options)");
  }
  return options;
}

}  // namespace digits
