// SPDX-License-Identifier: Apache-2.0
// The cost of scopes of annotate: outside of a capture, in captures without and with annotations; and of replays of an
// annotated graph.

#include <iterator>

#include "small_kernels.h"
#include "support.h"

namespace benchmarks {
namespace {

constexpr unsigned all_kernels = 10'000;

reprise::GraphOptions options(bool annotated) {
  reprise::GraphOptions made;
  made.enable_annotations = annotated;
  return made;
}

/// `all_kernels` of them, in so many scopes; 0 for none.
void launch_in_scopes(unsigned scopes, float* values) {
  if (scopes == 0) return launch_small_kernels(all_kernels, values);
  for (unsigned i = 0; i < scopes; ++i) {
    const reprise::annotate scope("scope");
    launch_small_kernels(all_kernels / scopes, values);
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
  const std::vector<double> ms = medians(settings, std::size(sides), [&](std::size_t side) {
    return 1e3 * capture_seconds(sides[side].scopes, sides[side].annotated, values.data());
  });
  Table table(settings, "annotated_captures",
              fmt::format("A capture of {} small kernels, the host's time", all_kernels),
              {{"", "", 0, 36}, {"capture", "ms"}});
  for (std::size_t i = 0; i < std::size(sides); ++i) table.row({sides[i].what, ms[i]});
}

void measure_scopes(const Settings& settings) {
  constexpr unsigned scopes = 1'000'000;
  const std::vector<double> ns = medians(settings, 1, [&](std::size_t) {
    return 1e9 / scopes * seconds([&] {
             for (unsigned i = 0; i < scopes; ++i) const reprise::annotate scope({{"name", "scope"}, {"key", "value"}});
           });
  });
  Table(settings, "scopes", "A scope outside of captures", {{"scope", "ns"}}).row({ns[0]});
}

void measure_replays(const Settings& settings) {
  constexpr unsigned replays = 1000;
  reprise::Buffer<float> values(small_kernel_values);
  values.fill_bytes_async(0);
  reprise::CUDAGraph plain, annotated;
  reprise::CUDAGraph* const graphs[] = {&plain, &annotated};
  for (std::size_t i = 0; i < 2; ++i)
    reprise::capture(*graphs[i], options(i == 1), [&] {
      const reprise::annotate scope("scope");
      launch_small_kernels(1, values.data());
    });
  const std::vector<double> us = medians(settings, 2, [&](std::size_t side) {
    reprise::current_stream().synchronize();
    return 1e6 / replays * seconds([&] {
             for (unsigned replay = 0; replay < replays; ++replay) graphs[side]->replay();
           });
  });
  reprise::current_stream().synchronize();
  Table(settings, "annotated_replays", "A replay of one small kernel",
        {{"not annotated", "us", 3}, {"annotated", "us", 3}})
      .row({us[0], us[1]});
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
