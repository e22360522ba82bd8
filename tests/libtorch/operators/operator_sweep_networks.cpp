// SPDX-License-Identifier: Apache-2.0
#include "tests/libtorch/operators/operator_sweep.h"

// What layers of networks are made of.

namespace reprise::libtorch::test::networks {
namespace {

namespace F = torch::nn::functional;

const std::vector<Input> line{normal({2, 3, 8})}, image{normal({2, 3, 8, 8})}, volume{normal({1, 2, 4, 4, 4})};

}  // namespace

SweptOperators convolutions() {
  return {
      swept("conv1d", {normal({2, 3, 8}), normal({4, 3, 3}), normal({4})},
            [](In x) { return torch::conv1d(x[0], x[1], x[2]); }),
      swept("conv2d", {normal({2, 3, 8, 8}), normal({4, 3, 3, 3}), normal({4})},
            [](In x) { return torch::conv2d(x[0], x[1], x[2], 1, 1); }),
      swept("conv2d without bias", {normal({2, 3, 8, 8}), normal({4, 3, 3, 3})},
            [](In x) { return torch::conv2d(x[0], x[1]); }),
      swept("conv2d, strided and dilated", {normal({2, 3, 9, 9}), normal({4, 3, 3, 3}), normal({4})},
            [](In x) { return torch::conv2d(x[0], x[1], x[2], 2, 2, 2); }),
      swept("conv2d in groups", {normal({2, 4, 6, 6}), normal({4, 1, 3, 3}), normal({4})},
            [](In x) { return torch::conv2d(x[0], x[1], x[2], 1, 1, 1, 4); }),
      swept("conv2d of one image", {normal({3, 8, 8}), normal({4, 3, 3, 3}), normal({4})},
            [](In x) { return torch::conv2d(x[0], x[1], x[2]); }),
      swept("conv2d, padded to the same size", {normal({2, 3, 8, 8}), normal({4, 3, 3, 3}), normal({4})},
            [](In x) { return torch::conv2d(x[0], x[1], x[2], 1, "same"); }),
      swept("conv3d", {normal({1, 2, 4, 4, 4}), normal({3, 2, 2, 2, 2}), normal({3})},
            [](In x) { return torch::conv3d(x[0], x[1], x[2]); }),
      swept("conv_transpose1d", {normal({2, 3, 8}), normal({3, 4, 3}), normal({4})},
            [](In x) { return torch::conv_transpose1d(x[0], x[1], x[2]); }),
      swept("conv_transpose2d", {normal({2, 3, 5, 5}), normal({3, 4, 3, 3}), normal({4})},
            [](In x) { return torch::conv_transpose2d(x[0], x[1], x[2], 2, 1, 1); }),
      swept("conv_transpose3d", {normal({1, 2, 3, 3, 3}), normal({2, 3, 2, 2, 2}), normal({3})},
            [](In x) { return torch::conv_transpose3d(x[0], x[1], x[2]); }),
      swept("conv_tbc", {normal({8, 2, 3}), normal({3, 3, 4}), normal({4})},
            [](In x) { return torch::conv_tbc(x[0], x[1], x[2], 1); }),
      swept("im2col", image,
            [](In x) {
              return torch::im2col(x[0], {3, 3}, {1, 1}, {1, 1}, {1, 1});
            }),
      swept("col2im", {normal({2, 27, 36})},
            [](In x) {
              return torch::col2im(x[0], {8, 8}, {3, 3}, {1, 1}, {0, 0}, {1, 1});
            }),
  };
}

SweptOperators pooling() {
  return {
      swept("max_pool1d", line, [](In x) { return torch::max_pool1d(x[0], 2); }),
      swept("max_pool2d", image, [](In x) { return torch::max_pool2d(x[0], 3, 2, 1); }),
      swept("max_pool2d_with_indices", image, [](In x) { return torch::max_pool2d_with_indices(x[0], 2); }),
      swept("max_pool3d", volume, [](In x) { return torch::max_pool3d(x[0], 2); }),
      swept("max_unpool2d", image,
            [](In x) {
              const auto [values, places] = torch::max_pool2d_with_indices(x[0], 2);
              return torch::max_unpool2d(values, places, {8, 8});
            }),
      swept("avg_pool1d", line, [](In x) { return torch::avg_pool1d(x[0], 2); }),
      swept("avg_pool2d", image, [](In x) { return torch::avg_pool2d(x[0], 3, 2, 1); }),
      swept("avg_pool3d", volume, [](In x) { return torch::avg_pool3d(x[0], 2); }),
      swept("adaptive_avg_pool1d", line, [](In x) { return torch::adaptive_avg_pool1d(x[0], 3); }),
      swept("adaptive_avg_pool2d", image,
            [](In x) {
              return torch::adaptive_avg_pool2d(x[0], {3, 5});
            }),
      swept("adaptive_avg_pool2d to one value", image,
            [](In x) {
              return torch::adaptive_avg_pool2d(x[0], {1, 1});
            }),
      swept("adaptive_avg_pool3d", volume,
            [](In x) {
              return torch::adaptive_avg_pool3d(x[0], {3, 3, 3});
            }),
      swept("adaptive_max_pool1d", line, [](In x) { return torch::adaptive_max_pool1d(x[0], 3); }),
      swept("adaptive_max_pool2d", image,
            [](In x) {
              return torch::adaptive_max_pool2d(x[0], {3, 5});
            }),
      swept("adaptive_max_pool3d", volume,
            [](In x) {
              return torch::adaptive_max_pool3d(x[0], {2, 3, 2});
            }),
      swept("lp_pool2d", {positive({2, 3, 8, 8})},
            [](In x) { return F::lp_pool2d(x[0], F::LPPool2dFuncOptions(3, 2)); }),
      swept("fractional_max_pool2d", {normal({2, 3, 8, 8}), uniform({2, 3, 2}, 0, 1)},
            [](In x) {
              return torch::fractional_max_pool2d(x[0], {2, 2}, {4, 4}, x[1].detach());
            }),
  };
}

SweptOperators normalisations() {
  const std::vector<Input> channels{normal({4, 3, 5}), normal({3}), normal({3}), normal({3}), positive({3})},
      layer{normal({4, 6}), normal({6}), normal({6})}, groups{normal({4, 6, 5}), normal({6}), normal({6})};
  return {
      swept("batch_norm in training", channels,
            [](In x) {
              const auto mean = x[3].detach().clone(), variance = x[4].detach().clone();
              const auto y = torch::batch_norm(x[0], x[1], x[2], mean, variance, true, 0.1, 1e-5, true);
              return Tensors{y, mean, variance};
            }),
      swept("batch_norm without running statistics", image,
            [](In x) { return torch::batch_norm(x[0], {}, {}, {}, {}, true, 0.1, 1e-5, false); }),
      swept("batch_norm, evaluated", channels,
            [](In x) {
              return torch::batch_norm(x[0], x[1], x[2], x[3].detach(), x[4].detach(), false, 0.1, 1e-5, false);
            }),
      swept("native_batch_norm", channels,
            [](In x) {
              const auto mean = x[3].detach().clone(), variance = x[4].detach().clone();
              return std::get<0>(torch::native_batch_norm(x[0], x[1], x[2], mean, variance, true, 0.1, 1e-5));
            }),
      swept("layer_norm", layer, [](In x) { return torch::layer_norm(x[0], {6}, x[1], x[2]); }),
      swept("layer_norm without weights", layer, [](In x) { return torch::layer_norm(x[0], {6}); }),
      swept("group_norm", groups, [](In x) { return torch::group_norm(x[0], 3, x[1], x[2]); }),
      swept("instance_norm", groups,
            [](In x) { return torch::instance_norm(x[0], x[1], x[2], {}, {}, true, 0.1, 1e-5, false); }),
      swept("rms_norm", layer, [](In x) { return torch::rms_norm(x[0], {6}, x[1]); }),
      swept("local_response_norm", image,
            [](In x) { return F::local_response_norm(x[0], F::LocalResponseNormFuncOptions(2)); }),
      swept("_weight_norm", {normal({4, 3}), positive({4, 1})}, [](In x) { return torch::_weight_norm(x[0], x[1]); }),
      forward("var_mean over channels", image,
              [](In x) {
                return torch::var_mean(x[0], {0, 2, 3}, 0);
              }),
  };
}

SweptOperators interpolations() {
  using Scale = std::vector<double>;
  const auto resized = [](auto mode, bool with_corners) {
    return [=](In x) {
      auto options = F::InterpolateFuncOptions().scale_factor(Scale(static_cast<std::size_t>(x[0].dim() - 2), 1.5));
      options.mode(mode);
      if (with_corners) options.align_corners(true);
      return F::interpolate(x[0], options);
    };
  };
  const std::vector<Input> sampled{normal({2, 3, 5, 5}), uniform({2, 4, 4, 2}, -1.1, 1.1)};
  return {
      swept("upsample_nearest1d", line, resized(torch::kNearest, false)),
      swept("upsample_nearest2d", image, resized(torch::kNearest, false)),
      swept("upsample_nearest3d", volume, resized(torch::kNearest, false)),
      swept("_upsample_nearest_exact2d", image, resized(torch::kNearestExact, false)),
      swept("upsample_linear1d", line, resized(torch::kLinear, true)),
      swept("upsample_bilinear2d", image, resized(torch::kBilinear, false)),
      swept("upsample_bilinear2d, corners aligned", image, resized(torch::kBilinear, true)),
      swept("upsample_bicubic2d", image, resized(torch::kBicubic, false)),
      swept("upsample_trilinear3d", volume, resized(torch::kTrilinear, false)),
      swept("_upsample_bilinear2d_aa", image,
            [](In x) {
              return torch::_upsample_bilinear2d_aa(x[0], {5, 5}, false);
            }),
      swept("grid_sampler_2d", sampled, [](In x) { return torch::grid_sampler(x[0], x[1], 0, 0, false); }),
      swept("grid_sampler_2d, nearest and reflected", sampled,
            [](In x) { return torch::grid_sampler(x[0], x[1], 1, 2, true); }),
      swept("grid_sampler_3d", {normal({1, 2, 4, 4, 4}), uniform({1, 3, 3, 3, 3}, -1, 1)},
            [](In x) { return torch::grid_sampler(x[0], x[1], 0, 1, false); }),
      swept("affine_grid_generator", {normal({2, 2, 3})},
            [](In x) {
              return torch::affine_grid_generator(x[0], {2, 3, 4, 4}, false);
            }),
      swept("pixel_shuffle", {normal({2, 8, 3, 3})}, [](In x) { return torch::pixel_shuffle(x[0], 2); }),
      swept("pixel_unshuffle", image, [](In x) { return torch::pixel_unshuffle(x[0], 2); }),
      swept("channel_shuffle", {normal({2, 4, 3, 3})}, [](In x) { return torch::channel_shuffle(x[0], 2); }),
  };
}

SweptOperators embedding_and_attention() {
  const std::vector<Input> words{normal({7, 4}), integers({3, 5}, 0, 7)},
      bags{normal({7, 4}), integers({6}, 0, 7),
           [] {
             return torch::tensor({0, 2, 5});
           }},
      heads{normal({2, 2, 5, 4}), normal({2, 2, 6, 4}), normal({2, 2, 6, 4})};
  const auto bag = [](std::int64_t mode) {
    return [=](In x) { return std::get<0>(torch::embedding_bag(x[0], x[1], x[2], false, mode)); };
  };
  return {
      swept("embedding", words, [](In x) { return torch::embedding(x[0], x[1]); }),
      swept("embedding with padding", words, [](In x) { return torch::embedding(x[0], x[1], 3); }),
      swept("embedding, scaled by frequency", words, [](In x) { return torch::embedding(x[0], x[1], -1, true); }),
      swept("embedding_bag, summed", bags, bag(0)),
      swept("embedding_bag, mean", bags, bag(1)),
      swept("embedding_bag, maximum", bags, bag(2)),
      forward("one_hot", {integers({4}, 0, 5)}, [](In x) { return torch::one_hot(x[0], 5); }),
      swept("scaled_dot_product_attention", heads,
            [](In x) { return torch::scaled_dot_product_attention(x[0], x[1], x[2]); })
          .within(1e-5),
      swept("scaled_dot_product_attention, causal", {normal({1, 2, 5, 4})},
            [](In x) { return torch::scaled_dot_product_attention(x[0], x[0], x[0], {}, 0, true); })
          .within(1e-5),
      swept("scaled_dot_product_attention with a mask",
            {normal({2, 2, 5, 4}), normal({2, 2, 6, 4}), normal({2, 2, 6, 4}), normal({5, 6})},
            [](In x) { return torch::scaled_dot_product_attention(x[0], x[1], x[2], x[3].detach()); })
          .within(1e-5),
      swept("multi_head_attention_forward",
            {normal({5, 2, 4}), normal({12, 4}), normal({12}), normal({4, 4}), normal({4})},
            [](In x) {
              const auto options =
                  F::MultiheadAttentionForwardFuncOptions(4, 2, x[1], x[2], {}, {}, false, 0, x[3], x[4]);
              return std::get<0>(F::multi_head_attention_forward(x[0], x[0], x[0], options));
            }),
  };
}

}  // namespace reprise::libtorch::test::networks
