// SPDX-License-Identifier: Apache-2.0
#include "libtorch/distributed/rank_check.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <sstream>

#include "reprise/error.h"
#include "text/format.h"

namespace reprise::libtorch {
namespace {

void finish(const c10::intrusive_ptr<c10d::Work>& work) {
  if (work != nullptr) work->synchronize();
}

// Returns the tensors of all ranks, in their order, on the CPU.
std::vector<at::Tensor> gather_from_all(c10d::Backend& group, const at::Tensor& own) {
  std::vector<at::Tensor> in{own};
  std::vector<std::vector<at::Tensor>> out(1);
  for (int i = 0; i < group.getSize(); ++i) out.front().push_back(at::empty_like(own));
  c10d::AllgatherOptions options;
  options.asyncOp = false;
  finish(group.allgather(out, in, options));
  for (at::Tensor& each : out.front()) each = each.cpu();
  return out.front();
}

// A line for each tensor.
std::vector<std::string> lines_of(const std::string& settings, const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> lines{settings};
  for (const auto& [name, tensor] : tensors) {
    std::ostringstream line;
    line << name << ": " << tensor.scalar_type() << " " << tensor.sizes()
         << (tensor.requires_grad() ? ", trained" : ", not trained");
    lines.push_back(line.str());
  }
  return lines;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void require_same(const std::vector<std::string>& first, const std::vector<std::string>& other, std::size_t rank) {
  const std::size_t common = std::min(first.size(), other.size());
  const auto at = static_cast<std::size_t>(
      std::mismatch(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(common), other.begin()).first -
      first.begin());
  if (at == common && first.size() == other.size()) return;
  const auto line = [&](const std::vector<std::string>& of) {
    return at < of.size() ? "`" + of[at] + "`" : std::string("no further parameter or buffer");
  };
  throw UsageError(text::format(
      "DataParallel expected the same parameters, buffers and options on all ranks. Rank 0 has {}, rank {} "
      "has {}. Make the model from the same code and settings on each.",
      line(first), rank, line(other)));
}

}  // namespace

void require_same_on_all_ranks(c10d::Backend& group, c10::Device device, const std::string& settings,
                               const std::vector<NamedTensor>& tensors) {
  const at::NoGradGuard no_grad;
  std::string own;
  for (std::string& line : lines_of(settings, tensors)) {
    std::ranges::replace(line, '\n', ' ');
    own += line + "\n";
  }
  const auto bytes = static_cast<std::int64_t>(own.size());
  std::int64_t longest = 0;
  std::vector<std::int64_t> lengths;
  for (const at::Tensor& each : gather_from_all(group, at::full({1}, bytes, at::kLong).to(device))) {
    lengths.push_back(each.item<std::int64_t>());
    longest = std::max(longest, lengths.back());
  }
  const at::Tensor padded = at::zeros({longest}, at::kByte);
  std::memcpy(padded.mutable_data_ptr(), own.data(), own.size());
  const std::vector<at::Tensor> texts = gather_from_all(group, padded.to(device));
  std::vector<std::string> first;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const std::vector<std::string> lines = split(
        std::string(static_cast<const char*>(texts[rank].const_data_ptr()), static_cast<std::size_t>(lengths[rank])));
    if (rank == 0)
      first = lines;
    else
      require_same(first, lines, rank);
  }
}

void copy_from_first_rank(c10d::Backend& group, c10::Device device, const std::vector<NamedTensor>& tensors) {
  const at::NoGradGuard no_grad;
  c10d::BroadcastOptions options;
  options.asyncOp = false;
  for (const NamedTensor& each : tensors) {
    if (each.tensor.numel() == 0) continue;
    const at::Tensor there = each.tensor.detach();
    const at::Tensor values = there.to(device).contiguous();
    // As bytes: NCCL does not have all types.
    std::vector<at::Tensor> sent{values.reshape({-1}).view(at::kByte)};
    finish(group.broadcast(sent, options));
    if (!values.is_same(there)) there.copy_(values);
  }
}

}  // namespace reprise::libtorch
