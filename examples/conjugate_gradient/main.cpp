// SPDX-License-Identifier: Apache-2.0
// A solver that iterates until its result is good enough, three ways: each kernel is launched and the host looks after
// each iteration; a graph of one iteration is replayed, and the host looks; one graph holds the loop, and the device
// decides. Runs on any device, also without a GPU. Shows that all three have the same result, and what each costs.

#include <cmath>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "picture.h"
#include "reprise/reprise.h"
#include "solver.h"
#include "support/program.h"

namespace conjugate_gradient {
namespace {

using example::microseconds;
using example::say;

struct Options {
  std::optional<std::string> device;
  std::size_t side = 64;
  double tolerance = 1e-8;
  std::uint32_t limit = 10000;
  std::optional<std::string> svg;
};

// One way to run the iterations.
struct Way {
  std::string name;
  std::function<void()> solve;
};

std::vector<Way> ways(Solver& solver, reprise::StreamRef stream, const Options& options) {
  std::vector<Way> all;
  all.push_back({"eager", [&solver, stream] {
                   solver.start(stream);
                   while (solver.goes_on(stream)) solver.iterate(stream);
                 }});
  const auto graph_of = [&](const std::function<void(reprise::StreamRef)>& body) {
    return std::make_shared<reprise::CUDAGraph>(reprise::capture([&](reprise::StreamRef here) { body(here); }));
  };
  const auto start = graph_of([&](reprise::StreamRef here) { solver.start(here); });
  const auto iteration = graph_of([&](reprise::StreamRef here) { solver.iterate(here); });
  all.push_back({"graph of an iteration", [&solver, stream, start, iteration] {
                   start->replay(stream);
                   while (solver.goes_on(stream)) iteration->replay(stream);
                 }});
  const auto whole = graph_of([&](reprise::StreamRef here) {
    solver.start(here);
    reprise::while_(here, solver.go_on(), [&](reprise::StreamRef inside) { solver.iterate(inside); },
                    {.max_iterations = options.limit});
  });
  all.push_back({"one graph", [stream, whole] { whole->replay(stream); }});
  return all;
}

bool run(const Options& options) {
  if (options.svg) require_writable(*options.svg);
  const reprise::Device device = options.device ? example::parse_device(*options.device) : reprise::default_device();
  const reprise::Stream stream(device);
  const reprise::StreamGuard guard(stream);
  say("device     {} ({})\n", device.str(), device.name());
  say("problem    Poisson's equation on {0} x {0} points\n", options.side);

  Solver solver(options.side, options.tolerance, options.limit);
  std::vector<double> expected;
  bool same = true;
  double eager = 0;
  for (const Way& way : ways(solver, stream, options)) {
    way.solve();
    const std::vector<double> solution = solver.solution(stream);
    if (expected.empty()) expected = solution;
    same &= solution == expected;
    const double time = microseconds(device.type() == reprise::DeviceType::host ? 1 : 10, way.solve);
    if (eager == 0) eager = time;
    say("time       {:10.1f} us  {:.2f} x  {}\n", time, eager / time, way.name);
  }
  const State state = solver.state(stream);
  const std::vector<double> residuals = solver.residuals(stream);
  const bool converged = state.square <= state.target;
  say("result     {} in all three ways\n", same ? "bitwise the same" : "NOT the same");
  say("converged  {} after {} iterations, residual {:.3g} of {:.3g} at first\n", converged ? "yes" : "NO",
      state.iterations, residuals.back(), residuals.front());
  if (options.svg) {
    write_picture(*options.svg, residuals);
    say("picture    {}\n", *options.svg);
  }
  return same && converged;
}

}  // namespace
}  // namespace conjugate_gradient

int main(int argc, char** argv) {
  conjugate_gradient::Options options;
  CLI::App app("A solver whose loop runs on the host, or on the device within one graph.", "conjugate_gradient");
  app.add_option("--device", options.device,
                 "Where to run: host, cuda, cuda:1, ... (default: the first CUDA device, or "
                 "else the simulated host device)")
      ->type_name("DEVICE");
  app.add_option("--side", options.side, "Points along a side of the square")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(2, 4096));
  app.add_option("--tolerance", options.tolerance, "When to stop: the residual, relative to the first one")
      ->capture_default_str()
      ->type_name("X")
      ->check(CLI::Range(1e-14, 0.5))
      ->check([](const std::string& text) {  // which CLI::Range takes
        return std::isnan(std::strtod(text.c_str(), nullptr)) ? "expected a number; found " + text : std::string();
      });
  app.add_option("--limit", options.limit, "The most iterations")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--svg", options.svg, "Draw the convergence as this file")->type_name("FILE.svg");
  return example::run(app, argc, argv, [&] { return conjugate_gradient::run(options); });
}
