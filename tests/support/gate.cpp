// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gate.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/support/environment_number.h"

namespace reprise::test {

namespace {

constexpr const char* patience_variable = "REPRISE_TEST_PATIENCE";
constexpr std::uint64_t most_patience = 24 * 60 * 60;

}  // namespace

const std::chrono::seconds patience(environment_number(patience_variable, 30, 1, most_patience));

void Gate::stand() {
  std::unique_lock lock(mutex_);
  ++arrivals_;
  changed_.notify_all();
  if (changed_.wait_for(lock, patience, [&] { return open_; })) return;
  // A tool that runs one piece of work at a time makes tests wait without effect: a shorter limit is set for it.
  if (support::environment(patience_variable).empty()) {
    ADD_FAILURE() << "a gate was not opened within " << patience.count() << " s";
  }
}

void Gate::open() {
  const std::scoped_lock lock(mutex_);
  open_ = true;
  changed_.notify_all();
}

bool Gate::wait_until_reached() {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, patience, [&] { return arrivals_ > 0; });
}

bool Gate::reached() const {
  const std::scoped_lock lock(mutex_);
  return arrivals_ > 0;
}

bool Gate::is_open() const {
  const std::scoped_lock lock(mutex_);
  return open_;
}

int Gate::arrivals() const {
  const std::scoped_lock lock(mutex_);
  return arrivals_;
}

void Meeting::meet() {
  std::unique_lock lock(mutex_);
  ++arrived_;
  changed_.notify_all();
  if (!changed_.wait_for(lock, patience, [&] { return arrived_ >= parties_; })) missed_ = true;
}

bool Meeting::all_met() const {
  const std::scoped_lock lock(mutex_);
  return arrived_ >= parties_ && !missed_;
}

}  // namespace reprise::test
