// SPDX-License-Identifier: Apache-2.0
#include "text/demangle.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace reprise::text {

std::string demangle(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(symbol, nullptr, nullptr, &status), &std::free);
  return status == 0 && name != nullptr ? name.get() : symbol;
}

}  // namespace reprise::text
