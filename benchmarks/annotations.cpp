// SPDX-License-Identifier: Apache-2.0
// The cost of scopes of annotate: outside of a capture, in captures without and with annotations; and of replays of an
// annotated graph.

#include <iterator>

#include "small_kernels.h"
#include "support.h"

namespace benchmarks {
namespace {

constexpr unsigned kernels = 10'000;

reprise::GraphOptions options(bool annotated) {
  reprise::GraphOptions made;
  made.enable_annotations = annotated;
  return made;
}

/// `kernels` of them, in so many scopes; 0 for none.
void launch_in_scopes(unsigned scopes, float* values) {
  if (scopes == 0) return launch_small_kernels(kernels, values);
  for (unsigned i = 0; i < scopes; ++i) {
    const reprise::annotate scope("scope");
    launch_small_kernels(kernels / scopes, values);
  }
}

double capture_seconds(unsigned scopes, bool annotated, float* values) {
  reprise::CUDAGraph graph(reprise::KeepGraph::yes);
  return seconds([&] {
    graph.capture_begin(options(annotated));
    launch_in_scopes(scopes, values);
    graph.capture_end();
  });
}

void measure_captures(const Settings& settings) {
  struct Side {
    unsigned scopes;
    bool annotated;
    const char* what;
  };
  constexpr Side sides[] = {{0, false, "no scopes"},
                            {1000, false, "1000 scopes, annotations not wanted"},
                            {0, true, "no scopes, annotations wanted"},
                            {100, true, "100 scopes"},
                            {1000, true, "1000 scopes"}};
  reprise::Buffer<float> values(small_kernel_values);
  Samples samples[std::size(sides)];
  for (unsigned round = 0; round <= settings.rounds; ++round)
    for (std::size_t i = 0; i < std::size(sides); ++i) {
      const std::size_t side = (round + i) % std::size(sides);
      const double took = capture_seconds(sides[side].scopes, sides[side].annotated, values.data());
      if (round > 0) samples[side].add(took);  // the first one warms up
    }
  print("A capture of {} small kernels, ms of the host\n", kernels);
  for (std::size_t i = 0; i < std::size(sides); ++i)
    print("  {:<38} {:>8.2f}\n", sides[i].what, 1e3 * samples[i].median());
}

void measure_scopes(const Settings& settings) {
  constexpr unsigned scopes = 1'000'000;
  Samples samples;
  for (unsigned round = 0; round < settings.rounds; ++round)
    samples.add(seconds([&] {
      for (unsigned i = 0; i < scopes; ++i) const reprise::annotate scope({{"name", "scope"}, {"key", "value"}});
    }));
  print("A scope outside of captures with annotations: {:.2f} ns\n", 1e9 * samples.median() / scopes);
}

void measure_replays(const Settings& settings) {
  constexpr unsigned replays = 1000;
  reprise::Buffer<float> values(small_kernel_values);
  values.fill_bytes_async(0);
  reprise::CUDAGraph plain, annotated;
  reprise::CUDAGraph* const graphs[] = {&plain, &annotated};
  Samples samples[2];
  for (std::size_t i = 0; i < 2; ++i)
    reprise::capture(*graphs[i], options(i == 1), [&] {
      const reprise::annotate scope("scope");
      launch_small_kernels(1, values.data());
    });
  for (unsigned round = 0; round <= settings.rounds; ++round)
    for (std::size_t i = 0; i < 2; ++i) {
      const std::size_t side = (round + i) % 2;
      reprise::current_stream().synchronize();
      const double took = seconds([&] {
        for (unsigned replay = 0; replay < replays; ++replay) graphs[side]->replay();
      });
      if (round > 0) samples[side].add(took);
    }
  reprise::current_stream().synchronize();
  print("A replay of one small kernel: {:.3f} us, with an annotation {:.3f} us\n", 1e6 * samples[0].median() / replays,
        1e6 * samples[1].median() / replays);
}

}  // namespace

void annotations(const Settings& settings) {
  const reprise::Stream stream(settings.device);
  const reprise::StreamGuard guard(stream);
  measure_captures(settings);
  measure_scopes(settings);
  measure_replays(settings);
}

}  // namespace benchmarks
