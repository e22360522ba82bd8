// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "reprise/error.h"
#include "reprise/libtorch/distributed.h"
#include "support/environment.h"
#include "text/format.h"

// Settings that launchers pass in environment variables.

namespace reprise::libtorch {
namespace {

struct Launcher {
  const char* name;
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_size;  // null if all processes may be elsewhere
};

constexpr std::array launchers{
    Launcher{"torchrun, or by hand", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    Launcher{"mpirun of Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
             "OMPI_COMM_WORLD_LOCAL_SIZE"},
    Launcher{"mpirun of MPICH or Intel MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
};

std::string value_text(const char* name) {
  const std::string_view value = support::environment(name);
  return value.empty() ? text::format("{} is not set", name) : text::format("{}={}", name, value);
}

[[noreturn]] void refuse_environment(const std::string& what) {
  std::string looked_for;
  for (const Launcher& each : launchers)
    looked_for += text::format("\n  {}: {}, {}, {}, {}", each.name, value_text(each.rank), value_text(each.world_size),
                               value_text(each.local_rank), value_text(each.local_size));
  looked_for += text::format("\n  where rank 0 is: {}, {}", value_text("MASTER_ADDR"), value_text("MASTER_PORT"));
  throw UsageError(
      text::format("process_environment(): {}. Start the program with `torchrun --no-python` or `mpirun`, or set the "
                   "variables of one launcher. Looked for, in this order:{}",
                   what, looked_for));
}

// Empty if the variable is not set.
std::optional<std::uint64_t> number(const char* name, std::uint64_t limit) {
  const std::string_view value = support::environment(name);
  if (value.empty()) return std::nullopt;
  const auto found = support::whole_number(value);
  if (!found || *found > limit)
    refuse_environment(text::format("expected a whole number up to {} in {}, found \"{}\"", limit, name, value));
  return found;
}

int needed(const char* name) {
  const auto found = number(name, std::numeric_limits<int>::max());
  if (!found) refuse_environment(text::format("expected {} to be set", name));
  return static_cast<int>(*found);
}

void find_master(ProcessEnvironment& found, const Launcher& launcher) {
  const std::string_view address = support::environment("MASTER_ADDR");
  const auto port = number("MASTER_PORT", std::numeric_limits<std::uint16_t>::max());
  const auto local_size = number(launcher.local_size, std::numeric_limits<int>::max());
  const bool one_machine = found.world_size == 1 || local_size == static_cast<std::uint64_t>(found.world_size);
  if (address.empty() && !one_machine)
    refuse_environment("expected MASTER_ADDR, the machine of rank 0, since not all processes are known to be on one");
  found.master_address = address.empty() ? "127.0.0.1" : std::string(address);
  found.master_port = static_cast<std::uint16_t>(port.value_or(29500));
  // torchrun runs the store itself, for all attempts to start the processes.
  if (support::environment("TORCHELASTIC_USE_AGENT_STORE") == "True") {
    const std::string_view attempt = support::environment("TORCHELASTIC_RESTART_COUNT");
    found.store_prefix = text::format("/worker/attempt_{}", attempt.empty() ? "0" : attempt);
  }
}

}  // namespace

ProcessEnvironment process_environment() {
  for (const Launcher& each : launchers) {
    if (support::environment(each.rank).empty()) continue;
    ProcessEnvironment found;
    found.rank = needed(each.rank);
    found.world_size = needed(each.world_size);
    if (found.world_size < 1 || found.rank >= found.world_size)
      refuse_environment(
          text::format("expected a rank below the number of processes, found {} of {}", found.rank, found.world_size));
    const bool alone = found.world_size == 1 && support::environment(each.local_rank).empty();
    found.local_rank = alone ? 0 : needed(each.local_rank);
    find_master(found, each);
    return found;
  }
  refuse_environment("found the rank of this process in no variable");
}

}  // namespace reprise::libtorch
