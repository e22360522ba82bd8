// SPDX-License-Identifier: Apache-2.0
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "reprise/device.h"

// One binary for all machines: CUDA's driver is opened where there is one, and nothing breaks where there is none.
// These hold on machines of both kinds.

namespace reprise {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(CudaDevices, AreThereOrThereIsAReason) {
  EXPECT_EQ(backend::cuda_backends().empty(), !backend::cuda_unavailable_reason().empty());
}

TEST(CudaDevices, AreNumberedAsTheDriverNumbersThem) {
  const std::vector<backend::Backend*>& backends = backend::cuda_backends();
  for (std::size_t i = 0; i < backends.size(); ++i) {
    EXPECT_EQ(backends[i]->type(), DeviceType::cuda);
    EXPECT_EQ(backends[i]->index(), static_cast<int>(i));
    EXPECT_FALSE(backends[i]->device_name().empty());
  }
}

std::string refusal(const char* name) {
  try {
    Device::parse(name);
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

TEST(CudaDevices, ThatAreNotThereAreRefusedWithTheReason) {
  if (backend::cuda_backends().empty()) {
    EXPECT_THAT(refusal("cuda:0"), HasSubstr("there is no CUDA device"));
    EXPECT_THAT(refusal("cuda:0"), HasSubstr("libcuda.so.1"));
    EXPECT_THAT(refusal("cuda:0"), HasSubstr("use \"host\""));
  } else {
    EXPECT_EQ(Device::parse("cuda").str(), "cuda:0");
    EXPECT_THAT(refusal("cuda:4000"),
                HasSubstr("a CUDA device below " + std::to_string(backend::cuda_backends().size())));
  }
}

// The driver is opened once in a process, so these have processes of their own.
class CudaDevicesProcess : public ::testing::Test {
 protected:
  void SetUp() override { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

/// True if a device works.
bool works(const Device& device) {
  void* memory = nullptr;
  int value = 0;
  backend::Backend& backend = device.backend();
  const bool done = backend.memory_allocate(&memory, sizeof value) == ErrorCode::success &&
                    backend.set({memory, 7, 4, 1}) == ErrorCode::success &&
                    backend.copy(&value, memory, sizeof value) == ErrorCode::success && value == 7;
  return backend.memory_free(memory) == ErrorCode::success && done;
}

TEST_F(CudaDevicesProcess, ThatAreHiddenAreNotThereAndTheHostDeviceTakesTheirPlace) {
  const auto body = [] {
    setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
    unsetenv("REPRISE_DEVICE");
    const bool hidden = backend::cuda_backends().empty() && !refusal("cuda").empty();
    std::_Exit(hidden && default_device() == Device::parse("host") && works(default_device()) ? 0 : 1);
  };
  EXPECT_EXIT(body(), ::testing::ExitedWithCode(0), "");
}

/// The libraries that a loaded object needs, from its dynamic section.
std::vector<std::string> needed_by(const dl_phdr_info& object) {
  std::vector<std::string> needed;
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    if (object.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const auto* const dynamic = reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + object.dlpi_phdr[i].p_vaddr);
    const char* strings = nullptr;
    for (const ElfW(Dyn)* entry = dynamic; entry->d_tag != DT_NULL; ++entry)
      if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    for (const ElfW(Dyn)* entry = dynamic; strings != nullptr && entry->d_tag != DT_NULL; ++entry)
      if (entry->d_tag == DT_NEEDED) needed.emplace_back(strings + entry->d_un.d_val);
  }
  return needed;
}

/// What this program, and the library if it is a shared one, were linked with.
std::vector<std::string> linked_libraries() {
  std::vector<std::string> all;
  const auto visit = [](dl_phdr_info* object, std::size_t, void* data) {
    const std::string_view name = object->dlpi_name;
    // The program itself comes first, without a name.
    if (name.empty() || name.find("libreprise") != std::string_view::npos) {
      auto& libraries = *static_cast<std::vector<std::string>*>(data);
      for (std::string& library : needed_by(*object)) libraries.push_back(std::move(library));
    }
    return 0;
  };
  dl_iterate_phdr(visit, &all);
  return all;
}

TEST(CudaDriver, IsNotLinked) {
  const std::vector<std::string> all = linked_libraries();
  EXPECT_THAT(all, ::testing::Contains(HasSubstr("libc.so")));
  std::vector<std::string> of_cuda;
  for (const std::string& library : all)
    if (library.find("cuda") != std::string::npos || library.find("libnv") != std::string::npos)
      of_cuda.push_back(library);
  EXPECT_THAT(of_cuda, IsEmpty());
}

}  // namespace
}  // namespace reprise
