// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "reprise/accesses.h"
#include "reprise/detail/export.h"
#include "reprise/detail/kernel_functions.h"
#include "reprise/detail/public_call.h"
#include "reprise/device_code.h"
#include "reprise/error.h"
#include "reprise/parameter.h"
#include "reprise/stream.h"

/// \file
/// Kernels from a single source: function objects, compiled by any compiler for the host device and by nvcc for CUDA.
///
/// A *thread kernel* is called once for each thread, a *block kernel* once for each block:
///
///     struct Scale {
///       REPRISE_KERNEL void operator()(reprise::Thread t, float factor, float* x, std::size_t n) const {
///         if (t.global_x() < n) x[t.global_x()] *= factor;
///       }
///     };
///     reprise::launch(x.size(), Scale{}, 0.5f, x.data(), x.size());
///
/// The object itself carries no data: all inputs are arguments, so that a graph can show and change them.
///
/// In a file that nvcc compiles, launch() takes a `__global__` function as well, for CUDA devices alone.
///
/// A kernel may declare the memory that a launch accesses, for the race check of the host device
/// (HostDeviceOptions::check_races), which ignores kernels without declaration. Memory both read and written is named
/// twice. The function is called when the kernel or its graph is launched, and must not call this library.
///
///     struct Scale {
///       REPRISE_KERNEL void operator()(...) const { ... }  // as above
///       static auto accesses(float, float* x, std::size_t n) {
///         return std::array{reprise::reads(x, n), reprise::writes(x, n)};
///       }
///     };

#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
#define REPRISE_CLEARS_PADDING 1  // GCC, and nvcc with it
#endif
#endif

namespace reprise {

/// The shape of a launch.
struct LaunchConfig {
  Dim3 grid = {};             ///< blocks; at most 2^31 - 1, 65535, 65535
  Dim3 block = {};            ///< threads of a block; at most 1024, 1024, 64 and 1024 together
  unsigned shared_bytes = 0;  ///< size of a block's shared memory (Block::shared); at most 227 KiB
  Dim3 cluster = {};          ///< blocks of a cluster; the grid must be a multiple of it
  bool cooperative = false;   ///< all blocks are resident at once
  bool programmatic =
      false;  ///< may start before the previous kernel of the stream ends (programmatic dependent launch)

  /// The number of blocks of `block` threads that covers `threads`, at least one. With more threads than a grid can
  /// have, or empty blocks, launch() refuses the result.
  static constexpr LaunchConfig cover(std::size_t threads, unsigned block = 256) {
    const std::size_t blocks = block == 0 ? 0 : threads / block + (threads % block != 0 || threads == 0 ? 1 : 0);
    LaunchConfig config;
    config.grid = Dim3(blocks > 0xFFFFFFFFU ? 0xFFFFFFFFU : static_cast<unsigned>(blocks));
    config.block = Dim3(block);
    return config;
  }
};

/// One parameter of a kernel in the parameter block of a launch.
struct KernelParam {
  std::size_t offset = 0;                ///< in bytes from the start of the block
  std::size_t size = 0;                  ///< in bytes
  bool whole = false;                    ///< true if each byte is known to be a part of the value: there is no padding
  const std::type_info* type = nullptr;  ///< of the value; null if it is not known
  bool cleared = false;                  ///< true if there may be padding, which each launch sets to 0
};

/// The part of a launch that one call of a kernel's host entry runs: blocks `first_block` to `last_block` (exclusive),
/// counted x fastest. For internal use.
struct HostLaunch {
  Dim3 grid;                      ///< blocks of the whole launch
  Dim3 block;                     ///< threads of a block
  std::uint64_t first_block = 0;  ///< the first block to run
  std::uint64_t last_block = 0;   ///< one past the last block to run
  std::byte* shared = nullptr;    ///< shared memory of a block, used by one block after the other
  unsigned shared_bytes = 0;      ///< its size
};

/// Description of a kernel: name, parameters, and how to run it on each kind of device. One per kernel, alive until
/// the process ends. Made by kernel_record(); for internal use.
struct KernelRecord {
  std::string name;                     ///< the type's name as written in C++
  std::span<const KernelParam> params;  ///< where each parameter lies, in order
  std::size_t params_bytes = 0;         ///< the size of the parameter block
  /// Runs blocks on the host; null for a `__global__` function. `params` holds a pointer to each argument.
  void (*host_entry)(const HostLaunch& launch, void* const* params) = nullptr;
  /// Returns the memory that a launch with these arguments accesses; null when the kernel does not declare it.
  std::vector<MemoryAccess> (*accesses)(void* const* params) = nullptr;
  /// Finds the kernel on the current CUDA device; null when nvcc did not compile it. Returns CUDA's code.
  int (*cuda_function)(const KernelRecord& kernel, FunctionHandle* function) = nullptr;
  const void* symbol = nullptr;                 ///< identifies it for CUDA's runtime
  mutable KernelFunctions cuda_functions = {};  ///< the functions found so far
};

namespace detail {

REPRISE_EXPORT std::string kernel_name(const std::type_info& type);
REPRISE_EXPORT void launch_kernel(const StreamRef& stream, const LaunchConfig& config, const KernelRecord& record,
                                  void** params);
/// Likewise; in a capture of this library, the arguments are noted for the graph. They are in order of their numbers.
REPRISE_EXPORT void launch_marked_kernel(const StreamRef& stream, const LaunchConfig& config,
                                         const KernelRecord& record, void** params,
                                         std::span<const parameter_detail::MarkedArgument> marked);
/// The record of the `__global__` function `prototype.symbol`, made from the prototype at the first call. Thread-safe.
REPRISE_EXPORT const KernelRecord& global_function_record(const KernelRecord& prototype, const std::type_info& type);

}  // namespace detail

inline namespace REPRISE_KERNEL_ABI {

namespace kernel_detail {

template <class T>
inline constexpr bool is_number = (std::is_arithmetic_v<T> && sizeof(T) <= 8) || std::is_enum_v<T> ||
                                  std::is_pointer_v<T> || std::is_null_pointer_v<T>;

template <class T>
inline constexpr bool has_no_padding = is_number<T> || std::has_unique_object_representations_v<T>;

// Sets the padding of an argument to 0, so that it does not count as a difference of two launches.
#if REPRISE_CLEARS_PADDING
inline constexpr bool clears_padding = true;
template <class T>
void clear_padding(T& value) noexcept {
  if constexpr (!has_no_padding<T>) __builtin_clear_padding(&value);
}
#else
inline constexpr bool clears_padding = false;  // differences in a struct with padding are uncertain
template <class T>
void clear_padding(T& /*value*/) noexcept {}
#endif

enum class KernelKind { thread, block };

template <class First>
struct KernelKindOf;
template <>
struct KernelKindOf<Thread> {
  static constexpr KernelKind value = KernelKind::thread;
};
template <>
struct KernelKindOf<Block> {
  static constexpr KernelKind value = KernelKind::block;
};

// Converts as a function call does, except from floating point to integer: that is nearly always two swapped arguments.
// A marked argument must be of the very type: its bytes are replaced.
template <class Arg, class Param>
constexpr bool converts() {
  if constexpr (parameter_detail::is_marked<Arg>)
    return parameter_detail::fits<typename parameter_detail::Unmarked<std::remove_cvref_t<Arg>>::Value, Param>();
  else
    return std::is_convertible_v<Arg, Param> &&
           !(std::is_floating_point_v<std::remove_cvref_t<Arg>> && std::is_integral_v<Param>);
}

// The value that an argument stands for.
template <class Arg>
constexpr decltype(auto) value_of(Arg&& arg) {
  if constexpr (parameter_detail::is_marked<Arg>)
    return arg.initial();
  else
    return std::forward<Arg>(arg);
}

// The one argument as a list, if it is marked.
template <class Arg>
void note_if_marked(const Arg& arg, std::size_t index, std::vector<parameter_detail::MarkedArgument>& marked) {
  if constexpr (parameter_detail::is_marked<Arg>)
    marked.push_back({index, arg.key(), &arg.initial(), sizeof(arg.initial())});
}

// Launches a kernel that has the parameters `Values`.
template <class Values>
struct Launcher;
template <class... Params>
struct Launcher<std::tuple<Params...>> {
  template <class... Args>
  static constexpr bool takes() {
    if constexpr (sizeof...(Args) != sizeof...(Params))
      return false;
    else
      return (converts<Args, Params>() && ...);
  }

  template <class... Args>
  static void launch(const StreamRef& stream, const LaunchConfig& config, const KernelRecord& record, Args&&... args) {
    static_assert(sizeof...(Args) == sizeof...(Params), "the kernel has another number of parameters");
    static_assert(takes<Args&&...>(), "an argument does not convert to the kernel's parameter");
    if constexpr (takes<Args&&...>()) {
      std::vector<parameter_detail::MarkedArgument> marked;
      if constexpr ((parameter_detail::is_marked<Args> || ...)) {
        std::size_t index = 0;
        (note_if_marked(args, index++, marked), ...);
      }
      std::tuple<Params...> values(value_of(std::forward<Args>(args))...);
      std::apply(
          [&](auto&... value) {
            (clear_padding(value), ...);
            void* params[] = {const_cast<void*>(static_cast<const void*>(&value))..., nullptr};
            const reprise::detail::PublicCall call("launch");
            if constexpr ((parameter_detail::is_marked<Args> || ...))
              reprise::detail::launch_marked_kernel(stream, config, record, params, marked);
            else
              reprise::detail::launch_kernel(stream, config, record, params);
          },
          values);
    }
  }
};

// `First` is Thread or `const Thread&` (thread kernel), or `Block&` (block kernel).
template <class Member>
struct KernelSignature;
template <class K, class First, class... Params>
struct KernelSignature<void (K::*)(First, Params...) const> {
  static constexpr KernelKind kind = KernelKindOf<std::remove_cvref_t<First>>::value;
  static_assert(kind == KernelKind::thread || std::is_same_v<First, Block&>, "a block kernel takes Block& first");
  static_assert((std::is_trivially_copyable_v<Params> && ...),
                "a kernel's parameters are copied to the device: they must be trivially copyable, and not references");
  using Values = std::tuple<Params...>;
};

template <class K, class First, class... Params>
struct KernelSignature<void (K::*)(First, Params...) const noexcept>
    : KernelSignature<void (K::*)(First, Params...) const> {};

template <class K>
concept Kernel = requires {
  &K::operator();
}
&&std::is_empty_v<K>&& std::is_default_constructible_v<K>;

// The layout of a parameter block is CUDA's: each parameter at the next multiple of its alignment.
template <class Values>
struct ParamLayout;
template <class... Params>
struct ParamLayout<std::tuple<Params...>> {
  static constexpr std::size_t count = sizeof...(Params);
  struct Table {
    KernelParam params[count + 1];  // the last one: offset = size of the block
  };
  static constexpr Table make() {
    Table made{};
    const std::size_t sizes[] = {sizeof(Params)..., 0};
    const std::size_t aligns[] = {alignof(Params)..., 1};
    const bool whole[] = {has_no_padding<Params>..., false};
    const std::type_info* const types[] = {&typeid(Params)..., nullptr};
    const bool cleared[] = {(clears_padding && !has_no_padding<Params>)..., false};
    std::size_t end = 0;
    for (std::size_t i = 0; i <= count; ++i) {
      const std::size_t begin = (end + aligns[i] - 1) / aligns[i] * aligns[i];
      made.params[i] = {begin, sizes[i], whole[i], types[i], cleared[i]};
      end = begin + sizes[i];
    }
    return made;
  }
  static constexpr Table table = make();
};

template <class K, class Values, std::size_t... I>
void run_on_host(const HostLaunch& launch, void* const* params, std::index_sequence<I...>) {
  constexpr KernelKind kind = KernelSignature<decltype(&K::operator())>::kind;
  const std::tuple<const std::tuple_element_t<I, Values>&...> args(
      *static_cast<const std::tuple_element_t<I, Values>*>(params[I])...);
  for (std::uint64_t b = launch.first_block; b < launch.last_block; ++b) {
    const Dim3 block_idx(static_cast<unsigned>(b % launch.grid.x),
                         static_cast<unsigned>(b / launch.grid.x % launch.grid.y),
                         static_cast<unsigned>(b / launch.grid.x / launch.grid.y));
    if constexpr (kind == KernelKind::block) {
      Block block(block_idx, launch.block, launch.grid, launch.shared, launch.shared_bytes);
      K{}(block, std::get<I>(args)...);
    } else {
      for (unsigned z = 0; z < launch.block.z; ++z)
        for (unsigned y = 0; y < launch.block.y; ++y)
          for (unsigned x = 0; x < launch.block.x; ++x)
            K{}(Thread{Dim3(x, y, z), block_idx, launch.block, launch.grid}, std::get<I>(args)...);
    }
  }
}

template <class K, class Values>
void host_entry(const HostLaunch& launch, void* const* params) {
  run_on_host<K, Values>(launch, params, std::make_index_sequence<std::tuple_size_v<Values>>{});
}

template <class K, class Values, std::size_t... I>
std::vector<MemoryAccess> declared_accesses(void* const* params, std::index_sequence<I...>) {
  const auto declared = K::accesses(*static_cast<const std::tuple_element_t<I, Values>*>(params[I])...);
  return {std::begin(declared), std::end(declared)};
}

template <class K, class Values>
std::vector<MemoryAccess> accesses_entry(void* const* params) {
  return declared_accesses<K, Values>(params, std::make_index_sequence<std::tuple_size_v<Values>>{});
}

template <class K>
concept DeclaresAccesses = requires {
  &K::accesses;
};

template <class K, class Values>
struct AccessesTake;
template <class K, class... Params>
struct AccessesTake<K, std::tuple<Params...>> {
  static constexpr bool value = std::is_invocable_v<decltype(&K::accesses), const Params&...>;
};

template <class K, class Values>
constexpr auto find_accesses_entry() -> std::vector<MemoryAccess> (*)(void* const*) {
  if constexpr (DeclaresAccesses<K>) {
    static_assert(AccessesTake<K, Values>::value,
                  "accesses() is static and takes the parameters of the kernel after the first");
    return &accesses_entry<K, Values>;
  } else {
    return nullptr;
  }
}

#if defined(__CUDACC__)
inline int find_symbol(const KernelRecord& kernel, FunctionHandle* function) {
  return cudaGetFuncBySymbol(function, kernel.symbol);
}

template <class K, class... Params>
__global__ void cuda_entry(Params... params) {
  const Dim3 block_idx(blockIdx.x, blockIdx.y, blockIdx.z), block_dim(blockDim.x, blockDim.y, blockDim.z),
      grid_dim(gridDim.x, gridDim.y, gridDim.z);
  if constexpr (KernelSignature<decltype(&K::operator())>::kind == KernelKind::block) {
    extern __shared__ __align__(16) unsigned char reprise_shared[];
    unsigned shared_bytes;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(shared_bytes));
    Block block(block_idx, block_dim, grid_dim, reinterpret_cast<std::byte*>(reprise_shared), shared_bytes);
    K{}(block, params...);
  } else {
    K{}(Thread{Dim3(threadIdx.x, threadIdx.y, threadIdx.z), block_idx, block_dim, grid_dim}, params...);
  }
}

template <class K, class Values>
struct CudaSymbol;
template <class K, class... Params>
struct CudaSymbol<K, std::tuple<Params...>> {
  static const void* get() { return reinterpret_cast<const void*>(&cuda_entry<K, Params...>); }
};
#endif

}  // namespace kernel_detail

/// The record of the kernel type `K`: name, parameters, entry points.
template <class K>
const KernelRecord& kernel_record() {
  static_assert(kernel_detail::Kernel<K>,
                "a kernel is a function object without data, with one call operator that is const and no template");
  using Values = typename kernel_detail::KernelSignature<decltype(&K::operator())>::Values;
  using Layout = kernel_detail::ParamLayout<Values>;
  static const KernelRecord record {
    reprise::detail::kernel_name(typeid(K)), std::span<const KernelParam>(Layout::table.params, Layout::count),
        Layout::table.params[Layout::count].offset, &kernel_detail::host_entry<K, Values>,
        kernel_detail::find_accesses_entry<K, Values>(),
#if defined(__CUDACC__)
        &kernel_detail::find_symbol, kernel_detail::CudaSymbol<K, Values>::get()
#else
        nullptr, nullptr
#endif
  };
  return record;
}

/// Launches a kernel on a stream; on a capturing stream this makes a kernel node.
/// \param stream the stream to launch on.
/// \param config the shape of the launch.
/// \param kernel the function object.
/// \param args one for each parameter of the call operator after the first, convertible to its type (no floating point
///        to an integer), or a Parameter of that type; copied before the call returns.
/// \throws BackendError with 1 if the device cannot launch this shape; in a capture that invalidates the capture.
/// \throws UsageError on a CUDA device if nvcc did not compile the kernel.
template <class K, class... Args>
void launch(const StreamRef& stream, const LaunchConfig& config, K kernel, Args&&... args) {
  (void)kernel;
  const KernelRecord& record = kernel_record<K>();
  using Values = typename kernel_detail::KernelSignature<decltype(&K::operator())>::Values;
  kernel_detail::Launcher<Values>::launch(stream, config, record, std::forward<Args>(args)...);
}

/// Launches a kernel on the current stream.
template <class K, class... Args>
requires kernel_detail::Kernel<K>
void launch(const LaunchConfig& config, K kernel, Args&&... args) {
  reprise::launch(current_stream(), config, kernel, std::forward<Args>(args)...);
}

/// Launches a kernel with one thread for each of `threads` indices, in blocks of 256: LaunchConfig::cover(threads). The
/// last block may have more threads than there are indices, so the kernel compares its index with their number.
template <std::integral N, class K, class... Args>
requires kernel_detail::Kernel<K>
void launch(const StreamRef& stream, N threads, K kernel, Args&&... args) {
  reprise::launch(stream, LaunchConfig::cover(static_cast<std::size_t>(threads)), kernel, std::forward<Args>(args)...);
}

/// As above, on the current stream.
template <std::integral N, class K, class... Args>
requires kernel_detail::Kernel<K>
void launch(N threads, K kernel, Args&&... args) {
  reprise::launch(current_stream(), threads, kernel, std::forward<Args>(args)...);
}

#if defined(__CUDACC__)
/// Launches a `__global__` function on a stream of a CUDA device; on a capturing stream this makes a kernel node. Only
/// in files that nvcc compiles.
/// \param stream the stream to launch on.
/// \param config the shape of the launch; `shared_bytes` is the size of its `extern __shared__` memory.
/// \param kernel the function; of a template, one instance.
/// \param args as for a kernel that is a function object.
/// \throws BackendError with 1 if the device cannot launch this shape; in a capture that invalidates the capture.
/// \throws UsageError on a host device, which has no code of the function; if `kernel` is null.
template <class... Params, class... Args>
void launch(const StreamRef& stream, const LaunchConfig& config, void (*kernel)(Params...), Args&&... args) {
  using Layout = kernel_detail::ParamLayout<std::tuple<Params...>>;
  const KernelRecord& record = reprise::detail::global_function_record(
      KernelRecord{{},
                   std::span<const KernelParam>(Layout::table.params, Layout::count),
                   Layout::table.params[Layout::count].offset,
                   nullptr,
                   nullptr,
                   &kernel_detail::find_symbol,
                   reinterpret_cast<const void*>(kernel)},
      typeid(void(Params...)));
  kernel_detail::Launcher<std::tuple<Params...>>::launch(stream, config, record, std::forward<Args>(args)...);
}

/// Launches a `__global__` function on the current stream.
template <class... Params, class... Args>
void launch(const LaunchConfig& config, void (*kernel)(Params...), Args&&... args) {
  reprise::launch(current_stream(), config, kernel, std::forward<Args>(args)...);
}

/// Launches a `__global__` function with one thread for each of `threads` indices, as a kernel that is a function
/// object.
template <std::integral N, class... Params, class... Args>
void launch(const StreamRef& stream, N threads, void (*kernel)(Params...), Args&&... args) {
  reprise::launch(stream, LaunchConfig::cover(static_cast<std::size_t>(threads)), kernel, std::forward<Args>(args)...);
}

/// As above, on the current stream.
template <std::integral N, class... Params, class... Args>
void launch(N threads, void (*kernel)(Params...), Args&&... args) {
  reprise::launch(current_stream(), threads, kernel, std::forward<Args>(args)...);
}
#endif

}  // namespace REPRISE_KERNEL_ABI
}  // namespace reprise
