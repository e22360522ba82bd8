// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "backend/check.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/own_records.h"

// The work of streams: copies, sets, kernels, host functions.

namespace reprise::backend::cuda {
namespace {

/// A launch in the form of the driver. The attributes are stored in this object.
class Launch {
 public:
  Launch(const LaunchConfig& shape, CUstream stream) {
    config_.gridDimX = shape.grid.x;
    config_.gridDimY = shape.grid.y;
    config_.gridDimZ = shape.grid.z;
    config_.blockDimX = shape.block.x;
    config_.blockDimY = shape.block.y;
    config_.blockDimZ = shape.block.z;
    config_.sharedMemBytes = shape.shared_bytes;
    config_.hStream = stream;
    config_.attrs = attributes_.data();
    if (shape.cluster != Dim3{}) {
      CUlaunchAttributeValue& value = add(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
      value.clusterDim = {shape.cluster.x, shape.cluster.y, shape.cluster.z};
    }
    if (shape.cooperative) add(CU_LAUNCH_ATTRIBUTE_COOPERATIVE).cooperative = 1;
    if (shape.programmatic)
      add(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION).programmaticStreamSerializationAllowed = 1;
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  const CUlaunchConfig& config() const { return config_; }

 private:
  CUlaunchAttributeValue& add(CUlaunchAttributeID id) {
    CUlaunchAttribute& attribute = attributes_[config_.numAttrs++];
    attribute.id = id;
    return attribute.value;
  }

  // Not initialised as a whole: most launches have none.
  std::array<CUlaunchAttribute, 3> attributes_;
  CUlaunchConfig config_{};
};

}  // namespace

Result CudaBackend::copy(void* destination, const void* source, std::size_t bytes) {
  return enter(Call::copy, [&] { return driver_.cuMemcpy(to_address(destination), to_address(source), bytes); });
}

Result CudaBackend::copy_async(void* destination, const void* source, std::size_t bytes, StreamHandle stream) {
  return enter({Call::copy_async, stream},
               [&] { return driver_.cuMemcpyAsync(to_address(destination), to_address(source), bytes, stream); });
}

Result CudaBackend::set(const MemsetNodeParams& params) {
  return enter(Call::set, [&] {
    const CUdeviceptr address = to_address(params.destination);
    switch (params.element_bytes) {
      case 1:
        return driver_.cuMemsetD8(address, static_cast<unsigned char>(params.value), params.count);
      case 2:
        return driver_.cuMemsetD16(address, static_cast<unsigned short>(params.value), params.count);
      case 4:
        return driver_.cuMemsetD32(address, params.value, params.count);
      default:
        return CUDA_ERROR_INVALID_VALUE;  // no such call in the driver
    }
  });
}

Result CudaBackend::set_async(const MemsetNodeParams& params, StreamHandle stream) {
  return enter({Call::set_async, stream}, [&] {
    const CUdeviceptr address = to_address(params.destination);
    switch (params.element_bytes) {
      case 1:
        return driver_.cuMemsetD8Async(address, static_cast<unsigned char>(params.value), params.count, stream);
      case 2:
        return driver_.cuMemsetD16Async(address, static_cast<unsigned short>(params.value), params.count, stream);
      case 4:
        return driver_.cuMemsetD32Async(address, params.value, params.count, stream);
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  });
}

Result CudaBackend::kernel_function(const KernelRecord& kernel, FunctionHandle* function) {
  if (FunctionHandle known = kernel.cuda_functions.find(index_); known != nullptr) [[likely]] {
    *function = known;
    return ErrorCode::success;
  }
  if (kernel.cuda_function == nullptr) return {ErrorCode::invalid_device_function, "nvcc did not compile the kernel"};
  FunctionHandle found = nullptr;
  Result entered = enter(Call::kernel_function, [&] {
    const RelaxedCaptureMode relaxed(*this);  // the first use of a kernel may load it, which must not break a capture
    return static_cast<CUresult>(kernel.cuda_function(kernel, &found));
  });
  if (entered.failed()) return entered;
  // First what may throw bad_alloc: a function that the record has is never added again. Not within enter(), which
  // would leave its context current.
  add_function(kernel, found);
  kernel.cuda_functions.add(index_, found);
  *function = found;
  return ErrorCode::success;
}

Result CudaBackend::function_name(FunctionHandle function, const char** name) {
  return enter(Call::function_name, [&] { return driver_.cuFuncGetName(name, function); });
}

Result CudaBackend::function_param_info(FunctionHandle function, std::size_t index, KernelParam* param) {
  return enter(Call::function_param_info, [&] {
    KernelParam found;
    const CUresult result = driver_.cuFuncGetParamInfo(function, index, &found.offset, &found.size);
    if (result != CUDA_SUCCESS) return result;
    complete_param(function, index, &found);
    *param = found;
    return result;
  });
}

Result CudaBackend::function_set_max_shared(FunctionHandle function, unsigned bytes) {
  return enter(Call::function_set_max_shared, [&] {
    return driver_.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                      static_cast<int>(bytes));
  });
}

Result CudaBackend::launch_kernel(const KernelNodeParams& launch, StreamHandle stream) {
  return enter({Call::launch_kernel, stream}, [&] {
    const Launch made(launch.config, stream);
    return driver_.cuLaunchKernelEx(&made.config(), launch.function, launch.params, launch.extra);
  });
}

Result CudaBackend::launch_host_function(const HostNodeParams& params, StreamHandle stream) {
  return enter({Call::launch_host_function, stream},
               [&] { return driver_.cuLaunchHostFunc(stream, params.function, params.data); });
}

}  // namespace reprise::backend::cuda
