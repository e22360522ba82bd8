# SPDX-License-Identifier: Apache-2.0
# Makes a Debian package, unpacks it, and compiles a program against it with what pkg-config says.
#   BINARY_DIR, WORK                where the library was built; where to work
#   CPACK, DPKG_DEB, PKG_CONFIG     the commands
#   LIBDIR, VERSION                 of the library
#   SHARED                          ON if it is a shared one, built as a part of another project: the project itself, which
#                                   says what the package is, is configured here (SOURCE_DIR, GENERATOR)
#   PROGRAM, EXPECTED, CXX_COMPILER, CXX_FLAGS   as check_consumer.cmake

file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}/root")
set(config "${BINARY_DIR}/CPackConfig.cmake")
set(installed "")
if(SHARED)
  execute_process(COMMAND "${CMAKE_COMMAND}" -G "${GENERATOR}" -S "${SOURCE_DIR}" -B "${WORK}/configured"
    "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}" -DBUILD_SHARED_LIBS=ON -DREPRISE_CUDA=OFF
    -DREPRISE_LIBTORCH=OFF -DREPRISE_BUILD_TESTS=OFF -DREPRISE_BUILD_EXAMPLES=OFF -DREPRISE_BUILD_BENCHMARKS=OFF
    -DREPRISE_BUILD_TOOLS=OFF COMMAND_ERROR_IS_FATAL ANY)
  set(config "${WORK}/configured/CPackConfig.cmake")
  set(installed -D "CPACK_INSTALL_CMAKE_PROJECTS=${BINARY_DIR}\\;reprise\\;ALL\\;/")
endif()
execute_process(COMMAND "${CPACK}" -G DEB --config "${config}" -B "${WORK}" ${installed}
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(GLOB package "${WORK}/libreprise-dev_${VERSION}*.deb")
execute_process(COMMAND "${DPKG_DEB}" -f "${package}" Depends OUTPUT_VARIABLE depends COMMAND_ERROR_IS_FATAL ANY)
if(NOT depends MATCHES "libstdc\\+\\+6")
  message(FATAL_ERROR "The package depends on \"${depends}\"; expected was the standard library, for its program")
endif()
execute_process(COMMAND "${DPKG_DEB}" -x "${package}" "${WORK}/root" COMMAND_ERROR_IS_FATAL ANY)

set(static --static)
if(SHARED)
  set(static "")
  set(lib "${WORK}/root/usr/${LIBDIR}")
  set(ENV{LD_LIBRARY_PATH} "${lib}")
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" soversion "${VERSION}")
  foreach(name IN ITEMS libreprise.so libreprise.so.${soversion} libreprise.so.${VERSION})
    if(NOT EXISTS "${lib}/${name}")
      message(FATAL_ERROR "The package has no ${name}")
    endif()
  endforeach()
  execute_process(COMMAND "${DPKG_DEB}" --info "${package}" triggers OUTPUT_VARIABLE triggers COMMAND_ERROR_IS_FATAL ANY)
  if(NOT triggers MATCHES "ldconfig")
    message(FATAL_ERROR "The package has the triggers \"${triggers}\"; expected was ldconfig, for its library")
  endif()
endif()

set(ENV{PKG_CONFIG_PATH} "${WORK}/root/usr/${LIBDIR}/pkgconfig")
execute_process(COMMAND "${PKG_CONFIG}" --modversion reprise OUTPUT_VARIABLE version
  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
if(NOT version STREQUAL VERSION)
  message(FATAL_ERROR "pkg-config names version ${version}; expected was ${VERSION}")
endif()
foreach(which IN ITEMS cflags libs)
  execute_process(COMMAND "${PKG_CONFIG}" ${static} --${which} reprise OUTPUT_VARIABLE ${which}
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(${which} UNIX_COMMAND "${${which}}")
endforeach()
separate_arguments(flags UNIX_COMMAND "${CXX_FLAGS}")
execute_process(COMMAND "${CXX_COMPILER}" ${flags} -std=c++20 ${cflags} "${PROGRAM}" -o "${WORK}/consumer" ${libs}
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${WORK}/consumer" OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
file(READ "${EXPECTED}" expected)
if(NOT output STREQUAL expected)
  message(FATAL_ERROR "The program printed\n${output}but expected was\n${expected}")
endif()
