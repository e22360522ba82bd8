// SPDX-License-Identifier: Apache-2.0
#include "reprise/libtorch/annotated_modules.h"

#include <iterator>

#include "backend/objects/thread_tag.h"

namespace reprise::libtorch {
namespace {

thread_local std::string path;  // of the modules whose scopes the thread is in

}  // namespace

annotate_module::annotate_module(std::string_view name) {
  if (!wanted()) return;
  const std::size_t length = path.size();
  if (length != 0) path += '.';
  path += name;
  try {
    scope_.emplace(Annotation{{"module", path}});
  } catch (...) {
    path.resize(length);
    throw;
  }
  length_ = length;
  thread_ = backend::thread_tag();
}

annotate_module::~annotate_module() {
  scope_.reset();
  if (length_ && thread_ == backend::thread_tag()) path.resize(*length_);
}

std::string annotated_detail::name_of_child(const torch::nn::SequentialImpl& sequential, std::size_t number) {
  return sequential.named_children()[number].key();
}

torch::nn::AnyValue annotated_detail::forward_rest(torch::nn::SequentialImpl& sequential, torch::nn::AnyValue value) {
  const auto children = sequential.named_children();
  for (std::size_t i = 1; i < sequential.size(); ++i) {
    const annotate_module scope(children[i].key());
    value = std::next(sequential.begin(), static_cast<std::ptrdiff_t>(i))->any_forward(std::move(value));
  }
  return value;
}

}  // namespace reprise::libtorch
