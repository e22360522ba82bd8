// SPDX-License-Identifier: Apache-2.0
// A program and a shared library: exceptions that the library throws are caught by their types, which are one in both,
// and so is what headers keep.

#include <cstdint>
#include <cstdio>
#include <string>
#include <typeinfo>
#include <vector>

#include <reprise/reprise.h>

namespace {

struct Add {
  REPRISE_KERNEL void operator()(reprise::Thread t, int* x, int value, std::size_t n) const {
    if (t.global_x() < n) x[t.global_x()] += value;
  }
};

int failures = 0;

/// Calls what must throw an `Exception`, thrown by the library.
template <class Exception, class Call>
void expect(const char* name, const Call& call) {
  try {
    call();
    std::printf("%s: nothing was thrown\n", name);
  } catch (const Exception& error) {
    const reprise::Error* const base = &error;
    if (typeid(error) == typeid(Exception) && &typeid(error) == &typeid(Exception) &&
        dynamic_cast<const Exception*>(base) == &error && *error.what() != 0)
      return static_cast<void>(std::printf("%s: caught by its type\n", name));
    std::printf("%s: two types of this name\n", name);
  } catch (const std::exception& error) {
    std::printf("%s: caught as %s\n", name, typeid(error).name());
  }
  ++failures;
}

void exceptions() {
  using namespace reprise;
  const Stream stream;
  CUDAGraph empty;
  Buffer<int> x(8, stream), y(16, stream);
  x.fill_bytes_async(0, stream);
  y.fill_bytes_async(0, stream);
  const auto captured = [&](const GraphOptions& options, int* to, std::size_t n) {
    GraphOptions all = options;
    all.stream = stream;
    return capture(all, [&, to, n] { launch(n, Add{}, to, 1, n); });
  };
  CUDAGraph graph = captured({}, x.data(), 8);

  expect<UsageError>("UsageError", [&] { empty.replay(); });
  expect<BackendError>("BackendError", [&] { capture([&](StreamRef here) { here.synchronize(); }); });
  expect<CaptureError>("CaptureError", [&] {
    capture([&](StreamRef here) {
      x.fill_bytes_async(0, here);
      try {
        here.synchronize();
      } catch (const BackendError&) {
      }
    });
  });
  expect<EmptyCaptureError>("EmptyCaptureError", [&] { capture([&] {}); });
  expect<OutOfMemoryError>("OutOfMemoryError", [&] { Buffer<char> all(std::size_t{1} << 50, stream); });
  expect<GraphUpdateError>(
      "GraphUpdateError", [&] { graph.update(capture(stream, [&](StreamRef here) { x.fill_bytes_async(0, here); })); });
  expect<DeadInputError>("DeadInputError", [&] {
    CUDAGraph dead = captured({.check_input_liveness = true}, y.data(), 16);
    y.reset();
    dead.replay(stream);
  });
  int value = 0;
  expect<FrozenValuesError>("FrozenValuesError", [&] {
    capture({.stream = stream, .check_frozen_values = [&] { ++value; }},
            [&] { launch(x.size(), Add{}, x.data(), value, x.size()); });
  });

  // The type of an argument is that of the program.
  graph.node("Add").set_arg(1, 5);
  expect<UsageError>("UsageError for a type", [&] { graph.node("Add").set_arg(1, std::uint32_t{5}); });
  graph.replay(stream);
  std::printf("the argument is %d\n", x.read(stream).front());
}

// The inner functions of the library have no names, and are left out.
void stack() {
  reprise::CUDAGraph graph;
  try {
    reprise::capture(graph, [&](reprise::StreamRef here) { here.synchronize(); });
  } catch (const reprise::BackendError&) {
  }
  const auto& call = graph.capture_report().value().broken_by.value();
  const std::string first = call.stack.empty() ? "" : call.stack.front();
  std::printf("the stack begins in %s\n", first.substr(0, first.find("()")).c_str());
}

void annotations() {
  reprise::Buffer<int> x(8);
  const reprise::CUDAGraph graph = reprise::capture({.enable_annotations = true}, [&] {
    const reprise::annotate scope("forward");
    x.fill_bytes_async(0);
  });
  std::printf("%zu node is annotated\n", graph.annotations().size());
}

}  // namespace

int main() {
  exceptions();
  annotations();
  stack();
  return failures == 0 ? 0 : 1;
}
