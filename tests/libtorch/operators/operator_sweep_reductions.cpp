// SPDX-License-Identifier: Apache-2.0
#include "tests/libtorch/operators/operator_sweep.h"

// Operators that make one value of many, orders and losses.

namespace reprise::libtorch::test::reductions {
namespace {

const std::vector<Input> any{normal({4, 6})}, deep{normal({2, 3, 4})}, two{normal({4, 6}), normal({4, 6})},
    scores{normal({4, 6}), integers({4}, 0, 6)}, chances{uniform({4, 6}, 0.1, 0.9), uniform({4, 6}, 0, 1)},
    signs{normal({4, 6}), [] {
            return torch::rand({4, 6}).sub_(0.5).sign();
          }};

}  // namespace

SweptOperators reductions() {
  return {
      swept("sum", any, [](In x) { return x[0].sum(); }),
      swept("sum of a dimension", deep, [](In x) { return x[0].sum(1); }),
      swept("sum of two dimensions, kept", deep,
            [](In x) {
              return x[0].sum(c10::IntArrayRef{0, 2}, true);
            }),
      swept("nansum", {[] {
              return torch::randn({4, 6}).log();
            }},
            [](In x) { return x[0].nansum(1); }),
      swept("mean", any, [](In x) { return x[0].mean(); }),
      swept("mean of a dimension", deep, [](In x) { return x[0].mean(-1); }),
      swept("nanmean", any, [](In x) { return x[0].nanmean(0); }),
      forward("prod", any, [](In x) { return x[0].prod(1); }),  // the backward queries whether there are zeros
      swept("std", any, [](In x) { return x[0].std(1, true); }),
      swept("var", any, [](In x) { return x[0].var(); }),
      swept("var_mean", any, [](In x) { return torch::var_mean(x[0], 1, true); }),
      swept("std_mean", any, [](In x) { return torch::std_mean(x[0], 1, true); }),
      swept("amax", deep,
            [](In x) {
              return x[0].amax({0, 2});
            }),
      swept("amin", any, [](In x) { return x[0].amin(1, true); }),
      forward("aminmax", any, [](In x) { return x[0].aminmax(); }),
      forward("max", any, [](In x) { return x[0].max(); }),
      swept("max of a dimension", any, [](In x) { return x[0].max(1); }),
      forward("min", any, [](In x) { return x[0].min(); }),
      swept("min of a dimension", any, [](In x) { return x[0].min(0, true); }),
      forward("argmax", any, [](In x) { return x[0].argmax(1); }),
      forward("argmin", any, [](In x) { return x[0].argmin(); }),
      forward("all", any, [](In x) { return (x[0] > -1).all(1); }),
      forward("any", any, [](In x) { return (x[0] > 2).any(); }),
      forward("median", any, [](In x) { return x[0].median(); }),
      swept("median of a dimension", any, [](In x) { return x[0].median(1); }),
      swept("nanmedian", any, [](In x) { return x[0].nanmedian(0); }),
      swept("mode", any, [](In x) { return x[0].round().mode(1); }),
      swept("quantile", any, [](In x) { return x[0].quantile(0.3, 1); }),
      swept("norm", any, [](In x) { return x[0].norm(); }),
      swept("norm of a dimension", any, [](In x) { return x[0].norm(1, 1); }),
      swept("linalg_vector_norm", any, [](In x) { return torch::linalg_vector_norm(x[0], 3, 1); }),
      swept("linalg_matrix_norm", any, [](In x) { return torch::linalg_matrix_norm(x[0]); }),
      swept("renorm", any, [](In x) { return x[0].renorm(2, 0, 0.5); }),
      forward("count_nonzero", any, [](In x) { return x[0].round().count_nonzero(c10::IntArrayRef{1}); }),
      swept("trapezoid", any, [](In x) { return torch::trapezoid(x[0]); }),
      swept("pdist", any, [](In x) { return torch::pdist(x[0]); }),
      swept("cdist", two, [](In x) { return torch::cdist(x[0], x[1], 1); }),
      swept("logsumexp", any, [](In x) { return x[0].logsumexp(1); }),
      forward("histc", any, [](In x) { return x[0].histc(5, -2, 2); }),
  };
}

SweptOperators orders_and_scans() {
  const std::vector<Input> sorted{[] { return std::get<0>(torch::randn({6}).sort()); }, normal({4, 6})};
  return {
      swept("sort", any, [](In x) { return x[0].sort(); }),
      swept("sort, stable and descending", any, [](In x) { return x[0].round().sort(true, 0, true); }),
      forward("argsort", any, [](In x) { return x[0].argsort(); }),
      swept("msort", any, [](In x) { return x[0].msort(); }),
      swept("topk", any, [](In x) { return x[0].topk(3); }),
      swept("kthvalue", any, [](In x) { return x[0].kthvalue(2); }),
      swept("cumsum", any, [](In x) { return x[0].cumsum(1); }),
      forward("cumprod", any, [](In x) { return x[0].cumprod(0); }),  // as that of prod
      swept("cummax", any, [](In x) { return x[0].cummax(1); }),
      swept("cummin", any, [](In x) { return x[0].cummin(1); }),
      swept("logcumsumexp", any, [](In x) { return x[0].logcumsumexp(1); }),
      swept("cumulative_trapezoid", any, [](In x) { return torch::cumulative_trapezoid(x[0]); }),
      swept("diff", any, [](In x) { return x[0].diff(); }),
      forward("searchsorted", sorted, [](In x) { return torch::searchsorted(x[0], x[1]); }),
      forward("bucketize", sorted, [](In x) { return torch::bucketize(x[1], x[0]); }),
  };
}

SweptOperators losses() {
  using torch::Reduction::Mean;
  using torch::Reduction::None;
  using torch::Reduction::Sum;
  const std::vector<Input> weighted{normal({4, 6}), integers({4}, 0, 6), positive({6})};
  return {
      swept("mse_loss", two, [](In x) { return torch::mse_loss(x[0], x[1]); }),
      swept("mse_loss, summed", two, [](In x) { return torch::mse_loss(x[0], x[1], Sum); }),
      swept("mse_loss, each", two, [](In x) { return torch::mse_loss(x[0], x[1], None); }),
      swept("l1_loss", two, [](In x) { return torch::l1_loss(x[0], x[1]); }),
      swept("smooth_l1_loss", two, [](In x) { return torch::smooth_l1_loss(x[0], x[1]); }),
      swept("huber_loss", two, [](In x) { return torch::huber_loss(x[0], x[1], Mean, 0.5); }),
      swept("cross_entropy_loss", scores, [](In x) { return torch::cross_entropy_loss(x[0], x[1]); }),
      swept("cross_entropy_loss, smoothed", scores,
            [](In x) { return torch::cross_entropy_loss(x[0], x[1], {}, Mean, -100, 0.1); }),
      swept("cross_entropy_loss of probabilities", chances, [](In x) { return torch::cross_entropy_loss(x[0], x[1]); }),
      swept("nll_loss", scores, [](In x) { return torch::nll_loss(x[0], x[1]); }),
      swept("nll_loss, each, weighted", weighted,
            [](In x) { return torch::nll_loss(x[0], x[1], x[2].detach(), None, 2); }),
      swept("nll_loss2d", {normal({2, 3, 4, 4}), integers({2, 4, 4}, 0, 3)},
            [](In x) { return torch::nll_loss2d(x[0], x[1]); }),
      swept("binary_cross_entropy", chances, [](In x) { return torch::binary_cross_entropy(x[0], x[1]); }),
      swept("binary_cross_entropy_with_logits", chances,
            [](In x) { return torch::binary_cross_entropy_with_logits(x[0], x[1]); }),
      swept("kl_div", chances, [](In x) { return torch::kl_div(x[0].log(), x[1]); }),
      swept("poisson_nll_loss", {normal({4, 6}), positive({4, 6})},
            [](In x) { return torch::poisson_nll_loss(x[0], x[1], true, true, 1e-8, Mean); }),
      swept("hinge_embedding_loss", signs, [](In x) { return torch::hinge_embedding_loss(x[0], x[1].detach()); }),
      swept("soft_margin_loss", signs, [](In x) { return torch::soft_margin_loss(x[0], x[1].detach()); }),
      swept("cosine_embedding_loss", {normal({4, 6}), normal({4, 6}), [] { return torch::randn({4}).sign(); }},
            [](In x) { return torch::cosine_embedding_loss(x[0], x[1], x[2].detach()); }),
      swept("margin_ranking_loss", {normal({4}), normal({4}), [] { return torch::randn({4}).sign(); }},
            [](In x) { return torch::margin_ranking_loss(x[0], x[1], x[2].detach(), 0.1); }),
      swept("triplet_margin_loss", {normal({4, 6}), normal({4, 6}), normal({4, 6})},
            [](In x) { return torch::triplet_margin_loss(x[0], x[1], x[2]); }),
      swept("multi_margin_loss", scores, [](In x) { return torch::multi_margin_loss(x[0], x[1]); }),
      swept("multilabel_margin_loss",
            {normal({2, 3}),
             [] {
               return torch::tensor({{2, 0, -1}, {1, -1, 0}});
             }},
            [](In x) { return torch::multilabel_margin_loss(x[0], x[1]); }),
      swept("multilabel_soft_margin_loss", chances,
            [](In x) { return torch::nn::functional::multilabel_soft_margin_loss(x[0], x[1].detach().round()); }),
  };
}

}  // namespace reprise::libtorch::test::reductions
