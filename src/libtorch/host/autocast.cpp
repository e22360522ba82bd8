// SPDX-License-Identifier: Apache-2.0
#include <ATen/autocast_mode.h>

#include <optional>

#include "libtorch/host/cuda_like_kernels.h"

namespace reprise::libtorch {
namespace {

at::Tensor refuse_binary_cross_entropy(const at::Tensor& /*input*/, const at::Tensor& /*target*/,
                                       const std::optional<at::Tensor>& /*weight*/, std::int64_t /*reduction*/) {
  TORCH_CHECK(false,
              "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast. Pass what the "
              "sigmoid gets to binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss, which are safe.");
}

}  // namespace

// libtorch's macros require the name `m` for the library, and its own namespaces.
void register_autocast(torch::Library& m) {  // NOLINT(readability-identifier-length)
  using namespace at;

#define REPRISE_LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
  AT_FORALL_LOWER_PRECISION_FP(REPRISE_LOWER_PRECISION)
#undef REPRISE_LOWER_PRECISION

#define REPRISE_FLOAT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
  AT_FORALL_FP32(REPRISE_FLOAT)
#undef REPRISE_FLOAT

#define REPRISE_FLOAT_BY_ARGUMENT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
  AT_FORALL_FP32_SET_OPT_DTYPE(REPRISE_FLOAT_BY_ARGUMENT)
#undef REPRISE_FLOAT_BY_ARGUMENT

  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)

#define REPRISE_WIDEST(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_PROMOTE(REPRISE_WIDEST)
#undef REPRISE_WIDEST

  m.impl("binary_cross_entropy", &refuse_binary_cross_entropy);
}

}  // namespace reprise::libtorch
