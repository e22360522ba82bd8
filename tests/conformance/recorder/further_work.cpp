// SPDX-License-Identifier: Apache-2.0
#if defined(__CUDACC__)

#include <cudaProfiler.h>

#include "tests/conformance/recorder/further_calls.h"

// Further calls of the recorder: work on streams, and what a stream is.

namespace reprise::backend::test {

namespace {

void CUDA_CB nothing(CUstream, CUresult, void*) {}

CUstreamBatchMemOpParams write_word(State& x) {
  CUstreamBatchMemOpParams write{};
  write.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  write.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  write.writeValue.address = things(x).memory;
  write.writeValue.value = 1;
  return write;
}

void add_launches(std::vector<RecordedCall>& calls) {
  add_on_streams(
      calls, "cuLaunchKernel",
      [](State& x, CUstream stream) {
        return CU(cuLaunchKernel)(things(x).function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
      },
      with_function);
  add_on_streams(
      calls, "cuLaunchCooperativeKernel",
      [](State& x, CUstream stream) {
        return CU(cuLaunchCooperativeKernel)(things(x).function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr);
      },
      with_function);
  add_on_streams(calls, "cuStreamAddCallback",
                 [](State&, CUstream stream) { return CU(cuStreamAddCallback)(stream, &nothing, nullptr, 0); });
  add_on_streams(calls, "cuEventRecord", [](State& x, CUstream stream) { return CU(cuEventRecord)(x.never, stream); });
}

void add_memory_operations(std::vector<RecordedCall>& calls) {
  add_on_streams(calls, "cuStreamWaitValue32", [](State& x, CUstream stream) {
    return CU(cuStreamWaitValue32)(stream, things(x).memory, 0, CU_STREAM_WAIT_VALUE_GEQ);
  });
  add_on_streams(calls, "cuStreamWaitValue64", [](State& x, CUstream stream) {
    return CU(cuStreamWaitValue64)(stream, things(x).memory, 0, CU_STREAM_WAIT_VALUE_GEQ);
  });
  add_on_streams(calls, "cuStreamWriteValue32",
                 [](State& x, CUstream stream) { return CU(cuStreamWriteValue32)(stream, things(x).memory, 1, 0); });
  add_on_streams(calls, "cuStreamWriteValue64",
                 [](State& x, CUstream stream) { return CU(cuStreamWriteValue64)(stream, things(x).memory, 1, 0); });
  add_on_streams(calls, "cuStreamBatchMemOp", [](State& x, CUstream stream) {
    CUstreamBatchMemOpParams write = write_word(x);
    return CU(cuStreamBatchMemOp)(stream, 1, &write, 0);
  });
  add_on_streams(
      calls, "cuMemPrefetchAsync",
      [](State& x, CUstream stream) {
        return CU(cuMemPrefetchAsync)(things(x).managed, 65536, on_device(things(x)), 0, stream);
      },
      with_managed);
  add_on_streams(
      calls, "cuStreamAttachMemAsync",
      [](State& x, CUstream stream) {
        return CU(cuStreamAttachMemAsync)(stream, things(x).managed, 0, CU_MEM_ATTACH_GLOBAL);
      },
      with_managed);
}

void add_stream_questions(std::vector<RecordedCall>& calls) {
  add_on_streams(calls, "cuStreamGetCtx", [](State&, CUstream stream) {
    CUcontext context = nullptr;
    return CU(cuStreamGetCtx)(stream, &context);
  });
  add_on_streams(calls, "cuStreamGetDevice", [](State&, CUstream stream) {
    CUdevice device = 0;
    return CU(cuStreamGetDevice)(stream, &device);
  });
  add_on_streams(calls, "cuStreamGetGreenCtx", [](State&, CUstream stream) {
    CUgreenCtx context = nullptr;
    return CU(cuStreamGetGreenCtx)(stream, &context);
  });
  add_on_streams(calls, "cuStreamGetAttribute", [](State&, CUstream stream) {
    CUstreamAttrValue value{};
    return CU(cuStreamGetAttribute)(stream, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value);
  });
  add_on_streams(calls, "cuStreamSetAttribute", [](State&, CUstream stream) {
    CUstreamAttrValue value{};
    value.syncPolicy = CU_SYNC_POLICY_AUTO;
    return CU(cuStreamSetAttribute)(stream, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value);
  });
  add(calls, "cuStreamCopyAttributes from b to s", [](State& x) { return CU(cuStreamCopyAttributes)(x.s, x.b); });
  add(calls, "cuStreamCopyAttributes from b to nb", [](State& x) { return CU(cuStreamCopyAttributes)(x.nb, x.b); });
  add(calls, "cuStreamCopyAttributes to b from s", [](State& x) { return CU(cuStreamCopyAttributes)(x.b, x.s); });
}

}  // namespace

void add_further_work(std::vector<RecordedCall>& calls) {
  add_launches(calls);
  add_memory_operations(calls);
  add_stream_questions(calls);
  add(calls, "cuCtxRecordEvent", [](State& x) { return CU(cuCtxRecordEvent)(things(x).context, x.never); });
  add(calls, "cuCtxWaitEvent out", [](State& x) { return CU(cuCtxWaitEvent)(things(x).context, x.out); });
  add(calls, "cuEventCreate", [](State& x) {
    CUevent made = nullptr;
    return then(CU(cuEventCreate)(&made, CU_EVENT_DISABLE_TIMING), x, [&] { (void)CU(cuEventDestroy)(made); });
  });
  add(calls, "cuStreamCreate", [](State& x) {
    CUstream made = nullptr;
    return then(CU(cuStreamCreate)(&made, CU_STREAM_NON_BLOCKING), x, [&] { (void)CU(cuStreamDestroy)(made); });
  });
  add(calls, "cuProfilerStart",
      [](State& x) { return then(CU(cuProfilerStart)(), x, [] { (void)CU(cuProfilerStop)(); }); });
  add(
      calls, "cuProfilerStop",
      [](State& x) { return then(CU(cuProfilerStop)(), x, [&] { things(x).is_profiling = false; }); },
      [](State& x) {
        require_cuda(CU(cuProfilerStart)(), "cuProfilerStart");
        things(x).is_profiling = true;
      });
}

}  // namespace reprise::backend::test

#endif
