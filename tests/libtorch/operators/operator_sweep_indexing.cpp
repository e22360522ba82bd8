// SPDX-License-Identifier: Apache-2.0
#include "tests/libtorch/operators/operator_sweep.h"

// Operators that move values, or only look at them in another way.

namespace reprise::libtorch::test::indexing {
namespace {

using torch::indexing::Ellipsis;
using torch::indexing::None;
using torch::indexing::Slice;

const std::vector<Input> any{normal({4, 6})}, deep{normal({2, 3, 4})}, image{normal({2, 3, 4, 4})},
    places{normal({4, 6}), integers({4, 6}, 0, 4), normal({4, 6})},
    rows{normal({4, 6}), [] { return torch::randperm(4).slice(0, 0, 3).clone(); }, normal({3, 6})},
    masked{normal({4, 6}), booleans({4, 6}), normal({24})};

}  // namespace

SweptOperators indexing() {
  using At = c10::List<std::optional<torch::Tensor>>;
  return {
      swept("index", {normal({4, 6}), integers({3}, 0, 4)}, [](In x) { return x[0].index({x[1]}); }),
      swept("index of the second dimension", {normal({4, 6}), integers({2, 2}, 0, 6)},
            [](In x) {
              return x[0].index({Slice(), x[1]});
            }),
      swept("index by two tensors", {normal({4, 6}), integers({5}, 0, 4), integers({5}, -6, 6)},
            [](In x) {
              return x[0].index({x[1], x[2]});
            }),
      swept("index by slices and numbers", deep,
            [](In x) {
              return x[0].index({Ellipsis, 1, Slice(None, None, 2)});
            }),
      swept("index_put", {normal({4, 6}), permutation(4), normal({4, 6})},
            [](In x) { return x[0].index_put(At{x[1]}, x[2]); }),
      swept("index_put, accumulated", {normal({4, 6}), integers({9}, 0, 4), normal({9, 6})},
            [](In x) { return x[0].index_put(At{x[1]}, x[2], true); }),
      swept("index_select", rows, [](In x) { return x[0].index_select(0, x[1]); }),
      swept("index_add", {normal({4, 6}), integers({3}, 0, 4), normal({3, 6})},
            [](In x) { return x[0].index_add(0, x[1], x[2], 2); }),
      swept("index_copy", rows, [](In x) { return x[0].index_copy(0, x[1], x[2]); }),
      swept("index_fill", rows, [](In x) { return x[0].index_fill(0, x[1], 2.5); }),
      swept("index_reduce", rows, [](In x) { return x[0].index_reduce(0, x[1], x[2], "amax"); }),
      swept("gather", places, [](In x) { return x[0].gather(0, x[1]); }),
      swept("scatter",
            {normal({4, 6}),
             [] {
               return torch::rand({4, 6}).argsort(0, false);
             },
             normal({4, 6})},
            [](In x) { return x[0].scatter(0, x[1], x[2]); }),
      swept("scatter of a number", places, [](In x) { return x[0].scatter(0, x[1], 1.5); }),
      swept("scatter_add", places, [](In x) { return x[0].scatter_add(0, x[1], x[2]); }),
      swept("scatter_reduce, summed", places, [](In x) { return x[0].scatter_reduce(0, x[1], x[2], "sum"); }),
      swept("scatter_reduce, maximum", places, [](In x) { return x[0].scatter_reduce(0, x[1], x[2], "amax"); }),
      swept("masked_fill", masked, [](In x) { return x[0].masked_fill(x[1], -7); }),
      forward("masked_fill with a tensor", {normal({4, 6}), booleans({6}), normal({})},
              [](In x) { return x[0].masked_fill(x[1], x[2]); }),
      forward("masked_scatter", masked, [](In x) { return x[0].masked_scatter(x[1], x[2]); }),
      swept("take", {normal({4, 6}), integers({5}, 0, 24)}, [](In x) { return x[0].take(x[1]); }),
      swept("take_along_dim", places, [](In x) { return x[0].take_along_dim(x[1], 0); }),
      swept("put", {normal({4, 6}), permutation(24), normal({24})}, [](In x) { return x[0].put(x[1], x[2]); }),
      swept("select_scatter", {normal({4, 6}), normal({6})}, [](In x) { return x[0].select_scatter(x[1], 0, 2); }),
      swept("slice_scatter", {normal({4, 6}), normal({4, 3})},
            [](In x) { return x[0].slice_scatter(x[1], 1, 0, 6, 2); }),
      swept("diagonal_scatter", {normal({4, 6}), normal({4})}, [](In x) { return x[0].diagonal_scatter(x[1]); }),
      forward("nonzero_static", any, [](In x) { return torch::nonzero_static(x[0] > 0, 10, -1); }),
  };
}

SweptOperators views() {
  return {
      swept("view", any,
            [](In x) {
              return x[0].view({2, 12});
            }),
      swept("view as another type", any, [](In x) { return x[0] * x[0].view(torch::kInt).abs(); }),
      swept("reshape", any,
            [](In x) {
              return x[0].reshape({3, -1});
            }),
      swept("reshape that copies", any,
            [](In x) {
              return x[0].t().reshape({3, -1});
            }),
      swept("t", any, [](In x) { return x[0].t(); }),
      swept("transpose", deep, [](In x) { return x[0].transpose(0, 2); }),
      swept("permute", deep,
            [](In x) {
              return x[0].permute({2, 0, 1});
            }),
      swept("movedim", deep, [](In x) { return x[0].movedim(0, 2); }),
      swept("swapaxes", deep, [](In x) { return x[0].swapaxes(0, 1); }),
      swept("mT", deep, [](In x) { return x[0].mT(); }),
      swept("adjoint", deep, [](In x) { return x[0].adjoint(); }),
      swept("expand", {normal({4, 1})},
            [](In x) {
              return x[0].expand({3, 4, 5});
            }),
      swept("expand_as", {normal({1, 6}), normal({4, 6})}, [](In x) { return x[0].expand_as(x[1]); }),
      swept("broadcast_tensors", {normal({4, 1}), normal({6})},
            [](In x) {
              return torch::broadcast_tensors({x[0], x[1]});
            }),
      swept("unsqueeze", any, [](In x) { return x[0].unsqueeze(1); }),
      swept("squeeze", {normal({1, 4, 1})}, [](In x) { return x[0].squeeze(); }),
      swept("flatten", deep, [](In x) { return x[0].flatten(1); }),
      swept("unflatten", any,
            [](In x) {
              return x[0].unflatten(1, {2, 3});
            }),
      swept("unfold", any, [](In x) { return x[0].unfold(1, 3, 2); }),
      swept("as_strided", any,
            [](In x) {
              return x[0].as_strided({3, 3}, {6, 2}, 1);
            }),
      swept("as_strided that overlaps", any,
            [](In x) {
              return x[0].as_strided({5, 3}, {2, 1});
            }),
      swept("slice", any, [](In x) { return x[0].slice(1, 1, 6, 2); }),
      swept("narrow", any, [](In x) { return x[0].narrow(0, 1, 2); }),
      swept("select", any, [](In x) { return x[0].select(0, 2); }),
      swept("chunk", any, [](In x) { return x[0].chunk(4, 1); }),
      swept("split", any, [](In x) { return x[0].split(4, 1); }),
      swept("split_with_sizes", any,
            [](In x) {
              return x[0].split_with_sizes({1, 3, 2}, 1);
            }),
      swept("tensor_split", any, [](In x) { return x[0].tensor_split(4, 1); }),
      swept("hsplit", any, [](In x) { return x[0].hsplit(2); }),
      swept("unbind", any, [](In x) { return x[0].unbind(); }),
      swept("diagonal", deep, [](In x) { return x[0].diagonal(1, 0, 2); }),
      swept("ravel", any, [](In x) { return x[0].ravel(); }),
      forward("detach", any, [](In x) { return x[0].detach(); }),
      swept("alias", any, [](In x) { return x[0].alias(); }),
      swept("lift of a view of a view", deep,
            [](In x) {
              return x[0].select(0, 1).t().slice(0, 1).view({3, 3, 1});
            }),
  };
}

SweptOperators joins_and_copies() {
  namespace F = torch::nn::functional;
  const auto padded = [](auto mode) {
    return [=](In x) { return F::pad(x[0], F::PadFuncOptions({1, 2, 2, 1}).mode(mode)); };
  };
  const std::vector<Input> two{normal({4, 6}), normal({4, 6})};
  return {
      swept("cat", {normal({4, 6}), normal({2, 6})},
            [](In x) {
              return torch::cat({x[0], x[1]});
            }),
      swept("cat of two types", {normal({4, 6}), integers({4, 2}, 0, 9)},
            [](In x) {
              return torch::cat({x[0], x[1]}, 1);
            }),
      swept("stack", two,
            [](In x) {
              return torch::stack({x[0], x[1]}, 1);
            }),
      swept("hstack", two,
            [](In x) {
              return torch::hstack({x[0], x[1]});
            }),
      swept("vstack", two,
            [](In x) {
              return torch::vstack({x[0], x[1]});
            }),
      swept("dstack", two,
            [](In x) {
              return torch::dstack({x[0], x[1]});
            }),
      swept("block_diag", two,
            [](In x) {
              return torch::block_diag({x[0], x[1]});
            }),
      swept("constant_pad_nd", any,
            [](In x) {
              return torch::constant_pad_nd(x[0], {1, 2}, 3);
            }),
      swept("reflection_pad2d", image, padded(torch::kReflect)),
      swept("replication_pad2d", image, padded(torch::kReplicate)),
      swept("circular padding", image, padded(torch::kCircular)),
      swept("roll", any,
            [](In x) {
              return x[0].roll({1, 2}, {0, 1});
            }),
      swept("flip", any,
            [](In x) {
              return x[0].flip({0, 1});
            }),
      swept("rot90", any, [](In x) { return x[0].rot90(); }),
      swept("repeat", any,
            [](In x) {
              return x[0].repeat({2, 1, 2});
            }),
      swept("tile", any, [](In x) { return x[0].tile({2}); }),
      swept("repeat_interleave by a number", any, [](In x) { return x[0].repeat_interleave(2, 1); }),
      swept("clone", any, [](In x) { return x[0].clone(); }),
      swept("contiguous", any, [](In x) { return x[0].t().contiguous(); }),
      swept("contiguous, channels last", image,
            [](In x) { return x[0].contiguous(torch::MemoryFormat::ChannelsLast); }),
      swept("meshgrid", {normal({3}), normal({4})},
            [](In x) {
              return torch::meshgrid({x[0], x[1]}, "ij");
            }),
      swept("cartesian_prod", {normal({3}), normal({4})},
            [](In x) {
              return torch::cartesian_prod({x[0], x[1]});
            }),
      swept("tril", any, [](In x) { return x[0].tril(1); }),
      swept("triu", any, [](In x) { return x[0].triu(); }),
      swept("diag", {normal({4})}, [](In x) { return x[0].diag(); }),
      swept("diag_embed", any, [](In x) { return x[0].diag_embed(); }),
      swept("diagflat", any, [](In x) { return x[0].diagflat(); }),
      forward("vander", {normal({4})}, [](In x) { return torch::vander(x[0]); }),
      swept("unsafe_split", any, [](In x) { return x[0].unsafe_split(4, 1); }),
  };
}

}  // namespace reprise::libtorch::test::indexing
