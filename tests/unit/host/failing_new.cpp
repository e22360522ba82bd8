// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/host/failing_new.h"

#include <cstdlib>
#include <new>

namespace reprise::test {
namespace {

constinit thread_local std::size_t calls_left = 0;  // until the one that fails, which counts; 0: none does
constinit thread_local bool failed = false;

bool fails_now() noexcept {
  if (calls_left == 0 || --calls_left != 0) return false;
  failed = true;
  return true;
}

}  // namespace

FailingNew::FailingNew(std::size_t nth) noexcept {
  failed = false;
  calls_left = nth;
}

FailingNew::~FailingNew() {
  calls_left = 0;
}

bool FailingNew::happened() noexcept {
  return failed;
}

void* allocate_or_fail(std::size_t bytes) {
  void* const memory =
      fails_now() ? nullptr : std::malloc(bytes != 0 ? bytes : 1);  // NOLINT(cppcoreguidelines-no-malloc)
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace reprise::test

// The operators of the whole program; the other forms call these. AddressSanitizer has its own nothrow form, which does
// not.
void* operator new(std::size_t bytes) {
  return reprise::test::allocate_or_fail(bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t& /*nothrow*/) noexcept {
  try {
    return reprise::test::allocate_or_fail(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept {
  std::free(memory);  // NOLINT(cppcoreguidelines-no-malloc)
}
void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  std::free(memory);  // NOLINT(cppcoreguidelines-no-malloc)
}
