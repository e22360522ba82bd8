# SPDX-License-Identifier: Apache-2.0
# fmt, which is compiled into the library: the installed one, else one that CMake fetches while it configures.
#   FETCHCONTENT_SOURCE_DIR_FMT   a copy of its sources that is used instead, where there is no network

find_package(fmt QUIET GLOBAL) # a static library passes its private dependencies on to what links it, in any directory
if(NOT fmt_FOUND)
  include(FetchContent)
  message(STATUS "fmt is not installed: fetching it")
  set(FMT_INSTALL OFF)
  FetchContent_Declare(fmt
    URL https://github.com/fmtlib/fmt/archive/refs/tags/9.1.0.tar.gz
    URL_HASH SHA256=5dea48d1fcddc3ec571ce2058e13910a0d4a6bab4cc09a809d8b1dd1c88ae6f2)
  FetchContent_MakeAvailable(fmt)
endif()
