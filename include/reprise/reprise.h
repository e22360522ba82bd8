// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The whole library, except philox.h (it needs Random123) and the components: cublas.h, libtorch/.

/// \namespace reprise
/// The public interface is this namespace and reprise::libtorch, in the headers of include/reprise/. Other nested
/// namespaces (`detail`, `*_detail`, `backend`, `graphs`, `random`, ...) and what is marked "For internal use" may
/// change at any time.
///
/// \namespace reprise::libtorch
/// The component `libtorch`: captures of tensors, graphed callables, tensors of the host device.
///
/// \namespace reprise::kernels_host
/// An inline namespace: write `reprise::launch`, not this. It holds the host compiler's versions of kernel.h; nvcc uses
/// another one, `reprise::kernels_nvcc`, so that both can be linked into one program.

#include "reprise/accesses.h"
#include "reprise/annotations.h"
#include "reprise/batch.h"
#include "reprise/breakable.h"
#include "reprise/cache_key.h"
#include "reprise/cache_result.h"
#include "reprise/cache_statistics.h"
#include "reprise/capture.h"
#include "reprise/capture_options.h"
#include "reprise/capture_report.h"
#include "reprise/child_graph.h"
#include "reprise/compare.h"
#include "reprise/control_flow.h"
#include "reprise/copy_value.h"
#include "reprise/detail/public_call.h"
#include "reprise/device.h"
#include "reprise/device_code.h"
#include "reprise/device_view.h"
#include "reprise/eager_function.h"
#include "reprise/error.h"
#include "reprise/event.h"
#include "reprise/frozen_values.h"
#include "reprise/graph.h"
#include "reprise/graph_cache.h"
#include "reprise/graph_diff.h"
#include "reprise/graph_memory.h"
#include "reprise/graph_types.h"
#include "reprise/handles.h"
#include "reprise/hooks.h"
#include "reprise/host_device.h"
#include "reprise/host_simulator.h"
#include "reprise/kernel.h"
#include "reprise/launch_host.h"
#include "reprise/liveness.h"
#include "reprise/log.h"
#include "reprise/memory.h"
#include "reprise/nodes.h"
#include "reprise/parameter.h"
#include "reprise/random.h"
#include "reprise/stream.h"
#include "reprise/timings.h"
#include "reprise/version.h"
#include "reprise/workspace.h"
