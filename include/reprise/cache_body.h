// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "reprise/cache_key.h"
#include "reprise/cache_result.h"
#include "reprise/detail/buffer_results.h"
#include "reprise/detail/export.h"
#include "reprise/device_view.h"
#include "reprise/memory.h"

/// \file
/// The body of a call without its types, as GraphCache keeps it. For internal use.

namespace reprise {
class CUDAGraph;
}

namespace reprise::cache_detail {

/// An input of a call.
struct InputMemory {
  void* data = nullptr;
  std::size_t bytes = 0;
  bool written = false;        ///< the body may change it
  bool padded = true;          ///< by run_padded(): has as many rows as the length
  std::uint64_t pattern = 0;   ///< of the rows behind the length, repeated
  unsigned pattern_bytes = 1;  ///< 1, 2, 4 or 8
};

/// Results of a body.
struct BodyResults {
  std::shared_ptr<void> owner = {};
  std::vector<ResultMemory> memory = {};
};

class Body;

/// Graphs that a body captured itself, see Body::capture_itself(). One thread at a time.
class REPRISE_EXPORT OwnGraphs {
 public:
  virtual ~OwnGraphs() = default;
  OwnGraphs(const OwnGraphs&) = delete;
  OwnGraphs& operator=(const OwnGraphs&) = delete;

  /// Replays on the current stream, for a body of the same type, which gets the results.
  virtual void replay(const Body& body) = 0;
  virtual std::uint64_t bytes() const noexcept = 0;  ///< of device memory that is not in the pool of CachingAllocator
  virtual std::vector<const CUDAGraph*> graphs() const = 0;  ///< valid as long as this object

 protected:
  OwnGraphs() = default;
};

/// Properties that the bodies of all calls of one key share.
struct BodyIdentity {
  const std::type_info* type = nullptr;  ///< of the function, with those of inputs and results
  /// The type of what a std::function holds; void for an empty one, and for a null pointer. Null for others.
  const std::type_info* target = nullptr;
  std::array<std::uintptr_t, 2> function = {};  ///< where the function is a pointer, its value; zeros for others

  bool is_empty() const noexcept { return target != nullptr && *target == typeid(void); }

  friend bool operator==(const BodyIdentity& a, const BodyIdentity& b) noexcept {
    return same(a.type, b.type) && same(a.target, b.target) && a.function[0] == b.function[0] &&
           a.function[1] == b.function[1];
  }

 private:
  static bool same(const std::type_info* a, const std::type_info* b) noexcept {
    return a == b || (a != nullptr && b != nullptr && *a == *b);
  }
};

/// A body, with the types of its inputs and results.
class REPRISE_EXPORT Body {
 public:
  virtual BodyResults run(std::span<const InputMemory> inputs, const Lengths& lengths) const = 0;
  /// The type of what it returns.
  virtual const std::type_info& returns() const noexcept = 0;
  /// For a body that captures graphs into the pool itself, nothing of which takes effect; null: the cache captures
  /// run(). What it throws is a failure of the capture.
  virtual std::shared_ptr<OwnGraphs> capture_itself(const MempoolId& /*pool*/) const { return nullptr; }
  const BodyIdentity& identity() const noexcept { return identity_; }

 protected:
  explicit Body(const BodyIdentity& identity) noexcept : identity_(identity) {}
  Body(const Body&) = default;
  Body& operator=(const Body&) = default;
  ~Body() = default;

 private:
  BodyIdentity identity_;
};

/// One call of a cache. Holds references.
struct Call {
  const CacheKey& key;
  std::span<const InputMemory> inputs;
  const Body& body;
  Lengths lengths;
};

/// What a call returns instead of the buffers of its body.
template <class Returned>
auto results_of(const Outcome& outcome, const Lengths& lengths) {
  if constexpr (!std::is_void_v<Returned>)
    return results_detail::make<CacheResult, Returned>(
        outcome.count(),
        [&]<class T>(std::type_identity<T>, std::size_t number) { return CacheResult<T>(outcome, number, lengths); });
}

/// The body of a padded call, which takes the padded length first.
template <class F>
struct PaddedBody {
  F& body;
  std::size_t padded;

  template <class... Views>
  auto operator()(Views... views) const {
    return body(padded, views...);
  }
};

/// Adds what distinguishes functions of one type: the value of a pointer, the target of a std::function.
template <class F>
void identify(const F& function, BodyIdentity& identity) noexcept {
  if constexpr (std::is_function_v<F>) {
    identity.function[0] = reinterpret_cast<std::uintptr_t>(&function);
  } else if constexpr (std::is_pointer_v<F> || std::is_member_pointer_v<F>) {
    static_assert(sizeof(F) <= sizeof identity.function);
    std::memcpy(identity.function.data(), &function, sizeof(F));
    if (function == nullptr) identity.target = &typeid(void);
  }
}
template <class R, class... T>
void identify(const std::function<R(T...)>& function, BodyIdentity& identity) noexcept {
  identity.target = &function.target_type();
  if (const auto* const plain = function.template target<R (*)(T...)>())
    identify(*plain, identity);
  else if (const auto* const without_exceptions = function.template target<R (*)(T...) noexcept>())
    identify(*without_exceptions, identity);
}
template <class F>
void identify(const PaddedBody<F>& function, BodyIdentity& identity) noexcept {
  identify(function.body, identity);
}

template <class F, class... T>
class BodyOf final : public Body {
 public:
  using Returned = std::invoke_result_t<F&, DeviceView<T>...>;
  static_assert(std::is_void_v<Returned> || results_detail::BufferResults<Returned>,
                "the body of a GraphCache returns nothing, a Buffer, or a std::vector, std::array, std::tuple or "
                "std::pair of buffers");

  explicit BodyOf(F& function) noexcept : Body(identity_of(function)), function_(function) {}
  BodyResults run(std::span<const InputMemory> inputs, const Lengths& lengths) const override {
    return run(inputs, lengths, std::index_sequence_for<T...>());
  }
  const std::type_info& returns() const noexcept override { return typeid(Returned); }

 private:
  static BodyIdentity identity_of(const F& function) noexcept {
    BodyIdentity identity{&typeid(BodyOf<std::decay_t<F>, T...>)};
    identify(function, identity);
    return identity;
  }
  template <std::size_t... I>
  BodyResults run([[maybe_unused]] std::span<const InputMemory> inputs, [[maybe_unused]] const Lengths& lengths,
                  std::index_sequence<I...>) const {
    if constexpr (std::is_void_v<Returned>) {
      std::invoke(function_, DeviceView<T>(static_cast<T*>(inputs[I].data), inputs[I].bytes / sizeof(T))...);
      return {};
    } else {
      auto returned = std::make_shared<Returned>(
          std::invoke(function_, DeviceView<T>(static_cast<T*>(inputs[I].data), inputs[I].bytes / sizeof(T))...));
      BodyResults results;
      results_detail::for_each(*returned, [&](const auto& buffer) {
        check_rows("result", results.memory.size(), buffer.size(), lengths.padded);
        results.memory.push_back({buffer.data(), buffer.size_bytes()});
      });
      results.owner = std::move(returned);
      return results;
    }
  }

  F& function_;
};

/// \throws UsageError for an input of a padded call without rows.
template <class T>
InputMemory memory_of(const DeviceView<T>& input, std::size_t number, const Lengths& lengths) {
  check_rows("input", number, input.size(), lengths.length);
  return {const_cast<std::remove_const_t<T>*>(input.data()), input.size_bytes(), !std::is_const_v<T>};
}
template <class T>
InputMemory memory_of(const PaddedInput<T>& input, std::size_t number, const Lengths& lengths) {
  InputMemory memory = memory_of(input.input(), number, input.value() ? lengths : Lengths());
  memory.padded = input.value().has_value();
  memory.pattern_bytes = sizeof(T);
  if (memory.padded) std::memcpy(&memory.pattern, &*input.value(), sizeof(T));
  return memory;
}
/// The memory of inputs, in order.
template <class... Input>
std::array<InputMemory, sizeof...(Input)> memory_of(const std::tuple<Input...>& inputs, const Lengths& lengths) {
  const auto list = [&](const auto&... each) {
    std::size_t number = 0;
    return std::array<InputMemory, sizeof...(Input)>{memory_of(each, number++, lengths)...};
  };
  return std::apply(list, inputs);
}

}  // namespace reprise::cache_detail
