// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "reprise/device.h"
#include "tests/pages/page.h"

namespace reprise::pages {
namespace {

bool has_cuda_device() {
  const auto all = devices();
  return std::any_of(all.begin(), all.end(), [](const Device& each) { return each.type() == DeviceType::cuda; });
}

/// Takes what is written to standard output, until the end of the scope.
class StandardOutput {
 public:
  StandardOutput() { testing::internal::CaptureStdout(); }
  ~StandardOutput() {
    if (!taken_) testing::internal::GetCapturedStdout();
  }
  StandardOutput(const StandardOutput&) = delete;
  StandardOutput& operator=(const StandardOutput&) = delete;

  std::string take() {
    taken_ = true;
    return testing::internal::GetCapturedStdout();
  }

 private:
  bool taken_ = false;
};

class PageTest : public testing::Test {
 public:
  explicit PageTest(const Page& page) : page_(page) {}

  void TestBody() override {
    if (std::string_view(page_.group).starts_with("cuda") && !has_cuda_device())
      GTEST_SKIP() << "there is no CUDA device";
    if (page_.prints == nullptr) return page_.run();
    StandardOutput output;
    page_.run();
    EXPECT_EQ(output.take(), page_.prints);
  }

 private:
  Page page_;
};

}  // namespace

Registration::Registration(const Page& page) {
  testing::RegisterTest(page.group, page.name, nullptr, nullptr, __FILE__, __LINE__,
                        [page]() -> testing::Test* { return new PageTest(page); });
}

void fail(const std::string& why) {
  ADD_FAILURE() << why;
}

}  // namespace reprise::pages
