// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace reprise::support {

/// Makes room for further elements, so that adding them cannot fail for lack of memory. Grows as push_back() does.
template <class T>
void make_room(std::vector<T>& vector, std::size_t further = 1) {
  if (vector.capacity() - vector.size() < further)
    vector.reserve(std::max(2 * vector.capacity(), vector.size() + further));
}

}  // namespace reprise::support
