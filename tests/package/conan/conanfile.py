# SPDX-License-Identifier: Apache-2.0
# The consumer of the package tests, with the package that `conan create` made.

import os

from conan import ConanFile
from conan.errors import ConanException
from conan.tools.cmake import CMake, cmake_layout
from conan.tools.files import load


class Consumer(ConanFile):
    settings = "os", "compiler", "build_type", "arch"
    generators = "CMakeToolchain", "VirtualRunEnv"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def _consumer(self, *path):
        return os.path.join(self.recipe_folder, "..", "consumer", *path)

    def build(self):
        cmake = CMake(self)
        cmake.configure(variables={"CONSUMER_PROGRAM": self._consumer("main.cpp")}, build_script_folder=self._consumer())
        cmake.build()

    def test(self):
        output = os.path.join(self.build_folder, "output.txt")
        self.run(f'"{os.path.join(self.build_folder, "consumer")}" > "{output}"', env="conanrun")
        found, expected = load(self, output), load(self, self._consumer("expected_output.txt"))
        if found != expected:
            raise ConanException(f"The program printed\n{found}but expected was\n{expected}")
