// SPDX-License-Identifier: Apache-2.0

// A library, as far as a stack shows: its file is called libnccl..., and it makes a call of its user's.

extern "C" int fakeNcclInit(int (*call)()) {
  const int result = call();
  return result + 1;  // not a tail call: this function stays on the stack
}
