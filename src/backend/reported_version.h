// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

namespace reprise::backend {

/// The newest version of CUDA that a driver of any version serves, as 13000 for 13.0; 0 if it reports none.
/// \param library libcuda.so.1, opened; null for none.
inline int reported_version(void* library) {
  auto* const get =
      reinterpret_cast<int (*)(int*)>(library != nullptr ? dlsym(library, "cuDriverGetVersion") : nullptr);
  int version = 0;
  return get != nullptr && get(&version) == 0 ? version : 0;
}

}  // namespace reprise::backend
