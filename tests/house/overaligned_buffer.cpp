// SPDX-License-Identifier: Apache-2.0
#include "reprise/memory.h"

// Must not compile: memory is aligned to 512 bytes.

struct alignas(1024) Overaligned {
  char bytes[1024];
};

#ifdef OF_THE_HOST
const reprise::HostBuffer<Overaligned> buffer;
#else
const reprise::Buffer<Overaligned> buffer;
#endif
