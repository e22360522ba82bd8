// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <map>
#include <string>

#include "tests/libtorch/distributed/distributed_fixture.h"

// How processes find each other, and what one alone does.

namespace reprise::libtorch::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Sets variables of launchers, and restores what there was.
class EnvironmentOfAProcess : public ::testing::Test {
 protected:
  EnvironmentOfAProcess() {
    for (const char* const name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
                                   "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
                                   "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "MASTER_ADDR",
                                   "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT"}) {
      const char* const value = getenv(name);
      before_[name] = value != nullptr ? value : "";
      unsetenv(name);
    }
  }
  ~EnvironmentOfAProcess() override {
    for (const auto& [name, value] : before_)
      value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
  }
  static void set(const std::map<std::string, std::string>& values) {
    for (const auto& [name, value] : values) setenv(name.c_str(), value.c_str(), 1);
  }
  static std::string refusal() {
    try {
      process_environment();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }

 private:
  std::map<std::string, std::string> before_;
};

TEST_F(EnvironmentOfAProcess, IsReadFromTheVariablesOfTorchrun) {
  set({{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "1234"}});
  ProcessEnvironment found = process_environment();
  EXPECT_EQ(found.rank, 3);
  EXPECT_EQ(found.world_size, 8);
  EXPECT_EQ(found.local_rank, 1);
  EXPECT_EQ(found.master_address, "node0");
  EXPECT_EQ(found.master_port, 1234);
  EXPECT_EQ(found.store_prefix, "");
  set({{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RESTART_COUNT", "2"}});
  EXPECT_EQ(process_environment().store_prefix, "/worker/attempt_2");
}

TEST_F(EnvironmentOfAProcess, IsReadFromTheVariablesOfMpirun) {
  set({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}});
  EXPECT_THAT(refusal(), HasSubstr("expected MASTER_ADDR"));
  set({{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  const ProcessEnvironment found = process_environment();
  EXPECT_EQ(found.rank, 1);
  EXPECT_EQ(found.local_rank, 1);
  EXPECT_EQ(found.master_address, "127.0.0.1");
  EXPECT_EQ(found.master_port, 29500);
}

TEST_F(EnvironmentOfAProcess, IsReadFromTheVariablesOfMpich) {
  set({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}});
  EXPECT_EQ(process_environment().world_size, 2);
}

TEST_F(EnvironmentOfAProcess, WithoutALauncherListsWhatWasLookedFor) {
  set({{"WORLD_SIZE", "2"}});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("in no variable"), HasSubstr("RANK is not set, WORLD_SIZE=2"),
                               HasSubstr("OMPI_COMM_WORLD_RANK is not set"), HasSubstr("PMI_RANK is not set"),
                               HasSubstr("MASTER_ADDR is not set, MASTER_PORT is not set"), HasSubstr("torchrun")));
}

TEST_F(EnvironmentOfAProcess, ThatCannotBeReadIsRefusedWithTheValue) {
  set({{"RANK", "two"}});
  EXPECT_THAT(refusal(), HasSubstr("in RANK, found \"two\""));
  set({{"RANK", "2"}, {"WORLD_SIZE", "2"}});
  EXPECT_THAT(refusal(), HasSubstr("found 2 of 2"));
  set({{"RANK", "1"}});
  EXPECT_THAT(refusal(), HasSubstr("expected LOCAL_RANK to be set"));
  set({{"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "2"}, {"MASTER_PORT", "70000"}});
  EXPECT_THAT(refusal(), HasSubstr("up to 65535 in MASTER_PORT"));
}

TEST_F(EnvironmentOfAProcess, OfOneProcessNeedsNoOther) {
  set({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  const c10::Device device = tested_device();
  const Stream stream(device_of_tensors(device));
  const StreamGuard guard(stream);
  const Tensor x = torch::ones({3}, device).requires_grad_();
  DataParallel parallel({x}, init_process_group(device));  // a group that refuses all collectives
  EXPECT_EQ(parallel.world_size(), 1);
  EXPECT_EQ(parallel.bucket_count(), 0U);
  CUDAGraph graph = capture([&] {
    x.mutable_grad() = Tensor();
    (x * 2).sum().backward();
    parallel.finish();
  });
  graph.replay();
  EXPECT_TRUE(torch::equal(x.grad().cpu(), torch::full({3}, 2.0F)));
}

TEST_F(TwoProcesses, MeetAtABarrier) {
  const auto group = make_group();
  const Tensor x = torch::ones({3}, device_);
  std::vector<Tensor> values{x};
  c10d::AllreduceOptions options;
  options.asyncOp = false;
  if (const auto work = group->allreduce(values, options)) work->synchronize();
  stream_->synchronize();
  store_->set("came" + std::to_string(rank()), "here");
  if (const auto work = group->barrier()) work->wait();
  EXPECT_TRUE(store_->check({"came" + std::to_string(1 - rank())}));
}

TEST(ProcessGroupsOfSeveral, OnHostDevicesAreRefused) {
  const ProcessEnvironment environment{.rank = 0, .world_size = 2};
  try {
    init_process_group(torch::kCPU, environment);
    ADD_FAILURE() << "NCCL has no other devices";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("expected a CUDA device"), HasSubstr("found cpu, with 2 processes")));
  }
}

TEST(ProcessGroupsOfSeveral, WithARankThatIsNoneOfTheWorldAreRefused) {
  EXPECT_THROW(init_process_group(torch::kCPU, ProcessEnvironment{.rank = 2, .world_size = 2}), UsageError);
  EXPECT_THROW(init_process_group(torch::kCPU, ProcessEnvironment{.rank = 0, .world_size = 0}), UsageError);
  EXPECT_THROW(init_process_group(torch::kCPU, ProcessEnvironment{.rank = -1, .world_size = 2}), UsageError);
}

TEST(DataParallelArguments, ThatCannotWorkAreRefused) {
  const c10::Device device = tested_device();
  const Tensor x = torch::ones({3}, device);
  const auto alone = init_process_group(device, ProcessEnvironment{});
  const auto several = c10::make_intrusive<StoreGroup>(nullptr, "none", 0, 2);
  EXPECT_THROW(DataParallel({x}, nullptr), UsageError);
  EXPECT_THROW(DataParallel({x}, alone, {.bucket_bytes = 0}), UsageError);
  EXPECT_THROW(DataParallel(std::vector<Tensor>(), several), UsageError);
  EXPECT_THROW(DataParallel({Tensor()}, several), UsageError);
  EXPECT_THROW(DataParallel({x, torch::ones({3})}, several), UsageError);
  EXPECT_THROW(DataParallel({torch::ones({3})}, several), UsageError);  // tensors of the CPU are in no graph
}

}  // namespace
}  // namespace reprise::libtorch::test
