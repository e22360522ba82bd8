// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/error_log.h"

#include <vector>

#include "backend/cuda/log_text.h"

namespace reprise::backend::cuda {
namespace {

/// The size limit of the driver's log, in bytes.
constexpr std::size_t log_capacity = 25600;

}  // namespace

std::optional<LogIterator> log_position(const DriverApi& driver) {
  LogIterator position{};
  if (driver.cuLogsCurrent == nullptr || driver.cuLogsCurrent(&position, 0) != CUDA_SUCCESS) return std::nullopt;
  return position;
}

std::string log_since(const DriverApi& driver, std::optional<LogIterator> position) {
  if (driver.cuLogsDumpToMemory == nullptr) return {};
  std::vector<char> buffer(log_capacity + 1);
  std::size_t size = log_capacity;
  if (driver.cuLogsDumpToMemory(position ? &*position : nullptr, buffer.data(), &size, 0) != CUDA_SUCCESS) return {};
  return {buffer.data(), size};
}

std::string log_name(pthread_t thread) {
  return std::to_string(thread);  // seen with driver 580; it is not the number that gettid gives
}

std::string latest_error(const DriverApi& driver) {
  // The end of what this thread has read. Lines of other threads are skipped.
  thread_local std::optional<LogIterator> position;
  const std::string log = log_since(driver, position);
  position = log_position(driver);
  return last_message(log, log_name(pthread_self()));
}

}  // namespace reprise::backend::cuda
