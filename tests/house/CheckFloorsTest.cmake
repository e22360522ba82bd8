# SPDX-License-Identifier: Apache-2.0
# Runs scripts/check-floors (CHECK) on made-up trees, which it writes to FOLDER: one of includes that are allowed, one of
# includes each of which must be refused, and some of includes that form circles.

# A file, and what it includes: each line becomes one include.
set(allowed [[
src/backend/check.cpp           "backend/rules/rules.h"
src/backend/check.cpp           "reprise/error.h"
src/backend/check.cpp           "reprise/small.h"
src/graph/nodes.cpp             "reprise/compared.h"
src/backend/check.cpp           "text/format.h"
src/backend/check.cpp           <memory>
src/backend/check.cpp           <sys/mman.h>
src/backend/host/run/work.cpp   "backend/host/host_device.h"
src/backend/cuda/driver.cpp     <cuda.h>
src/captures/registry.cpp       "backend/check.h"
src/memory/copy.cpp             "kernels/batch.h"
src/memory/copy.cpp             "captures/registry.h"
src/random/draws.cpp            "memory/block.h"
src/graph/listeners/listeners.cpp         "inspect/report/listener.h"
src/inspect/timings/times.cpp   "graph/state.h"
src/breakable/recording.cpp     "inspect/report/listener.h"
src/cache/entry.cpp             "breakable/recording.h"
src/c_api/graphs.cpp            "reprise/graph.h"
src/libtorch/state.cpp          "libtorch/cuda/tensors.h"
src/libtorch/state.cpp          <ATen/core/Tensor.h>
src/libtorch/distributed/cuda/nccl.cpp  <cuda.h>
src/libtorch/optim/steps.cpp    "libtorch/optim/core.h"
src/libtorch/optim/steps.cpp    "reprise/libtorch/optim.h"
src/inspect/timings/times.cpp   "reprise/timings.h"
include/reprise/reprise.h       "reprise/compare.h"
include/reprise/libtorch/graphed_step.h  "reprise/libtorch/optim.h"
src/libtorch/cuda/tensors.cpp   <c10/cuda/CUDAStream.h>
src/libtorch/cuda/tensors.cpp   <cuda.h>
src/text/format.cpp             <fmt/format.h>
src/kernels/batch.h             "text/format.h"
src/kernels/batch.h             "reprise/kernel.h"
include/reprise/graph.h         "reprise/stream.h"
include/reprise/graph.h         <vector>
include/reprise/c_api.h         <stddef.h>
include/reprise/c_api.h         <stdint.h>
include/reprise/cublas.h        <cublas_v2.h>
include/reprise/philox.h        <Random123/philox.h>
include/reprise/libtorch/graph.h  <ATen/core/Tensor.h>
]])
# Public headers, which lie where those do that they include. `compared.h` comes before `other.h`, by which it does.
set(headers [[
include/reprise/bodies.h        "reprise/cache_body.h"
include/reprise/child.h         "reprise/graph.h"
include/reprise/compared.h      "reprise/other.h"
include/reprise/other.h         "reprise/child.h"
include/reprise/small.h         "reprise/error.h"
include/reprise/update.h        "reprise/graph_diff.h"
]])
# The same, and what is said of it.
set(refused [[
src/backend/check.cpp           "captures/registry.h"        goes up, from backend to captures
src/backend/check.cpp           "reprise/graph.h"            goes up, from backend to graph
src/captures/registry.cpp       "memory/block.h"             goes up, from captures to memory
src/memory/copy.cpp             "random/draws.h"             goes up, from memory to random
src/backend/check.cpp           "reprise/nodes.h"            goes up, from backend to graph
src/backend/check.cpp           "reprise/update.h"           goes up, from backend to graph
src/memory/copy.cpp             "reprise/child.h"            goes up, from memory to graph
src/memory/copy.cpp             "reprise/compared.h"         goes up, from memory to graph
src/memory/copy.cpp             "reprise/graph_cache.h"      goes up, from memory to cache
src/breakable/recording.cpp     "reprise/bodies.h"           goes up, from breakable to cache
src/random/draws.cpp            "graph/state.h"              goes up, from random to graph
src/graph/state.cpp             "inspect/report/listener.h"  goes up, from graph to inspect
src/graph/listeners/listeners.cpp         "libtorch/state.h"           goes up, from graph to libtorch
src/inspect/report/text.cpp     <libtorch/state.h>           goes up, from inspect to libtorch
src/graph/state.cpp             "breakable/recording.h"      goes up, from graph to breakable
src/cache/entry.cpp             "c_api/objects.h"            belongs to the component c
src/inspect/report/text.cpp     "inspect/timings/times.h"    belongs to the component timings
src/inspect/timings/times.cpp   "inspect/compare/runs.h"     belongs to the component compare
src/graph/state.cpp             "reprise/compare.h"          belongs to the component compare
src/libtorch/state.cpp          "libtorch/optim/steps.h"     belongs to the component libtorch_optim
src/libtorch/optim/steps.cpp    "reprise/libtorch/distributed.h"  belongs to the component libtorch_distributed
include/reprise/graph.h         "reprise/timings.h"          belongs to the component timings
include/reprise/libtorch/graph.h  "reprise/libtorch/grad_scaler.h"  belongs to the component libtorch_optim
src/c_api/graphs.cpp            <ATen/core/Tensor.h>         belongs to libtorch
src/kernels/batch.h             "backend/check.h"            is included by a leaf
src/memory/copy.cpp             "backend/host/work.h"        is private
src/backend/check.cpp           "backend/cuda/driver.h"      is private
src/backend/cuda/driver.cpp     "backend/host/work.h"        is private
src/attic/old.cpp               "text/format.h"              is included by a file that lies on no floor
src/graph/state.cpp             "graph_state.h"              lies on no floor
src/graph/state.cpp             GRAPH_STATE_HEADER           names no file
src/graph/state.cpp             <fmt/format.h>               belongs to fmt
src/graph/state.cpp             <ATen/core/Tensor.h>         belongs to libtorch
src/graph/state.cpp             "reprise/libtorch/graph.h"   belongs to libtorch
src/graph/state.cpp             <cuda.h>                     belongs to CUDA
src/graph/state.cpp             <nvtx3/nvToolsExt.h>         belongs to CUDA
src/graph/state.cpp             "reprise/cublas.h"           belongs to CUDA
src/libtorch/state.cpp          <c10/cuda/CUDAStream.h>      belongs to CUDA
src/random/draws.cpp            <Random123/philox.h>         belongs to Random123
src/random/draws.cpp            "reprise/philox.h"           needs Random123: only programs may include it
include/reprise/graph.h         "reprise/philox.h"           needs Random123: only programs may include it
include/reprise/graph.h         "graph/state.h"              is included by a public header
include/reprise/graph.h         <stddef.h>                   is included by a public header
include/reprise/graph.h         <unistd.h>                   is included by a public header
include/reprise/graph.h         <fmt/format.h>               belongs to fmt
include/reprise/graph.h         <torch/torch.h>              belongs to libtorch
include/reprise/graph.h         <cuda_runtime_api.h>         belongs to CUDA
]])

# Writes a tree with an include for each line of `lines`, and checks it. Sets `rows` (the lines), `expected` (how the
# output's lines begin for those with a third column), `result` and `output`.
macro(check_tree name lines)
  file(REMOVE_RECURSE "${FOLDER}/${name}")
  file(MAKE_DIRECTORY "${FOLDER}/${name}/src" "${FOLDER}/${name}/include")
  set(expected "")
  string(REGEX MATCHALL "[^\n]+" rows "${lines}")
  foreach(row IN LISTS rows)
    string(REGEX MATCH "^([^ ]+) +([^ ]+) *(.*)$" matched "${row}")
    set(file "${CMAKE_MATCH_1}")
    set(included "${CMAKE_MATCH_2}")
    set(said "${CMAKE_MATCH_3}")
    file(APPEND "${FOLDER}/${name}/${file}" "#include ${included}\n")
    file(STRINGS "${FOLDER}/${name}/${file}" written)
    list(LENGTH written line)
    if(NOT included MATCHES "[<\"]")
      set(included "#include")
    endif()
    if(said)
      list(APPEND expected "${file}:${line}: ${included} ${said}")
    endif()
  endforeach()
  execute_process(COMMAND "${CHECK}" "${FOLDER}/${name}" RESULT_VARIABLE result OUTPUT_VARIABLE output)
endmacro()

check_tree(allowed "${headers}${allowed}")
list(LENGTH rows count)
if(NOT result EQUAL 0 OR NOT output MATCHES "^floors: ${count} includes of [0-9]+ files go down, with 0 known circles\n$")
  message(FATAL_ERROR "expected ${count} includes to be allowed; exit status ${result}:\n${output}")
endif()

check_tree(refused "${headers}${refused}")
list(LENGTH rows count)
list(LENGTH expected bad)
if(NOT result EQUAL 1 OR NOT output MATCHES "floors: ${bad} of ${count} includes and circles refused\n$")
  message(FATAL_ERROR "expected ${bad} includes to be refused; exit status ${result}:\n${output}")
endif()
foreach(line IN LISTS expected)
  string(FIND "${output}" "${line}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "expected a line that begins with\n  ${line}\nfound\n${output}")
  endif()
endforeach()

# Circles, of three pairs of files in two rooms; with those that are listed, a list with rows too many, and one with a row
# that cannot be read. A leaf's room is not one of the floor.
set(circle [[
src/graph/a.cpp        "graph/b.h"
src/graph/b.h          "graph/nodes/c.h"
src/graph/nodes/c.cpp  "graph/a.h"
src/graph/nodes/c.cpp  "graph/nodes/c.h"
src/graph/nodes/c.cpp  "text/format.h"
]])
macro(check_circle name listed expected_result)
  file(REMOVE_RECURSE "${FOLDER}/circles")
  file(WRITE "${FOLDER}/circles/scripts/circles.txt" "${listed}")
  string(REGEX MATCHALL "[^\n]+" rows "${circle}")
  file(MAKE_DIRECTORY "${FOLDER}/circles/include")
  foreach(row IN LISTS rows)
    string(REGEX MATCH "^([^ ]+) +(.*)$" matched "${row}")
    file(APPEND "${FOLDER}/circles/${CMAKE_MATCH_1}" "#include ${CMAKE_MATCH_2}\n")
  endforeach()
  execute_process(COMMAND "${CHECK}" "${FOLDER}/circles" RESULT_VARIABLE result OUTPUT_VARIABLE output)
  if(NOT result EQUAL ${expected_result})
    message(FATAL_ERROR "${name}: expected the exit status ${expected_result}; found ${result}:\n${output}")
  endif()
  foreach(line IN ITEMS ${ARGN})
    string(FIND "${output}" "${line}\n" at)
    if(at EQUAL -1)
      message(FATAL_ERROR "${name}: expected the line\n  ${line}\nfound\n${output}")
    endif()
  endforeach()
endmacro()
set(files "files: graph/nodes/c -> graph/a: c needs a.\n")
set(rooms "rooms: graph/nodes -> graph: c needs a.\n")
check_circle("not listed" "" 1
  "files form a circle that scripts/circles.txt does not list:"
  "  src/graph/a.cpp:1: graph/a -> graph/b"
  "  src/graph/b.h:1: graph/b -> graph/nodes/c"
  "  src/graph/nodes/c.cpp:1: graph/nodes/c -> graph/a"
  "rooms form a circle that scripts/circles.txt does not list:"
  "  src/graph/b.h:1: graph -> graph/nodes"
  "  src/graph/nodes/c.cpp:1: graph/nodes -> graph"
  "floors: 2 of 5 includes and circles refused")
check_circle("listed" "# Both.\n\n${files}${rooms}" 0 "floors: 5 includes of 3 files go down, with 2 known circles")
check_circle("one of two listed" "${files}" 1 "rooms form a circle that scripts/circles.txt does not list:")
check_circle("a row too many" "${files}${rooms}files: graph/a -> graph/b: It does.\n" 1
  "scripts/circles.txt:1: graph/nodes/c -> graph/a closes no circle any more: remove the row"
  "scripts/circles.txt:3: graph/a -> graph/b closes no circle any more: remove the row")
check_circle("an include that is gone" "${files}${rooms}files: graph/b -> graph/a: It did.\n" 1
  "scripts/circles.txt:3: graph/b includes nothing of graph/a any more: remove the row")
check_circle("no reason" "${rooms}files: graph/nodes/c -> graph/a\n" 1
  "scripts/circles.txt:2: expected \"rooms: FROM -> TO: REASON\" or \"files: ...\"")
