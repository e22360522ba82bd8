// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include <cstdio>
#include <thread>

// A plain program of CUDA that breaks captures in the classic ways, for `reprise explain`. It knows nothing of reprise.
// Prints what each capture ended with; its exit code is 0 if that is what CUDA is known to do.

namespace {

__global__ void add_one(float* x) {
  *x += 1;
}

float* memory = nullptr;

}  // namespace

// A library that does not use the captured stream. Its name must be visible in stacks, so that the launch is
// not the last thing that it does: a function that ends in a call leaves the stack before it.
__attribute__((noinline)) bool library_function() {
  add_one<<<1, 1>>>(memory);
  return cudaPeekAtLastError() == cudaSuccess;
}

namespace {

int failures = 0;

#define REQUIRE(call)                                              \
  do {                                                             \
    const cudaError_t required_ = (call);                          \
    if (required_ != cudaSuccess) {                                \
      std::printf("%s: %s\n", #call, cudaGetErrorName(required_)); \
      ++failures;                                                  \
    }                                                              \
  } while (false)

/// Captures `body` and says what came of it.
template <class Body>
void capture(const char* what, unsigned stream_flags, cudaStreamCaptureMode mode, cudaError_t expected, Body&& body) {
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, stream_flags));
  REQUIRE(cudaStreamBeginCapture(stream, mode));
  add_one<<<1, 1, 0, stream>>>(memory);
  body(stream);
  const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
  std::printf("%-28s %s\n", what, cudaGetErrorName(ended));
  if (ended != expected) ++failures;
  if (graph != nullptr) REQUIRE(cudaGraphDestroy(graph));
  REQUIRE(cudaStreamDestroy(stream));
  (void)cudaGetLastError();
  REQUIRE(cudaDeviceSynchronize());
}

void run() {
  constexpr auto broken = cudaErrorStreamCaptureInvalidated;
  capture("allocation on a thread", cudaStreamNonBlocking, cudaStreamCaptureModeGlobal, broken, [](cudaStream_t) {
    std::thread([] {
      float* more = nullptr;
      if (cudaMalloc(&more, 64) == cudaSuccess) (void)cudaFree(more);
    }).join();
  });
  capture("wait for the stream", cudaStreamNonBlocking, cudaStreamCaptureModeThreadLocal, broken,
          [](cudaStream_t stream) { (void)cudaStreamSynchronize(stream); });
  capture("legacy stream, blocking", cudaStreamDefault, cudaStreamCaptureModeRelaxed, broken,
          [](cudaStream_t) { (void)library_function(); });
  capture("legacy stream, non-blocking", cudaStreamNonBlocking, cudaStreamCaptureModeRelaxed, cudaSuccess,
          [](cudaStream_t) { (void)library_function(); });
  capture("fork without join", cudaStreamNonBlocking, cudaStreamCaptureModeRelaxed, cudaErrorStreamCaptureUnjoined,
          [](cudaStream_t stream) {
            static cudaStream_t forked = nullptr;
            cudaEvent_t event = nullptr;
            REQUIRE(cudaStreamCreateWithFlags(&forked, cudaStreamNonBlocking));
            REQUIRE(cudaEventCreate(&event));
            REQUIRE(cudaEventRecord(event, stream));
            REQUIRE(cudaStreamWaitEvent(forked, event, 0));
            add_one<<<1, 1, 0, forked>>>(memory);
          });
  capture("nothing wrong", cudaStreamNonBlocking, cudaStreamCaptureModeGlobal, cudaSuccess, [](cudaStream_t) {});
}

}  // namespace

int main() {
  REQUIRE(cudaMalloc(&memory, sizeof *memory));
  // Loaded before the captures: lazy loading is not what is to be seen.
  add_one<<<1, 1>>>(memory);
  REQUIRE(cudaDeviceSynchronize());
  run();
  std::printf("%d surprises\n", failures);
  return failures == 0 ? 0 : 1;
}
