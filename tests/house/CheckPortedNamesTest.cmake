# SPDX-License-Identifier: Apache-2.0
# Runs scripts/check-ported-names (CHECK) on a made-up header, a made-up torch and pages for them, which it writes to
# FOLDER.

set(header [[
extern __host__ cudaError_t CUDARTAPI cudaStreamCreate(cudaStream_t *pStream);
extern __host__ cudaError_t CUDARTAPI cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream);
extern __host__ cudaError_t CUDARTAPI cudaGraphicsMapResources(int count);
extern __host__ cudaError_t CUDARTAPI cudaSignalExternalSemaphoresAsync(int count);
extern __host__ cudaError_t CUDARTAPI cudaMalloc(void **devPtr, size_t size);
]])
set(from_cuda [[
A row of text names `cudaMalloc`.

| CUDA | here |
|---|---|
| `cudaStreamCreate` | `Stream`, not `cudaFree` |
| `cudaGraphLaunch` | `replay()` |
| `cudaSignalExternalSemaphoresAsync` | nothing |
| `cudaGraphGetId`, `cudaGraphExecGetId` (newer than 13.0) | `id()` |
]])
set(names [[
__all__ = [
    # Types
    "Stream",  # "NotAName"
    "graph",
]
]])
set(graphs [[
class CUDAGraph(_CUDAGraph):
    def __new__(cls):
    def replay(self) -> None:
class Other:
    def unknown(self):
]])
set(stub [[
class _CudaStreamBase(Stream):
    priority: _int
    def __new__(
        cls,
        keyword: _int = 0,
    ) -> Self: ...
    def query(self) -> _bool: ...

class _CUDAGraph:
    def register_generator_state(self, Generator) -> None: ...
class Stream:
    hidden: _int
]])
set(at_header [[
MempoolId_t graph_pool_handle();
struct TORCH_CUDA_CPP_API CUDAGraph {
  CUDAGraph(bool keep_graph=false);
  ~CUDAGraph();
  // See here(for more)
  void replay();
#if !defined(USE_ROCM)
#endif
 private:
  void hidden();
};
]])
set(from_python [[
| `torch.cuda.Stream`, `torch.cuda.graph` | `Stream` |
| `CUDAGraph.replay`, `CUDAGraph.register_generator_state` | `replay()` |
| `Stream.priority`, `Stream.query` | `query()` |
]])
set(from_at [[
| `CUDAGraph`, `replay`, `graph_pool_handle` | the same |
]])

# Writes the files and runs the check of `kind`; `code` is what it must return, `expected` what it must print.
function(expect kind code expected)
  file(REMOVE_RECURSE "${FOLDER}")
  file(WRITE "${FOLDER}/cuda_runtime_api.h" "${header}")
  file(WRITE "${FOLDER}/cuda/__init__.py" "${names}")
  file(WRITE "${FOLDER}/cuda/graphs.py" "${graphs}")
  file(WRITE "${FOLDER}/cuda/streams.py" "")
  file(WRITE "${FOLDER}/_C/__init__.pyi" "${stub}")
  file(WRITE "${FOLDER}/include/ATen/cuda/CUDAGraph.h" "${at_header}")
  file(WRITE "${FOLDER}/docs/from-cuda.md" "${from_cuda}")
  file(WRITE "${FOLDER}/docs/from-python.md" "${from_python}")
  file(WRITE "${FOLDER}/docs/from-at-cuda-graph.md" "${from_at}")
  execute_process(COMMAND "${CHECK}" "${kind}" "${FOLDER}" "${FOLDER}" RESULT_VARIABLE result OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  string(FIND "${output}" "${expected}" found)
  if(NOT result EQUAL code OR found EQUAL -1)
    message(FATAL_ERROR "${kind}: expected ${code} and \"${expected}\"; found ${result} and:\n${output}")
  endif()
endfunction()

# With one text replaced by another, in the file that the variable `file` has.
function(expect_with kind file from to expected)
  string(REPLACE "${from}" "${to}" ${file} "${${file}}")
  expect("${kind}" 1 "${expected}")
endfunction()

expect(cuda 0 "docs/from-cuda.md: 3 names")
expect(torch 0 "docs/from-python.md: 6 names\ndocs/from-at-cuda-graph.md: 3 names")
expect_with(cuda from_cuda "| `cudaGraphLaunch`" "| `cudaGraphUpload`" "docs/from-cuda.md: has no row for cudaGraphLaunch")
expect_with(cuda from_cuda "| `cudaGraphLaunch`" "| `cudaGraphUpload`" "cudaGraphUpload is not there, and has a row")
expect_with(cuda from_cuda "`cudaGraphLaunch`" "`cudaGraphLaunch`, `cudaStreamCreate`" "cudaStreamCreate has two rows")
expect_with(cuda from_cuda "(newer than 13.0)" "(in 13.5)" "cudaGraphExecGetId is not there, and has a row")
expect_with(cuda header "cudaGraphLaunch(" "cudaGraphGetParams(" "docs/from-cuda.md: has no row for cudaGraphGetParams")
expect_with(cuda header "CUDARTAPI" "EXPORTED" "docs/from-cuda.md: no names were found")
expect_with(torch names "\"graph\"," "\"graph\", \"graphs\"," "docs/from-python.md: has no row for torch.cuda.graphs")
expect_with(torch graphs "replay" "reset" "docs/from-python.md: has no row for CUDAGraph.reset")
expect_with(torch stub "priority" "device" "docs/from-python.md: has no row for Stream.device")
expect_with(torch at_header "replay" "reset" "docs/from-at-cuda-graph.md: has no row for reset")
