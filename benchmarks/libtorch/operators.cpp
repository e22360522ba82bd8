// SPDX-License-Identifier: Apache-2.0
// The cost of an operator on tensors of the host device, compared with the same operator on the CPU: eager, in a
// capture, and replayed.

#include <torch/torch.h>

#include <functional>
#include <iterator>

#include "libtorch/benchmarks.h"
#include "reprise/libtorch/host_device.h"

namespace benchmarks {
namespace {

constexpr int calls = 200;

struct Operator {
  const char* name;
  std::function<void(const torch::Tensor& x, const torch::Tensor& y)> call;
};

const Operator operators[] = {
    {"x + y", [](auto& x, auto& y) { static_cast<void>(x + y); }},
    {"x.add_(y)", [](auto& x, auto& y) { x.add_(y); }},
    {"x.mm(y)", [](auto& x, auto& y) { static_cast<void>(x.mm(y)); }},
    {"relu(x)", [](auto& x, auto&) { static_cast<void>(torch::relu(x)); }},
    {"x.sum(1)", [](auto& x, auto&) { static_cast<void>(x.sum(1)); }},
    {"cat({x, y})",
     [](auto& x, auto& y) {
       static_cast<void>(torch::cat({x, y}));
     }},
    {"softmax(x, 1)", [](auto& x, auto&) { static_cast<void>(torch::softmax(x, 1)); }},
    {"layer_norm(x)", [](auto& x, auto&) { static_cast<void>(torch::layer_norm(x, {32})); }},
    {"conv2d(x, y)",
     [](auto& x, auto& y) {
       static_cast<void>(torch::conv2d(x.view({1, 1, 32, 32}), y.view({-1}).narrow(0, 0, 36).view({4, 1, 3, 3})));
     }},
    {"batch_norm(x)",
     [](auto& x, auto&) { static_cast<void>(torch::batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, false)); }},
    {"lstm_cell(x, y)",
     [](auto& x, auto& y) {
       const auto weights = x.repeat({4, 1});
       static_cast<void>(torch::lstm_cell(x, {y, y}, weights, weights));
     }},
    {"dropout(x)", [](auto& x, auto&) { static_cast<void>(torch::dropout(x, 0.1, true)); }},
    {"x.t()", [](auto& x, auto&) { static_cast<void>(x.t()); }},
    {"x.copy_(y)", [](auto& x, auto& y) { x.copy_(y); }},
};

// Seconds a call, until the last one has run.
double eager(const Operator& op, const torch::Tensor& x, const torch::Tensor& y, const reprise::StreamRef* stream) {
  return seconds([&] {
           for (int i = 0; i < calls; ++i) op.call(x, y);
           if (stream != nullptr) stream->synchronize();
         }) /
         calls;
}

struct Captured {
  double capture, replay;
};

Captured captured(const Operator& op, const torch::Tensor& x, const torch::Tensor& y) {
  reprise::CUDAGraph graph;
  reprise::GraphOptions options;
  options.allow_empty = true;  // a view is no work
  const double capture = seconds([&] {
    reprise::capture(graph, options, [&] {
      for (int i = 0; i < calls; ++i) op.call(x, y);
    });
  });
  const double replay = seconds([&] {
    graph.replay();
    reprise::current_stream().synchronize();
  });
  return {capture / calls, replay / calls};
}

}  // namespace

void operators_of_host_device(const Settings& settings) {
  if (settings.device.type() != reprise::DeviceType::host) {
    print("Operators on tensors of the host device: left out, because this is no host device\n");
    return;
  }
  torch::set_num_threads(1);  // as on the device
  const torch::NoGradGuard no_grad;
  const reprise::Stream stream;
  const reprise::StreamGuard guard(stream);
  const reprise::StreamRef here = stream;
  const torch::Tensor x = torch::rand({32, 32}), y = torch::rand({32, 32});
  const torch::Tensor device_x = x.to(reprise::libtorch::host_device()), device_y = y.to(device_x.device());
  Table table(
      settings, "operators", "An operator on tensors of 32 x 32 floats",
      {{"", "", 0, 16}, {"CPU", "us"}, {"host device", "us"}, {"more", "us"}, {"captured", "us"}, {"replayed", "us"}});
  for (const Operator& op : operators) {
    const auto us = medians_of<4>(settings, 1, [&](std::size_t) -> std::array<double, 4> {
      const double cpu = eager(op, x, y, nullptr), device = eager(op, device_x, device_y, &here);
      const Captured graph = captured(op, device_x, device_y);
      return {1e6 * cpu, 1e6 * device, 1e6 * graph.capture, 1e6 * graph.replay};
    })[0];
    table.row({op.name, us[0], us[1], us[1] - us[0], us[2], us[3]});
  }
}

}  // namespace benchmarks
