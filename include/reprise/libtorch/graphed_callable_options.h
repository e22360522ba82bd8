// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/libtorch/detail/install.h"
#include "reprise/memory.h"
#include "reprise/stream.h"

/// \file
/// GraphedCallableOptions: options of graphed_callables.h.

namespace reprise::libtorch {

/// The memory of the gradients that a graphed callable returns to autograd.
enum class Gradients {
  fresh,  ///< new memory at each backward: they stay valid, and can be accumulated over several backwards
  alias,  ///< memory of the graph, as in PyTorch: the next backward or call of the same pool overwrites them
};

/// The memory of the results of a graphed callable.
enum class Outputs {
  alias,  ///< memory of the graph. The next call overwrites them, and using them in autograd or a graphed callable is
          ///< an error from then on
  copy,   ///< new memory at each call
};

/// Options of make_graphed_callables().
struct GraphedCallableOptions {
  int num_warmup_iters = 3;         ///< eager runs of each callable, forward and backward, before its capture
  bool allow_unused_input = false;  ///< allows arguments and parameters that need a gradient and get none
  /// The memory pool of the graphs: an id of graph_pool_handle() or of CUDAGraph::pool(), to share it. The default id:
  /// a private pool.
  MempoolId pool = {};
  CaptureMode capture_error_mode = CaptureMode::global;  ///< which calls are allowed during the captures
  Gradients gradients = Gradients::fresh;
  Outputs outputs = Outputs::alias;
  /// As in GraphOptions, for both graphs: each call checks that memory which they use and do not own, such as
  /// parameters or tensors that a function keeps, was not freed, and throws DeadInputError otherwise.
  bool check_input_liveness = false;
  bool enable_annotations = false;  ///< as in GraphOptions, for both graphs; the backward has those of the forward
};

}  // namespace reprise::libtorch
