// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/check.h"
#include "backend/rules/capture_rules.h"
#include "reprise/error.h"
#include "tests/unit/memory/memory_fixture.h"

namespace reprise {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ResultName, IsCudasNameOfTheCode) {
  EXPECT_STREQ(result_name(ErrorCode::success), "cudaSuccess");
  EXPECT_STREQ(result_name(ErrorCode::out_of_memory), "cudaErrorMemoryAllocation");
  EXPECT_STREQ(result_name(ErrorCode::stream_capture_unsupported), "cudaErrorStreamCaptureUnsupported");
  EXPECT_STREQ(result_name(ErrorCode::stream_capture_wrong_thread), "cudaErrorStreamCaptureWrongThread");
  EXPECT_STREQ(result_name(static_cast<ErrorCode>(1)), "cudaErrorInvalidValue");
  EXPECT_STREQ(result_name(static_cast<ErrorCode>(401)), "cudaErrorIllegalState");
  EXPECT_STREQ(result_name(static_cast<ErrorCode>(903)), "cudaErrorStreamCaptureUnmatched");
  EXPECT_STREQ(result_name(static_cast<ErrorCode>(905)), "cudaErrorStreamCaptureIsolation");
  EXPECT_STREQ(result_name(static_cast<ErrorCode>(906)), "cudaErrorStreamCaptureImplicit");
  EXPECT_STREQ(result_name(static_cast<ErrorCode>(907)), "cudaErrorCapturedEvent");
}

TEST(ResultName, OfACodeWithoutANameIsUnknown) {
  EXPECT_STREQ(result_name(static_cast<ErrorCode>(12345)), "cudaErrorUnknown");
  EXPECT_STRNE(result_description(static_cast<ErrorCode>(12345)), "");
}

TEST(ResultName, AndDescriptionAreKnownForDriversThatAreRefusedAndKernelsWithoutCode) {
  EXPECT_STREQ(result_name(static_cast<ErrorCode>(209)), "cudaErrorNoKernelImageForDevice");
  EXPECT_STREQ(result_name(static_cast<ErrorCode>(803)), "cudaErrorSystemDriverMismatch");
  EXPECT_STREQ(result_name(static_cast<ErrorCode>(804)), "cudaErrorCompatNotSupportedOnDevice");
  for (const int code : {209, 803, 804})
    EXPECT_EQ(std::string(result_description(static_cast<ErrorCode>(code))).find("never expects"), std::string::npos);
}

TEST(ResultDescription, IsASentenceWithoutAFullStop) {
  for (int code = 0; code < 1000; ++code) {
    const std::string text = result_description(static_cast<ErrorCode>(code));
    ASSERT_FALSE(text.empty());
    EXPECT_NE(text.back(), '.') << text;
  }
}

TEST(BackendErrorText, NamesCallCodeMeaningDetailAndPlace) {
  const SourceLocation here = SourceLocation::current();
  const BackendError error("cuMemAlloc", ErrorCode::stream_capture_unsupported, "more of it", here);
  EXPECT_EQ(error.call(), "cuMemAlloc");
  EXPECT_EQ(error.code(), ErrorCode::stream_capture_unsupported);
  EXPECT_EQ(error.detail(), "more of it");
  EXPECT_EQ(error.where().line, here.line);
  const std::string text = error.what();
  for (const char* part : {"cuMemAlloc", "900", "cudaErrorStreamCaptureUnsupported", "not permitted while a stream",
                           "more of it", "errors_test.cpp"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(BackendErrorText, LeavesOutWhatIsNotKnown) {
  const BackendError error("cuMemAlloc", static_cast<ErrorCode>(12345), "", SourceLocation{});
  EXPECT_THAT(error.what(), HasSubstr("12345"));
  EXPECT_THAT(error.what(), Not(HasSubstr("[")));
}

TEST(BackendResult, OfACallThatACaptureRefusesHasTheRule) {
  const Stream stream(Device::parse("host"));
  backend::Backend& backend = stream.device().backend();
  ASSERT_EQ(backend.stream_begin_capture(stream.native(), CaptureMode::relaxed), ErrorCode::success);
  backend::Result refused = backend.stream_synchronize(stream.native());
  GraphHandle graph = nullptr;
  EXPECT_EQ(backend.stream_end_capture(stream.native(), &graph), ErrorCode::stream_capture_invalidated);
  ASSERT_NE(refused.rule(), nullptr);
  EXPECT_EQ(refused, refused.rule()->result);
  EXPECT_THAT(refused.detail(), HasSubstr(refused.rule()->sentence));
  const backend::Result moved = std::move(refused);
  EXPECT_EQ(moved, ErrorCode::stream_capture_unsupported);
  EXPECT_NE(moved.rule(), nullptr);
}

TEST(Check, GivesTheReasonOfTheResultWhateverFailedSince) {
  backend::Backend& backend = Device::parse("host").backend();
  void* memory = nullptr;
  const backend::Result refused = backend.memory_allocate(&memory, 0);
  EXPECT_THAT(backend.event_synchronize(nullptr).detail(), HasSubstr("there is no such event"));
  try {
    backend::check(backend, backend::Call::memory_allocate, refused);
    FAIL() << "no exception";
  } catch (const BackendError& error) {
    EXPECT_EQ(error.detail(), "0 bytes cannot be allocated");
  }
}

TEST(Check, PassesSuccessAndThrowsTheRest) {
  backend::Backend& backend = default_device().backend();
  EXPECT_NO_THROW(backend::check(backend, backend::Call::memory_free, ErrorCode::success));
  try {
    backend::check(backend, backend::Call::memory_free, ErrorCode::invalid_value);
    FAIL() << "no exception";
  } catch (const BackendError& error) {
    EXPECT_EQ(error.call(), "cuMemFree");
    EXPECT_EQ(error.code(), ErrorCode::invalid_value);
  }
}

TEST(Checked, MakesTheCallAndThrowsWithItsNameAndTheCallersPlace) {
  const backend::Checked runtime(default_device().backend());
  void* pointer = nullptr;
  EXPECT_TRUE(runtime.memory_allocate(&pointer, 16));
  EXPECT_TRUE(runtime.memory_free(pointer));
  const unsigned line = __LINE__ + 2;
  try {
    runtime.memory_free(&pointer);
    FAIL() << "no exception";
  } catch (const BackendError& error) {
    EXPECT_EQ(error.call(), "cuMemFree");
    EXPECT_EQ(error.code(), ErrorCode::invalid_value);
    EXPECT_EQ(error.where().line, line);
    EXPECT_THAT(error.where().file, HasSubstr("errors_test.cpp"));
  }
}

TEST(Checked, ReturnsFalseForACodeThatIsAllowedAndThrowsTheOthers) {
  const backend::Checked runtime(default_device().backend());
  int no_block = 0;
  void* const nothing = &no_block;
  EXPECT_FALSE(runtime.allowing(ErrorCode::invalid_value).memory_free(nothing));
  EXPECT_THROW(runtime.allowing(ErrorCode::not_ready).memory_free(nothing), BackendError);
  EXPECT_THROW(runtime.memory_free(nothing), BackendError) << "the facade itself is as it was";
}

TEST(WarnOnError, MakesTheCallAndSendsAnErrorToTheSink) {
  const memory::test::Warnings warnings;
  const backend::WarnOnError runtime(default_device().backend());
  EventHandle event = nullptr;
  EXPECT_TRUE(runtime.event_create(&event, backend::EventFlags::disable_timing));
  EXPECT_TRUE(runtime.event_destroy(event));
  EXPECT_TRUE(warnings.texts().empty());
  EXPECT_FALSE(runtime.memory_free(&event));
  ASSERT_EQ(warnings.texts().size(), 1u);
  EXPECT_THAT(warnings.texts()[0], HasSubstr("cuMemFree returned 1"));
  EXPECT_THAT(warnings.texts()[0], HasSubstr("errors_test.cpp"));
}

TEST(Report, SendsAnErrorToTheSinkInsteadOfThrowing) {
  const memory::test::Warnings warnings;
  backend::Backend& backend = default_device().backend();
  EXPECT_TRUE(backend::warn_on_error(backend, backend::Call::memory_free, ErrorCode::success));
  EXPECT_TRUE(warnings.texts().empty());
  EXPECT_FALSE(backend::warn_on_error(backend, backend::Call::memory_free, ErrorCode::invalid_value));
  ASSERT_EQ(warnings.texts().size(), 1u);
  EXPECT_THAT(warnings.texts()[0], HasSubstr("cuMemFree returned 1"));
}

}  // namespace
}  // namespace reprise
