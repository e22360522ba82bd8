// SPDX-License-Identifier: Apache-2.0
#include "libtorch/host/operator_traits.h"

#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "support/immortal.h"

namespace reprise::libtorch {
namespace {

// Operators that write arguments which their schema does not mark as written: the running statistics of batch norm.
bool writes_silently(const std::string& name, std::size_t argument) {
  return name == "aten::native_batch_norm" && (argument == 3 || argument == 4);
}

std::optional<std::size_t> argument_returned(const c10::FunctionSchema& schema, const c10::Argument& result) {
  const c10::AliasInfo* const alias = result.alias_info();
  if (alias == nullptr || !alias->isWrite()) return std::nullopt;
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::AliasInfo* const other = schema.arguments()[i].alias_info();
    if (other != nullptr && other->isWrite() && other->beforeSets() == alias->beforeSets()) return i;
  }
  return std::nullopt;
}

bool tagged(const c10::OperatorHandle& op) {
  return op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output);
}

bool returns_a_number(const c10::FunctionSchema& schema) {
  const auto& returns = schema.returns();
  return std::any_of(returns.begin(), returns.end(), [](const c10::Argument& each) {
    const c10::TypeKind kind = each.type()->kind();
    return kind == c10::TypeKind::BoolType || kind == c10::TypeKind::IntType || kind == c10::TypeKind::FloatType ||
           kind == c10::TypeKind::NumberType;
  });
}

// Forms with out= have no tag; the form that allocates has. Indexing is tagged because of masks, which libtorch
// converts to indices (aten::nonzero, which waits) before it calls an operator of the device.
bool depends_on_values(const c10::OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  if (name == "aten::index") return false;
  if (tagged(op) || returns_a_number(op.schema())) return true;
  const auto twin = c10::Dispatcher::singleton().findSchema({name, ""});
  return twin && tagged(*twin);
}

std::unique_ptr<const OperatorTraits> traits(const c10::OperatorHandle& op) {
  auto made = std::make_unique<OperatorTraits>();
  const c10::FunctionSchema& schema = op.schema();
  made->name = c10::toString(op.operator_name());
  made->arguments = schema.arguments().size();
  for (std::size_t i = 0; i < made->arguments; ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    made->writes.push_back((argument.alias_info() != nullptr && argument.alias_info()->isWrite()) ||
                           writes_silently(made->name, i));
    if (argument.type()->str() == "Generator?" || argument.type()->str() == "Generator") made->generator = i;
  }
  for (const c10::Argument& result : schema.returns()) made->returned.push_back(argument_returned(schema, result));
  const auto& returns = schema.returns();
  made->returns_views = !returns.empty() && returns[0].alias_info() != nullptr && !returns[0].alias_info()->isWrite();
  made->depends_on_values = depends_on_values(op);
  return made;
}

}  // namespace

const OperatorTraits& traits_of(const c10::OperatorHandle& op) {
  struct Known {
    std::shared_mutex mutex;
    std::unordered_map<c10::OperatorHandle, std::unique_ptr<const OperatorTraits>> traits;
  };
  static support::Immortal<Known> known;
  {
    const std::shared_lock lock(known->mutex);
    const auto found = known->traits.find(op);
    if (found != known->traits.end()) return *found->second;
  }
  auto made = traits(op);
  const std::unique_lock lock(known->mutex);
  return *known->traits.try_emplace(op, std::move(made)).first->second;
}

}  // namespace reprise::libtorch
