// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

/// \file
/// For the sources that write_page.awk makes of the pages.

namespace reprise::pages {

/// The code of a page's blocks.
struct Page {
  const char* group;             ///< of blocks that need the same: host, libtorch, cuda, cuda_tensors
  const char* name;              ///< of the page
  void (*run)();                 ///< all of its statements, in order
  const char* prints = nullptr;  ///< what must be on standard output; null: anything
};

/// Makes the test `group.name` of a page. Groups of CUDA are skipped where there is no CUDA device.
struct Registration {
  explicit Registration(const Page& page);
};

/// Fails the test of the page that runs.
void fail(const std::string& why);

/// Fails the test unless the `main` of a block returned 0.
inline void expect_success(int exit_code) {
  if (exit_code != 0) fail("expected main() to return 0; found " + std::to_string(exit_code));
}

/// Runs a block, and fails the test unless it throws an Exception, which has that name.
template <class Exception, class Block>
void expect_throw(const Block& block, const std::string& name) {
  try {
    block();
  } catch (const Exception&) {
    return;
  }
  fail("expected the block to throw " + name + "; found that it ended");
}

}  // namespace reprise::pages
