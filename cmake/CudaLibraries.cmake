# SPDX-License-Identifier: Apache-2.0
# Finds one of CUDA's libraries, in the toolkit, in the usual places, or among the packages of python3 (nvidia-cublas,
# nvidia-nccl, ...: dependencies of PyTorch, with headers, but without an unversioned library file):
#
#   reprise_find_cuda_library(<name> HEADER <header> LIBRARIES <name>... SOVERSION <number>)
#
# sets REPRISE_<NAME>_INCLUDE_DIR and REPRISE_<NAME>_LIBRARIES; the second is empty if anything is missing. Both can be
# set to use others. Call find_package(CUDAToolkit) before.

# The folders named `nvidia` among the packages of python3.
function(_reprise_python_folders result)
  if(NOT DEFINED REPRISE_PYTHON_FOLDERS)
    set(folders "")
    find_program(REPRISE_PYTHON python3 DOC "Python, whose packages may have libraries of CUDA")
    mark_as_advanced(REPRISE_PYTHON)
    if(REPRISE_PYTHON)
      execute_process(COMMAND "${REPRISE_PYTHON}" -c "import nvidia; print(';'.join(nvidia.__path__))"
        OUTPUT_VARIABLE folders OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    endif()
    set(REPRISE_PYTHON_FOLDERS "${folders}" CACHE INTERNAL "The folders nvidia of python3")
  endif()
  set(${result} "${REPRISE_PYTHON_FOLDERS}" PARENT_SCOPE)
endfunction()

function(reprise_find_cuda_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "HEADER;SOVERSION" "LIBRARIES")
  string(TOUPPER "REPRISE_${name}" prefix)
  if(DEFINED ${prefix}_LIBRARIES)
    return()
  endif()
  set(places /usr/local/cuda /usr/local)
  _reprise_python_folders(python)
  foreach(folder IN LISTS python)
    list(APPEND places "${folder}/cu${CUDAToolkit_VERSION_MAJOR}" "${folder}/${name}")
  endforeach()
  find_path(${prefix}_INCLUDE_DIR "${arg_HEADER}" HINTS ${CUDAToolkit_INCLUDE_DIRS} PATHS ${places}
    PATH_SUFFIXES include DOC "The folder of ${arg_HEADER}")
  mark_as_advanced(${prefix}_INCLUDE_DIR)
  set(found "")
  foreach(library IN LISTS arg_LIBRARIES)
    find_library(${prefix}_${library} NAMES "${library}" "lib${library}.so.${arg_SOVERSION}"
      HINTS "${CUDAToolkit_LIBRARY_DIR}" PATHS ${places} PATH_SUFFIXES lib64 lib DOC "The library ${library}")
    mark_as_advanced(${prefix}_${library})
    list(APPEND found "${${prefix}_${library}}")
  endforeach()
  if(NOT ${prefix}_INCLUDE_DIR OR found MATCHES "-NOTFOUND")
    set(found "")
  endif()
  set(${prefix}_LIBRARIES "${found}" PARENT_SCOPE)
endfunction()
