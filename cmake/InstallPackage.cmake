# SPDX-License-Identifier: Apache-2.0
# `cmake --install` installs a package: find_package(reprise) and the target reprise::reprise.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/reprise")
set(package_docs "${CMAKE_INSTALL_DATADIR}/doc/reprise")

install(TARGETS reprise EXPORT reprise-targets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}"
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${package_docs}")

install(EXPORT reprise-targets NAMESPACE reprise:: DESTINATION "${package_dir}")
if(TARGET reprise_libtorch)
  install(TARGETS reprise_libtorch EXPORT reprise-libtorch-targets
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
  install(EXPORT reprise-libtorch-targets NAMESPACE reprise:: DESTINATION "${package_dir}")
  install(FILES "${PROJECT_SOURCE_DIR}/cmake/Torch.cmake" DESTINATION "${package_dir}")
endif()
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/reprise-config.cmake.in"
  "${PROJECT_BINARY_DIR}/reprise-config.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/reprise-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/reprise-config.cmake" "${PROJECT_BINARY_DIR}/reprise-config-version.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/AddKernels.cmake" "${PROJECT_SOURCE_DIR}/cmake/Cublas.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/CudaLibraries.cmake"
  DESTINATION "${package_dir}")
