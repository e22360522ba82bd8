# SPDX-License-Identifier: Apache-2.0
# A recipe for Conan 2: `conan create .` builds the library and makes a package of it. fmt is compiled into
# the library; CMake finds or fetches it.

import os
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import load


class Reprise(ConanFile):
    name = "reprise"
    description = "CUDA graphs for C++: capture once, replay many"
    license = "Apache-2.0"
    package_type = "library"
    settings = "os", "compiler", "build_type", "arch"
    options = {"shared": [True, False]}
    default_options = {"shared": False}
    exports_sources = (
        "CMakeLists.txt", "LICENSE", "cmake/*", "docs/CMakeLists.txt", "docs/Doxyfile.in", "docs/site/*", "include/*",
        "src/*", "tools/*")

    def set_version(self):
        text = load(self, os.path.join(self.recipe_folder, "CMakeLists.txt"))
        self.version = re.search(r"project\(reprise VERSION ([0-9.]+)", text).group(1)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in "TESTS", "EXAMPLES", "BENCHMARKS", "TOOLS":
            toolchain.cache_variables["REPRISE_BUILD_" + part] = False
        toolchain.cache_variables["REPRISE_LIBTORCH"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()

    def package_info(self):
        # find_package(reprise) finds the configuration that CMake installed, with reprise_add_kernels().
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "reprise")]
        self.cpp_info.libs = ["reprise_compare", "reprise_timings", "reprise_c", "reprise"]
        if not self.options.shared:
            self.cpp_info.system_libs = ["pthread", "dl", "m"]
