// SPDX-License-Identifier: Apache-2.0
#if defined(__CUDACC__)

#include "tests/conformance/recorder/further_calls.h"

// Further calls of the recorder: copies and sets.

namespace reprise::backend::test {

namespace {

CUDA_MEMCPY2D rows(State& x) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = things(x).memory;
  copy.dstDevice = things(x).memory + 2048;
  copy.srcPitch = copy.dstPitch = 64;
  copy.WidthInBytes = 32;
  copy.Height = 4;
  return copy;
}

CUDA_MEMCPY3D box(State& x) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = things(x).memory;
  copy.dstDevice = things(x).memory + 2048;
  copy.srcPitch = copy.dstPitch = 64;
  copy.srcHeight = copy.dstHeight = 4;
  copy.WidthInBytes = 32;
  copy.Height = copy.Depth = 2;
  return copy;
}

CUresult copy_batch(State& x, CUstream stream) {
  CUdeviceptr to = things(x).memory + 2048, from = things(x).memory;
  std::size_t bytes = 64, first = 0;
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  return CU(cuMemcpyBatchAsync)(&to, &from, &bytes, 1, &attributes, &first, 1, stream);
}

CUresult copy_box_batch(State& x, CUstream stream) {
  CUDA_MEMCPY3D_BATCH_OP copy{};
  copy.src.type = copy.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  copy.src.op.ptr.ptr = things(x).memory;
  copy.dst.op.ptr.ptr = things(x).memory + 2048;
  copy.extent = {32, 1, 1};
  copy.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  return CU(cuMemcpy3DBatchAsync)(1, &copy, 0, stream);
}

void add_copies_at_once(std::vector<RecordedCall>& calls) {
  add(calls, "cuMemcpyHtoD", [](State& x) { return CU(cuMemcpyHtoD)(things(x).memory, x.pinned, 64); });
  add(calls, "cuMemcpyHtoD pageable", [](State& x) { return CU(cuMemcpyHtoD)(things(x).memory, x.pageable, 64); });
  add(calls, "cuMemcpyDtoH", [](State& x) { return CU(cuMemcpyDtoH)(x.pinned, things(x).memory, 64); });
  add(calls, "cuMemcpyDtoH pageable", [](State& x) { return CU(cuMemcpyDtoH)(x.pageable, things(x).memory, 64); });
  add(calls, "cuMemcpyDtoD", [](State& x) { return CU(cuMemcpyDtoD)(things(x).memory + 2048, things(x).memory, 64); });
  add(calls, "cuMemcpyPeer", [](State& x) {
    Things& t = things(x);
    return CU(cuMemcpyPeer)(t.memory + 2048, t.context, t.memory, t.context, 64);
  });
  add(calls, "cuMemcpy2D", [](State& x) {
    const CUDA_MEMCPY2D copy = rows(x);
    return CU(cuMemcpy2D)(&copy);
  });
  add(calls, "cuMemcpy2DUnaligned", [](State& x) {
    const CUDA_MEMCPY2D copy = rows(x);
    return CU(cuMemcpy2DUnaligned)(&copy);
  });
  add(calls, "cuMemcpy3D", [](State& x) {
    const CUDA_MEMCPY3D copy = box(x);
    return CU(cuMemcpy3D)(&copy);
  });
  add(
      calls, "cuMemcpyHtoA", [](State& x) { return CU(cuMemcpyHtoA)(things(x).array, 0, x.pinned, 64); }, with_array);
  add(
      calls, "cuMemcpyAtoH", [](State& x) { return CU(cuMemcpyAtoH)(x.pinned, things(x).array, 0, 64); }, with_array);
  add(
      calls, "cuMemcpyDtoA", [](State& x) { return CU(cuMemcpyDtoA)(things(x).array, 0, things(x).memory, 64); },
      with_array);
  add(calls, "cuMemsetD16", [](State& x) { return CU(cuMemsetD16)(things(x).memory, 1, 8); });
  add(calls, "cuMemsetD32", [](State& x) { return CU(cuMemsetD32)(things(x).memory, 1, 8); });
  add(
      calls, "cuMemcpyAtoD", [](State& x) { return CU(cuMemcpyAtoD)(things(x).memory, things(x).array, 0, 64); },
      with_array);
  add(
      calls, "cuMemcpyAtoA", [](State& x) { return CU(cuMemcpyAtoA)(things(x).array, 32, things(x).array, 0, 32); },
      with_array);
  add(calls, "cuMemsetD2D8", [](State& x) { return CU(cuMemsetD2D8)(things(x).memory, 64, 1, 8, 4); });
  add(calls, "cuMemsetD2D16", [](State& x) { return CU(cuMemsetD2D16)(things(x).memory, 64, 1, 8, 4); });
  add(calls, "cuMemsetD2D32", [](State& x) { return CU(cuMemsetD2D32)(things(x).memory, 64, 1, 8, 4); });
}

}  // namespace

void add_copies(std::vector<RecordedCall>& calls) {
  add_copies_at_once(calls);
  add_on_streams(calls, "cuMemcpyHtoDAsync", [](State& x, CUstream stream) {
    return CU(cuMemcpyHtoDAsync)(things(x).memory, x.pinned, 64, stream);
  });
  add_on_streams(calls, "cuMemcpyHtoDAsync pageable", [](State& x, CUstream stream) {
    return CU(cuMemcpyHtoDAsync)(things(x).memory, x.pageable, 64, stream);
  });
  add_on_streams(calls, "cuMemcpyDtoHAsync", [](State& x, CUstream stream) {
    return CU(cuMemcpyDtoHAsync)(x.pinned, things(x).memory, 64, stream);
  });
  add_on_streams(calls, "cuMemcpyDtoDAsync", [](State& x, CUstream stream) {
    return CU(cuMemcpyDtoDAsync)(things(x).memory + 2048, things(x).memory, 64, stream);
  });
  add_on_streams(calls, "cuMemcpyPeerAsync", [](State& x, CUstream stream) {
    Things& t = things(x);
    return CU(cuMemcpyPeerAsync)(t.memory + 2048, t.context, t.memory, t.context, 64, stream);
  });
  add_on_streams(calls, "cuMemcpy2DAsync", [](State& x, CUstream stream) {
    const CUDA_MEMCPY2D copy = rows(x);
    return CU(cuMemcpy2DAsync)(&copy, stream);
  });
  add_on_streams(calls, "cuMemcpy3DAsync", [](State& x, CUstream stream) {
    const CUDA_MEMCPY3D copy = box(x);
    return CU(cuMemcpy3DAsync)(&copy, stream);
  });
  add_on_streams(
      calls, "cuMemcpyHtoAAsync",
      [](State& x, CUstream stream) { return CU(cuMemcpyHtoAAsync)(things(x).array, 0, x.pinned, 64, stream); },
      with_array);
  add_on_streams(
      calls, "cuMemcpyAtoHAsync",
      [](State& x, CUstream stream) { return CU(cuMemcpyAtoHAsync)(x.pinned, things(x).array, 0, 64, stream); },
      with_array);
  // The legacy default stream takes no batches.
  add(calls, "cuMemcpyBatchAsync s", [](State& x) { return copy_batch(x, x.s); });
  add(calls, "cuMemcpyBatchAsync nb", [](State& x) { return copy_batch(x, x.nb); });
  add(calls, "cuMemcpy3DBatchAsync s", [](State& x) { return copy_box_batch(x, x.s); });
  add(calls, "cuMemcpy3DBatchAsync nb", [](State& x) { return copy_box_batch(x, x.nb); });
  add_on_streams(calls, "cuMemsetD16Async",
                 [](State& x, CUstream stream) { return CU(cuMemsetD16Async)(things(x).memory, 1, 8, stream); });
  add_on_streams(calls, "cuMemsetD32Async",
                 [](State& x, CUstream stream) { return CU(cuMemsetD32Async)(things(x).memory, 1, 8, stream); });
  add_on_streams(calls, "cuMemsetD2D8Async", [](State& x, CUstream stream) {
    return CU(cuMemsetD2D8Async)(things(x).memory, 64, 1, 8, 4, stream);
  });
  add_on_streams(calls, "cuMemsetD2D16Async", [](State& x, CUstream stream) {
    return CU(cuMemsetD2D16Async)(things(x).memory, 64, 1, 8, 4, stream);
  });
  add_on_streams(calls, "cuMemsetD2D32Async", [](State& x, CUstream stream) {
    return CU(cuMemsetD2D32Async)(things(x).memory, 64, 1, 8, 4, stream);
  });
}

}  // namespace reprise::backend::test

#endif
