# SPDX-License-Identifier: Apache-2.0
# `cmake --install` installs a package: find_package(reprise), the target reprise::reprise, those of the components, and
# for pkg-config reprise.pc and a reprise-<component>.pc for each component without torch.
# CMake installs in three parts: `development`, which has headers, libraries and command; `runtime`, what a program needs
# of shared libraries; and `libtorch`, all for libtorch where it is built. `cpack -G DEB` makes two Debian packages of
# them: libreprise-dev, and with torch libreprise-libtorch-dev.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/reprise")
set(package_docs "${CMAKE_INSTALL_DATADIR}/doc/reprise")

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)
set(component_targets ${reprise_components})
list(TRANSFORM component_targets PREPEND reprise_)
install(TARGETS reprise ${component_targets} EXPORT reprise-targets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime NAMELINK_COMPONENT development
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.h" PATTERN "libtorch" EXCLUDE)
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${package_docs}")
# Debian's place for the licence of a package.
set(debian_docs "${CMAKE_INSTALL_DATADIR}/doc/libreprise")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${debian_docs}-dev" RENAME copyright)

install(EXPORT reprise-targets NAMESPACE reprise:: DESTINATION "${package_dir}")
if(TARGET reprise_libtorch)
  set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME libtorch)
  install(TARGETS reprise_libtorch reprise_libtorch_distributed reprise_libtorch_optim EXPORT reprise-libtorch-targets
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/reprise/libtorch" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/reprise")
  install(EXPORT reprise-libtorch-targets NAMESPACE reprise:: DESTINATION "${package_dir}")
  install(FILES "${PROJECT_SOURCE_DIR}/cmake/CacheFolder.cmake" "${PROJECT_SOURCE_DIR}/cmake/Torch.cmake"
    DESTINATION "${package_dir}")
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${debian_docs}-libtorch-dev" RENAME copyright)
  set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)
endif()
# A project without C++ links the library with these besides. A shared library brings them along.
set(reprise_cxx_libraries "")
if(NOT BUILD_SHARED_LIBS)
  set(reprise_cxx_libraries stdc++ m)
  if("c++" IN_LIST CMAKE_CXX_IMPLICIT_LINK_LIBRARIES)
    set(reprise_cxx_libraries c++ m)
  endif()
endif()
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/reprise-config.cmake.in"
  "${PROJECT_BINARY_DIR}/reprise-config.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/reprise-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/reprise-config.cmake" "${PROJECT_BINARY_DIR}/reprise-config-version.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/AddKernels.cmake" "${PROJECT_SOURCE_DIR}/cmake/Cublas.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/CudaLibraries.cmake"
  DESTINATION "${package_dir}")

# For what is built without CMake. A static library needs what it was linked with.
file(RELATIVE_PATH pc_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
set(pc_libs "")
foreach(library IN LISTS reprise_cxx_libraries CMAKE_DL_LIBS)
  if(NOT BUILD_SHARED_LIBS)
    string(APPEND pc_libs " -l${library}")
  endif()
endforeach()
configure_file("${PROJECT_SOURCE_DIR}/cmake/reprise.pc.in" "${PROJECT_BINARY_DIR}/reprise.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/reprise.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
foreach(name IN LISTS reprise_components)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/reprise-component.pc.in" "${PROJECT_BINARY_DIR}/reprise-${name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/reprise-${name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endforeach()

if(PROJECT_IS_TOP_LEVEL)
  set(CPACK_PACKAGE_NAME reprise)
  set(CPACK_PACKAGE_VENDOR reprise)
  set(CPACK_PACKAGE_CONTACT "the maintainers of reprise")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS librandom123-dev)
  # What `reprise` needs, with its versions where dpkg-dev is there to say them. It finds no shared library of the package
  # itself.
  find_program(REPRISE_DPKG_SHLIBDEPS dpkg-shlibdeps)
  mark_as_advanced(REPRISE_DPKG_SHLIBDEPS)
  if(REPRISE_DPKG_SHLIBDEPS AND NOT BUILD_SHARED_LIBS)
    set(CPACK_DEBIAN_CORE_PACKAGE_SHLIBDEPS ON)
  else()
    set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6, libgcc-s1, libstdc++6")
  endif()
  # A package for each group of components.
  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_COMPONENTS_ALL development runtime)
  set(CPACK_COMPONENT_DEVELOPMENT_GROUP core)
  set(CPACK_COMPONENT_RUNTIME_GROUP core)
  set(CPACK_DEBIAN_CORE_PACKAGE_NAME libreprise-dev)
  if(TARGET reprise_libtorch)
    list(APPEND CPACK_COMPONENTS_ALL libtorch)
    set(CPACK_COMPONENT_LIBTORCH_GROUP libtorch)
    set(CPACK_DEBIAN_LIBTORCH_PACKAGE_NAME libreprise-libtorch-dev)
    set(CPACK_DEBIAN_LIBTORCH_PACKAGE_DEPENDS "libreprise-dev (= ${PROJECT_VERSION})") # torch is no package
    set(CPACK_COMPONENT_LIBTORCH_DESCRIPTION
      "captures of tensors, built for torch ${REPRISE_FOUND_TORCH_VERSION}: the component libtorch")
  endif()
  if(BUILD_SHARED_LIBS)
    # The loader finds the library after that.
    file(WRITE "${PROJECT_BINARY_DIR}/debian/triggers" "activate-noawait ldconfig\n")
    set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${PROJECT_BINARY_DIR}/debian/triggers")
  endif()
  set(CPACK_VERBATIM_VARIABLES ON)
  include(CPack)
endif()
