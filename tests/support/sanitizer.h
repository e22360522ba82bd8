// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which sanitizer the tests are compiled with.

#if defined(__SANITIZE_ADDRESS__)
#define REPRISE_TESTED_WITH_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define REPRISE_TESTED_WITH_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define REPRISE_TESTED_WITH_ASAN 1
#elif __has_feature(thread_sanitizer)
#define REPRISE_TESTED_WITH_TSAN 1
#endif
#endif

namespace reprise::test {

#ifdef REPRISE_TESTED_WITH_ASAN
inline constexpr bool with_address_sanitizer = true;
#else
inline constexpr bool with_address_sanitizer = false;
#endif
#ifdef REPRISE_TESTED_WITH_TSAN
inline constexpr bool with_thread_sanitizer = true;
#else
inline constexpr bool with_thread_sanitizer = false;
#endif

}  // namespace reprise::test
