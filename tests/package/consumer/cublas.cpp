// SPDX-License-Identifier: Apache-2.0
// Uses the component cublas, as far as that goes on a machine without a GPU: all of it is linked, and says no.

#include <cstdio>
#include <string>

#include <reprise/cublas.h>
#include <reprise/reprise.h>

int main() {
  try {
    reprise::CublasHandle blas(reprise::Device::parse("host"));
    reprise::check_cublas(cublasSscal(blas.on(), 0, nullptr, nullptr, 1), "cublasSscal");
  } catch (const reprise::UsageError& error) {
    const std::string text = error.what();
    std::printf("%s\n", text.substr(0, text.find(':', text.find(':') + 1)).c_str());
    return 0;
  }
  return 1;
}
