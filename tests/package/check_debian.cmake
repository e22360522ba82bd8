# SPDX-License-Identifier: Apache-2.0
# Makes Debian packages, installs that of the core into a root of its own, and compiles a program against it with what
# pkg-config says. Then installs that of the component libtorch beside it, which find_package() must find, and not before.
# dpkg installs as root alone; other users unpack.
#   BINARY_DIR, WORK                where the library was built; where to work
#   CPACK, DPKG_DEB, DPKG, PKG_CONFIG   the commands
#   LIBDIR, VERSION                 of the library
#   SHARED                          ON if it is a shared one, built as a part of another project: the project itself, which
#                                   says what the package is, is configured here (SOURCE_DIR, GENERATOR)
#   LIBTORCH                        the folder of the wheel of torch, if the build has the component
#   RANDOM123                       the folder of its headers
#   COMPONENTS_PROGRAM, COMPONENTS_EXPECTED   a program that uses components
#   PROGRAM, EXPECTED, CXX_COMPILER, CXX_FLAGS, GENERATOR   as check_consumer.cmake

file(REMOVE_RECURSE "${WORK}")
set(dpkg_data "${WORK}/root/var/lib/dpkg")
file(MAKE_DIRECTORY "${dpkg_data}/info" "${dpkg_data}/updates" "${dpkg_data}/triggers" "${dpkg_data}/alternatives")
file(WRITE "${dpkg_data}/status" "")
execute_process(COMMAND id -u OUTPUT_VARIABLE user OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)

# Dependencies are packages of the system, which the root does not have.
function(install_package package name)
  if(user STREQUAL "0" AND DPKG)
    execute_process(COMMAND "${DPKG}" "--root=${WORK}/root" "--log=${WORK}/dpkg.log" --force-depends
      --force-script-chrootless -i "${package}" ERROR_VARIABLE output RESULT_VARIABLE result OUTPUT_QUIET)
    file(READ "${dpkg_data}/status" status)
    if(result OR NOT status MATCHES "Package: ${name}\nStatus: install ok installed\n")
      message(FATAL_ERROR "expected ${name} to be installed; found ${result}: ${output}${status}")
    endif()
  else()
    execute_process(COMMAND "${DPKG_DEB}" -x "${package}" "${WORK}/root" COMMAND_ERROR_IS_FATAL ANY)
  endif()
  if(NOT EXISTS "${WORK}/root/usr/share/doc/${name}/copyright")
    message(FATAL_ERROR "The package ${name} has no copyright")
  endif()
endfunction()

set(config "${BINARY_DIR}/CPackConfig.cmake")
set(installed "")
if(SHARED)
  execute_process(COMMAND "${CMAKE_COMMAND}" -G "${GENERATOR}" -S "${SOURCE_DIR}" -B "${WORK}/configured"
    "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}" -DBUILD_SHARED_LIBS=ON -DREPRISE_CUDA=OFF
    -DREPRISE_LIBTORCH=OFF -DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON -DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON
    -DREPRISE_BUILD_TESTS=OFF -DREPRISE_BUILD_EXAMPLES=OFF -DREPRISE_BUILD_BENCHMARKS=OFF
    -DREPRISE_BUILD_TOOLS=OFF COMMAND_ERROR_IS_FATAL ANY)
  set(config "${WORK}/configured/CPackConfig.cmake")
  set(installed -D "CPACK_INSTALL_CMAKE_PROJECTS=${BINARY_DIR}\\;reprise\\;ALL\\;/")
endif()
execute_process(COMMAND "${CPACK}" -G DEB --config "${config}" -B "${WORK}" ${installed}
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
set(expected libreprise-dev)
if(LIBTORCH)
  list(APPEND expected libreprise-libtorch-dev)
endif()
file(GLOB packages "${WORK}/*.deb")
list(TRANSFORM packages REPLACE ".*/([^_/]*)_${VERSION}_[^/]*\\.deb" "\\1" OUTPUT_VARIABLE names)
if(NOT names STREQUAL expected)
  message(FATAL_ERROR "The packages are ${packages}; expected were ${expected}")
endif()
list(GET packages 0 package)
execute_process(COMMAND "${DPKG_DEB}" -f "${package}" Depends OUTPUT_VARIABLE depends COMMAND_ERROR_IS_FATAL ANY)
install_package("${package}" libreprise-dev)
# What is linked may have the standard library in itself, or use one that no package has installed: no dependency then.
file(GLOB_RECURSE linked "${WORK}/root/usr/bin/reprise" "${WORK}/root/usr/lib/*libreprise.so")
execute_process(COMMAND readelf --dynamic ${linked} OUTPUT_VARIABLE needed COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CXX_COMPILER}" -print-file-name=libstdc++.so.6 OUTPUT_VARIABLE standard_library
  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
file(REAL_PATH "${standard_library}" standard_library)
execute_process(COMMAND "${DPKG}" --search "${standard_library}" RESULT_VARIABLE of_no_package OUTPUT_QUIET ERROR_QUIET)
if(needed MATCHES "libstdc\\+\\+" AND NOT of_no_package AND NOT depends MATCHES "libstdc\\+\\+6")
  message(FATAL_ERROR "The package depends on \"${depends}\"; expected was the standard library, for what is linked")
endif()
file(GLOB_RECURSE files RELATIVE "${WORK}/root/usr" "${WORK}/root/usr/*")
list(FILTER files INCLUDE REGEX "torch")
if(files)
  message(FATAL_ERROR "The package of the core has ${files}; expected was nothing of the component libtorch")
endif()

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
separate_arguments(flags UNIX_COMMAND "${CXX_FLAGS}")
# Compiles a program with what pkg-config says of the packages, and runs it.
function(check_program program expected_file) # packages of pkg-config
  foreach(which IN ITEMS cflags libs)
    execute_process(COMMAND "${PKG_CONFIG}" ${static} --${which} ${ARGN} OUTPUT_VARIABLE ${which}
      OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    if(${which} MATCHES "-pthread")
      message(FATAL_ERROR "pkg-config --${which} has -pthread, an option that nvcc does not know: ${${which}}")
    endif()
    separate_arguments(${which} UNIX_COMMAND "${${which}}")
  endforeach()
  # The package depends on that of Random123, which may not be installed.
  execute_process(COMMAND "${CXX_COMPILER}" ${flags} -std=c++20 ${cflags} -idirafter "${RANDOM123}" "${program}"
    -o "${WORK}/consumer" ${libs} COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${WORK}/consumer" OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  file(READ "${expected_file}" expected)
  if(NOT output STREQUAL expected)
    message(FATAL_ERROR "The program printed\n${output}but expected was\n${expected}")
  endif()
endfunction()
check_program("${PROGRAM}" "${EXPECTED}" reprise)
check_program("${COMPONENTS_PROGRAM}" "${COMPONENTS_EXPECTED}" reprise-compare reprise-timings reprise-c)

if(NOT LIBTORCH)
  return()
endif()
list(GET packages 1 package)
execute_process(COMMAND "${DPKG_DEB}" -f "${package}" Depends OUTPUT_VARIABLE depends COMMAND_ERROR_IS_FATAL ANY)
if(NOT depends MATCHES "^libreprise-dev \\(= ${VERSION}\\)")
  message(FATAL_ERROR "The package of libtorch depends on \"${depends}\"; expected was the core of the same version")
endif()
set(configure "${CMAKE_COMMAND}" --fresh -G "${GENERATOR}" -S "${CMAKE_CURRENT_LIST_DIR}/consumer" -B "${WORK}/libtorch"
  "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" "-DCMAKE_PREFIX_PATH=${WORK}/root/usr" "-DREPRISE_TORCH=${LIBTORCH}"
  "-DCONSUMER_PROGRAM=${PROGRAM}" -DCONSUMER_COMPONENT=libtorch)
execute_process(COMMAND ${configure} RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE output)
string(REGEX REPLACE "[ \n]+" " " output "${output}")
if(result EQUAL 0 OR NOT output MATCHES "it is not installed: libreprise-libtorch-dev has it")
  message(FATAL_ERROR "Without its package, expected was that the component libtorch is not found; found was ${output}")
endif()
install_package("${package}" libreprise-libtorch-dev)
execute_process(COMMAND ${configure} COMMAND_ERROR_IS_FATAL ANY)
if(NOT EXISTS "${WORK}/root/usr/include/reprise/libtorch/graph.h")
  message(FATAL_ERROR "The package of libtorch has no reprise/libtorch/graph.h")
endif()
