# SPDX-License-Identifier: Apache-2.0
# fmt, which is compiled into the library, and nlohmann-json for benchmarks: the installed ones, else CMake
# fetches them while it configures. CLI11 and GTest, which must be installed where examples, tools and tests are built.
#   FETCHCONTENT_SOURCE_DIR_FMT, FETCHCONTENT_SOURCE_DIR_NLOHMANN_JSON   copies of their sources to be used instead,
#                                                                        where there is no network

include(FetchContent)
# Global, because a static library passes its private dependencies on to whatever links it, in any directory.
find_package(fmt 9.1 QUIET GLOBAL)
if(NOT fmt_FOUND)
  message(STATUS "fetching fmt, which is not installed")
  set(FMT_INSTALL OFF)
  FetchContent_Declare(fmt
    URL https://github.com/fmtlib/fmt/archive/refs/tags/9.1.0.tar.gz
    URL_HASH SHA256=5dea48d1fcddc3ec571ce2058e13910a0d4a6bab4cc09a809d8b1dd1c88ae6f2)
  FetchContent_MakeAvailable(fmt)
endif()
if(REPRISE_BUILD_BENCHMARKS)
  find_package(nlohmann_json 3.11 QUIET)
endif()
if(REPRISE_BUILD_BENCHMARKS AND NOT nlohmann_json_FOUND)
  message(STATUS "fetching nlohmann-json, which is not installed")
  set(JSON_Install OFF)
  set(CMAKE_POLICY_VERSION_MINIMUM 3.5)  # it names 3.1, which CMake 4 refuses
  FetchContent_Declare(nlohmann_json
    URL https://github.com/nlohmann/json/releases/download/v3.11.2/json.tar.xz
    URL_HASH SHA256=8c4b26bf4b422252e13f332bc5e388ec0ab5c3443d24399acb675e68278d341f)
  FetchContent_MakeAvailable(nlohmann_json)
  unset(CMAKE_POLICY_VERSION_MINIMUM)
endif()

# What is built beside the library.
if(REPRISE_BUILD_EXAMPLES OR REPRISE_BUILD_TOOLS)
  find_package(CLI11 QUIET)
  if(NOT CLI11_FOUND)
    message(FATAL_ERROR "CLI11 was not found; the examples and the command reprise need it. scripts/install-dependencies "
      "installs it (libcli11-dev); -DREPRISE_BUILD_EXAMPLES=OFF -DREPRISE_BUILD_TOOLS=OFF leaves both out")
  endif()
endif()
if(REPRISE_BUILD_TESTS)
  find_package(GTest QUIET)
  if(NOT TARGET GTest::gmock)
    message(FATAL_ERROR "GTest was not found, or without GMock; the tests need both. scripts/install-dependencies installs "
      "them (libgtest-dev, libgmock-dev); -DREPRISE_BUILD_TESTS=OFF leaves the tests out")
  endif()
endif()
