// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "reprise/reprise.h"

// Shared by the small examples: output, command line, exit codes, a clock.

namespace example {

/// Invalid input of the user. The text is one line; the program ends with exit code 2.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  std::fputs(fmt::format(format, std::forward<Args>(args)...).c_str(), stdout);
  std::fflush(stdout);
}

/// The device of the option --device, as reprise::Device::parse takes it.
inline reprise::Device parse_device(const std::string& text) {
  try {
    return reprise::Device::parse(text);
  } catch (const reprise::UsageError& error) {
    throw InputError(fmt::format("--device: {}", error.what()));
  }
}

/// The CUDA devices of this machine, which `what` needs.
inline std::vector<reprise::Device> require_cuda_devices(const std::string& what) {
  std::vector<reprise::Device> found;
  for (const reprise::Device device : reprise::devices())
    if (device.type() == reprise::DeviceType::cuda) found.push_back(device);
  if (found.empty())
    throw InputError(
        fmt::format("{} runs on CUDA devices only, not on the simulated host device, and there is no CUDA "
                    "device here (nvidia-smi shows those that the driver knows; the example multi_stream "
                    "runs anywhere)",
                    what));
  return found;
}

/// The time of one call of `work` in microseconds, including the wait for the current stream: a mean of many.
inline double microseconds(unsigned calls, const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  reprise::current_stream().synchronize();
  const auto begin = Clock::now();
  for (unsigned i = 0; i < calls; ++i) work();
  reprise::current_stream().synchronize();
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / calls;
}

/// The exit code of a program that would end with `exit_code`: 1, with a line on standard error, if what it printed was
/// lost, as on a full disk.
inline int or_lost_output(const std::string& name, int exit_code) {
  if ((std::fflush(stdout) == 0 && std::ferror(stdout) == 0) || exit_code != 0) return exit_code;
  std::fprintf(stderr, "%s: failed: standard output cannot be written\n", name.c_str());
  return 1;
}

/// Reads the command line, runs the program, and returns its exit code: 0; 1 for a failure, 2 for bad input, with a
/// line on standard error. `program` returns true if all its checks passed.
inline int run(CLI::App& app, int argc, char** argv, const std::function<bool()>& program) {
  const std::string name = app.get_name();
  try {
    app.parse(argc, argv);
    return or_lost_output(name, program() ? 0 : 1);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return or_lost_output(name, 0);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "%s: error: %s (--help lists the options)\n", name.c_str(), error.what());
    return 2;
  } catch (const InputError& error) {
    std::fprintf(stderr, "%s: error: %s\n", name.c_str(), error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: failed: %s\n", name.c_str(), error.what());
    return 1;
  }
}

}  // namespace example
