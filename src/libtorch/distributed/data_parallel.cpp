// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "libtorch/distributed/gradient_buckets.h"
#include "libtorch/tensor_device.h"
#include "reprise/error.h"
#include "reprise/libtorch/distributed.h"
#include "text/format.h"

namespace reprise::libtorch {
namespace {

struct Model {
  std::vector<NamedTensor> parameters = {}, buffers = {};
};

Model parts_of(const torch::nn::Module& module) {
  Model model;
  for (const auto& each : module.named_parameters()) model.parameters.push_back({each.key(), each.value()});
  for (const auto& each : module.named_buffers()) model.buffers.push_back({each.key(), each.value()});
  return model;
}

Model parts_of(std::vector<at::Tensor> parameters) {
  Model model;
  for (at::Tensor& each : parameters)
    model.parameters.push_back({text::format("parameter {}", model.parameters.size()), std::move(each)});
  return model;
}

c10::Device device_of(const Model& model) {
  if (model.parameters.empty())
    throw UsageError(
        "DataParallel expected at least one parameter, found none: pass the model when it has its layers.");
  const NamedTensor& first = model.parameters.front();
  for (const NamedTensor& each : model.parameters) {
    if (!each.tensor.defined())
      throw UsageError(text::format("DataParallel expected tensors, and {} is undefined.", each.name));
    if (each.tensor.device() != first.tensor.device())
      throw UsageError(text::format(
          "DataParallel expected all parameters on one device, found {} on {} and {} on {}: move the model to "
          "the device of this process first.",
          first.name, first.tensor.device().str(), each.name, each.tensor.device().str()));
  }
  return first.tensor.device();
}

std::shared_ptr<detail::GradientBuckets> make_buckets(const Model& model,
                                                      const c10::intrusive_ptr<c10d::Backend>& group,
                                                      const DataParallelOptions& options) {
  if (group == nullptr)
    throw UsageError("DataParallel expected a process group, found null: see init_process_group().");
  if (options.bucket_bytes == 0)
    throw UsageError(
        "DataParallel expected buckets of at least one byte, found DataParallelOptions::bucket_bytes = 0.");
  if (group->getSize() == 1) return nullptr;
  const c10::Device device = device_of(model);
  const StreamRef here = current_stream(device_of_tensors(device));
  if (here.capture_status() != CaptureStatus::none)
    throw UsageError(
        "DataParallel was made in a capture, which cannot contain its wait for the other processes: make it before the "
        "capture, which continues.");

  std::vector<NamedTensor> all = model.parameters, trained;
  all.insert(all.end(), model.buffers.begin(), model.buffers.end());
  for (const NamedTensor& each : model.parameters)
    if (each.tensor.requires_grad()) trained.push_back(each);
  require_same_on_all_ranks(*group, device,
                            text::format("bucket_bytes = {}, average = {}, allow_unused = {}", options.bucket_bytes,
                                         options.average, options.allow_unused),
                            all);
  copy_from_first_rank(*group, device, all);
  auto buckets = std::make_shared<detail::GradientBuckets>(std::move(trained), device, group, options);
  buckets->connect();
  buckets->add_hooks();
  return buckets;
}

}  // namespace

DataParallel::DataParallel(const torch::nn::Module& model, c10::intrusive_ptr<c10d::Backend> group,
                           const DataParallelOptions& options)
    : group_(std::move(group)), buckets_(make_buckets(parts_of(model), group_, options)) {}

DataParallel::DataParallel(std::vector<at::Tensor> parameters, c10::intrusive_ptr<c10d::Backend> group,
                           const DataParallelOptions& options)
    : group_(std::move(group)), buckets_(make_buckets(parts_of(std::move(parameters)), group_, options)) {}

DataParallel::~DataParallel() {
  if (buckets_ != nullptr) buckets_->remove_hooks();
}

void DataParallel::finish() {
  if (buckets_ != nullptr) buckets_->finish();
}

std::size_t DataParallel::bucket_count() const noexcept {
  return buckets_ != nullptr ? buckets_->count() : 0;
}

}  // namespace reprise::libtorch
