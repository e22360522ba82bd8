# SPDX-License-Identifier: Apache-2.0
# Where scripts/setup-* put what they fetch. Installed beside Torch.cmake, too.
#
#   reprise_cache_folder(<result> <name> <variable>)   the folder that the environment variable names, by default
#                                                      <name> in the user's cache

function(reprise_cache_folder result name variable)
  set(folder "$ENV{${variable}}")
  if(NOT folder)
    set(cache "$ENV{XDG_CACHE_HOME}")
    if(NOT cache)
      set(cache "$ENV{HOME}/.cache")
    endif()
    set(folder "${cache}/reprise/${name}")
  endif()
  set(${result} "${folder}" PARENT_SCOPE)
endfunction()
