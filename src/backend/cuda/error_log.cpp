// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/error_log.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/log_text.h"

namespace reprise::backend::cuda {
namespace {

/// The driver keeps no more than this, in bytes.
constexpr std::size_t log_capacity = 25600;

}  // namespace

std::string latest_error(const DriverApi& driver) {
  // Where this thread stopped reading. What other threads left in between is read, and passed over.
  thread_local std::optional<CUlogIterator> position;
  std::vector<char> buffer(log_capacity + 1);
  std::size_t size = log_capacity;
  const CUresult dumped = driver.cuLogsDumpToMemory(position ? &*position : nullptr, buffer.data(), &size, 0);
  if (!position) {
    CUlogIterator current{};
    if (driver.cuLogsCurrent(&current, 0) == CUDA_SUCCESS) position = current;
  }
  if (dumped != CUDA_SUCCESS) return {};
  return last_message(std::string_view(buffer.data(), size), std::to_string(::syscall(SYS_gettid)));
}

}  // namespace reprise::backend::cuda
