// SPDX-License-Identifier: Apache-2.0
#if defined(__CUDACC__)

#include "tests/conformance/recorder/further_calls.h"

// Further calls of the recorder: those of CUDA's runtime.

namespace reprise::backend::test {

namespace {

__device__ int symbol;
__global__ void empty_kernel() {}
void CUDART_CB nothing(cudaStream_t, cudaError_t, void*) {}

// So that no call of the record is the one that loads what this file has on the device.
void with_symbol(State& x) {
  void* found = nullptr;
  require_cuda(cudaGetSymbolAddress(&found, symbol), "cudaGetSymbolAddress");
  empty_kernel<<<1, 1, 0, x.nb>>>();
  require_cuda(cudaGetLastError(), "a launch");
}

/// The array that with_array() made.
cudaArray_t array_of(State& x) {
  return reinterpret_cast<cudaArray_t>(things(x).array);
}

cudaPitchedPtr box_of(State& x) {
  return make_cudaPitchedPtr(x.device, 64, 32, 4);
}

void add_runtime_questions(std::vector<RecordedCall>& calls) {
  add(calls, "cudaGetLastError", [](State&) { return cudaGetLastError(); });
  add(calls, "cudaPeekAtLastError", [](State&) { return cudaPeekAtLastError(); });
  add(calls, "cudaGetDevice", [](State&) {
    int device = 0;
    return cudaGetDevice(&device);
  });
  add(calls, "cudaSetDevice", [](State& x) { return cudaSetDevice(x.backend.index()); });
  add(calls, "cudaGetDeviceCount", [](State&) {
    int count = 0;
    return cudaGetDeviceCount(&count);
  });
  add(calls, "cudaGetDeviceProperties", [](State& x) {
    cudaDeviceProp properties;
    return cudaGetDeviceProperties(&properties, x.backend.index());
  });
  add(calls, "cudaDeviceGetAttribute", [](State& x) {
    int value = 0;
    return cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, x.backend.index());
  });
  add(calls, "cudaDeviceGetLimit", [](State&) {
    std::size_t value = 0;
    return cudaDeviceGetLimit(&value, cudaLimitStackSize);
  });
  add(calls, "cudaDeviceGetStreamPriorityRange", [](State&) {
    int least = 0, greatest = 0;
    return cudaDeviceGetStreamPriorityRange(&least, &greatest);
  });
  add(calls, "cudaRuntimeGetVersion", [](State&) {
    int version = 0;
    return cudaRuntimeGetVersion(&version);
  });
  add(calls, "cudaCtxResetPersistingL2Cache", [](State&) { return cudaCtxResetPersistingL2Cache(); });
  add(calls, "cudaDeviceGraphMemTrim", [](State& x) { return cudaDeviceGraphMemTrim(x.backend.index()); });
}

void add_runtime_functions(std::vector<RecordedCall>& calls) {
  add(
      calls, "cudaFuncGetAttributes",
      [](State&) {
        cudaFuncAttributes attributes;
        return cudaFuncGetAttributes(&attributes, empty_kernel);
      },
      with_symbol);
  add(
      calls, "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
      [](State&) {
        int blocks = 0;
        return cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, empty_kernel, 128, 0);
      },
      with_symbol);
  add(
      calls, "cudaGetSymbolAddress",
      [](State&) {
        void* found = nullptr;
        return cudaGetSymbolAddress(&found, symbol);
      },
      with_symbol);
  add(calls, "cudaMemGetInfo", [](State&) {
    std::size_t available = 0, total = 0;
    return cudaMemGetInfo(&available, &total);
  });
  add(calls, "cudaPointerGetAttributes", [](State& x) {
    cudaPointerAttributes attributes;
    return cudaPointerGetAttributes(&attributes, x.device);
  });
}

void add_runtime_memory(std::vector<RecordedCall>& calls) {
  add(calls, "cudaMalloc", [](State& x) {
    void* made = nullptr;
    return then(cudaMalloc(&made, 4096), x, [&] { (void)cudaFree(made); });
  });
  add(calls, "cudaFree",
      [](State& x) { return then(cudaFree(x.doomed_memory), x, [&] { x.doomed_memory = nullptr; }); });
  add(calls, "cudaMallocHost", [](State& x) {
    void* made = nullptr;
    return then(cudaMallocHost(&made, 4096), x, [&] { (void)cudaFreeHost(made); });
  });
  add(calls, "cudaFreeHost",
      [](State& x) { return then(cudaFreeHost(x.doomed_pinned), x, [&] { x.doomed_pinned = nullptr; }); });
  add(calls, "cudaMallocManaged", [](State& x) {
    void* made = nullptr;
    return then(cudaMallocManaged(&made, 4096, cudaMemAttachGlobal), x, [&] { (void)cudaFree(made); });
  });
  add(calls, "cudaMallocPitch", [](State& x) {
    void* made = nullptr;
    std::size_t pitch = 0;
    return then(cudaMallocPitch(&made, &pitch, 64, 4), x, [&] { (void)cudaFree(made); });
  });
  add(calls, "cudaMallocArray", [](State& x) {
    const cudaChannelFormatDesc format = cudaCreateChannelDesc<unsigned char>();
    cudaArray_t made = nullptr;
    return then(cudaMallocArray(&made, &format, 64, 4), x, [&] { (void)cudaFreeArray(made); });
  });
  add(calls, "cudaMemcpy pageable to device",
      [](State& x) { return cudaMemcpy(x.device, x.pageable, 64, cudaMemcpyDefault); });
  add(calls, "cudaMemcpy device to pageable",
      [](State& x) { return cudaMemcpy(x.pageable, x.device, 64, cudaMemcpyDefault); });
  add(calls, "cudaMemcpy2D",
      [](State& x) { return cudaMemcpy2D(x.device + 2048, 64, x.device, 64, 32, 4, cudaMemcpyDefault); });
  add(
      calls, "cudaMemcpy2DFromArray",
      [](State& x) { return cudaMemcpy2DFromArray(x.device, 64, array_of(x), 0, 0, 32, 4, cudaMemcpyDefault); },
      with_array);
  add(
      calls, "cudaMemcpy2DToArray",
      [](State& x) { return cudaMemcpy2DToArray(array_of(x), 0, 0, x.device, 64, 32, 4, cudaMemcpyDefault); },
      with_array);
  add(calls, "cudaMemset", [](State& x) { return cudaMemset(x.device, 1, 64); });
  add(calls, "cudaMemset3D", [](State& x) { return cudaMemset3D(box_of(x), 1, make_cudaExtent(32, 4, 2)); });
  add(
      calls, "cudaMemcpyToSymbol", [](State& x) { return cudaMemcpyToSymbol(symbol, x.pageable, sizeof(int)); },
      with_symbol);
  add(
      calls, "cudaMemcpyFromSymbol", [](State& x) { return cudaMemcpyFromSymbol(x.pageable, symbol, sizeof(int)); },
      with_symbol);
}

void add_runtime_boxes(std::vector<RecordedCall>& calls) {
  add_on_streams(
      calls, "cudaMemcpy2DFromArrayAsync",
      [](State& x, cudaStream_t stream) {
        return cudaMemcpy2DFromArrayAsync(x.device, 64, array_of(x), 0, 0, 32, 4, cudaMemcpyDefault, stream);
      },
      with_array);
  add_on_streams(
      calls, "cudaMemcpy2DToArrayAsync",
      [](State& x, cudaStream_t stream) {
        return cudaMemcpy2DToArrayAsync(array_of(x), 0, 0, x.device, 64, 32, 4, cudaMemcpyDefault, stream);
      },
      with_array);
  add_on_streams(
      calls, "cudaMemcpyFromSymbolAsync",
      [](State& x, cudaStream_t stream) {
        return cudaMemcpyFromSymbolAsync(x.device, symbol, sizeof(int), 0, cudaMemcpyDeviceToDevice, stream);
      },
      with_symbol);
  add_on_streams(calls, "cudaMemset3DAsync", [](State& x, cudaStream_t stream) {
    return cudaMemset3DAsync(box_of(x), 1, make_cudaExtent(32, 4, 2), stream);
  });
}

void add_runtime_objects(std::vector<RecordedCall>& calls) {
  add(calls, "cudaEventCreate", [](State& x) {
    cudaEvent_t made = nullptr;
    return then(cudaEventCreate(&made), x, [&] { (void)cudaEventDestroy(made); });
  });
  add(calls, "cudaStreamCreate", [](State& x) {
    cudaStream_t made = nullptr;
    return then(cudaStreamCreate(&made), x, [&] { (void)cudaStreamDestroy(made); });
  });
}

void add_runtime_work(std::vector<RecordedCall>& calls) {
  add_on_streams(calls, "cudaMemcpyAsync pageable to device", [](State& x, cudaStream_t stream) {
    return cudaMemcpyAsync(x.device, x.pageable, 64, cudaMemcpyDefault, stream);
  });
  add_on_streams(calls, "cudaMemcpyAsync device to pageable", [](State& x, cudaStream_t stream) {
    return cudaMemcpyAsync(x.pageable, x.device, 64, cudaMemcpyDefault, stream);
  });
  add_on_streams(
      calls, "cudaMemcpyToSymbolAsync",
      [](State& x, cudaStream_t stream) {
        return cudaMemcpyToSymbolAsync(symbol, x.device, sizeof(int), 0, cudaMemcpyDeviceToDevice, stream);
      },
      with_symbol);
  add_on_streams(calls, "cudaMemset2DAsync",
                 [](State& x, cudaStream_t stream) { return cudaMemset2DAsync(x.device, 64, 1, 32, 4, stream); });
  add_on_streams(
      calls, "cudaLaunchKernel",
      [](State&, cudaStream_t stream) {
        return cudaLaunchKernel(reinterpret_cast<const void*>(&empty_kernel), dim3(1), dim3(1), nullptr, 0, stream);
      },
      with_symbol);
  add_on_streams(calls, "cudaStreamAddCallback",
                 [](State&, cudaStream_t stream) { return cudaStreamAddCallback(stream, &nothing, nullptr, 0); });
  add_on_streams(calls, "cudaMallocAsync", [](State& x, cudaStream_t stream) {
    void* made = nullptr;
    // What became a node is memory only when the graph runs.
    return then(cudaMallocAsync(&made, 4096, stream), x, [&] {
      if (stream != x.s) (void)cudaFreeAsync(made, stream);
    });
  });
  add(calls, "cudaMemcpyBatchAsync s", [](State& x) {
    void* to = x.device + 2048;
    const void* from = x.device;
    std::size_t bytes = 64, first = 0;
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    return cudaMemcpyBatchAsync(&to, &from, &bytes, 1, &attributes, &first, 1, x.s);
  });
}

void add_runtime_waits(std::vector<RecordedCall>& calls) {
  add(calls, "cudaDeviceSynchronize", [](State&) { return cudaDeviceSynchronize(); });
  add_on_streams(calls, "cudaStreamSynchronize",
                 [](State&, cudaStream_t stream) { return cudaStreamSynchronize(stream); });
  add_on_streams(calls, "cudaStreamQuery", [](State&, cudaStream_t stream) { return cudaStreamQuery(stream); });
  add(calls, "cudaEventQuery in", [](State& x) { return cudaEventQuery(x.in); });
  add(calls, "cudaEventQuery out", [](State& x) { return cudaEventQuery(x.out); });
  add(calls, "cudaEventSynchronize in", [](State& x) { return cudaEventSynchronize(x.in); });
  add(calls, "cudaEventElapsedTime out", [](State& x) {
    float milliseconds = 0;
    return cudaEventElapsedTime(&milliseconds, x.out, x.out);
  });
  add(calls, "cudaGraphInstantiate", [](State& x) {
    cudaGraphExec_t made = nullptr;
    return then(cudaGraphInstantiate(&made, x.graph, 0), x, [&] { (void)cudaGraphExecDestroy(made); });
  });
  add_on_streams(calls, "cudaGraphLaunch",
                 [](State& x, cudaStream_t stream) { return cudaGraphLaunch(x.exec, stream); });
}

}  // namespace

void add_runtime_calls(std::vector<RecordedCall>& calls) {
  add_runtime_questions(calls);
  add_runtime_functions(calls);
  add_runtime_memory(calls);
  add_runtime_boxes(calls);
  add_runtime_objects(calls);
  add_runtime_work(calls);
  add_runtime_waits(calls);
}

}  // namespace reprise::backend::test

#endif
