# SPDX-License-Identifier: Apache-2.0
# What scripts/soak says of programs that behave, fail or grow. They are scripts in place of the real ones.

# Runs it with random programs that do `body` in a loop. A further argument is what the keys of the cache do.
function(soak name body)
  set(programs "${FOLDER}/${name}")
  file(REMOVE_RECURSE "${programs}")
  set(loop "#!/usr/bin/env bash\nheld=\nwhile true; do\nprintf '500 programs\\n'\n")
  file(WRITE "${programs}/tests/differential/reprise_differential" "${loop}${body}\nsleep 0.05\ndone\n")
  file(WRITE "${programs}/tests/reprise_stress_tests"
    "#!/usr/bin/env bash\nif [[ $1 != --gtest_filter=-* ]]; then echo \"cache: $REPRISE_SOAK_KEYS keys\"; ${ARGN}exit; fi\n"
    "${loop}sleep 0.05\ndone\n")
  file(CHMOD "${programs}/tests/differential/reprise_differential" "${programs}/tests/reprise_stress_tests"
    PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  execute_process(COMMAND "${CMAKE_COMMAND}" -E env REPRISE_SOAK_SLACK=1 "${SOAK}" --programs "${programs}" 2
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  set(result "${result}" PARENT_SCOPE)
  set(output "${output}${errors}" PARENT_SCOPE)
endfunction()

function(expect name code text)
  if(NOT result EQUAL code OR NOT output MATCHES "${text}")
    message(SEND_ERROR "${name}: expected exit code ${code} and \"${text}\"; found ${result} and:\n${output}")
  endif()
endfunction()

soak(behaves ":")
expect(behaves 0 "cache: 100000 keys.*soak: 20 rounds, 2000 programs, memory from [0-9]+ to [0-9]+ MiB: passed")
soak(keys ":" "exit 1; ")
expect(keys 1 "FAILED: the keys of a cache failed")
soak(ends "echo what went wrong; exit 3")
expect(ends 1 "what went wrong.*FAILED: [a-z_]*programs[a-z_]* ended in round")
soak(grows "printf -v more '%400000s' x; held+=$more")
expect(grows 1 "FAILED: there is growth: memory of programs from [0-9]+ to [0-9]+ MiB")
soak(keeps_files "exec {file}</dev/null")
expect(keeps_files 1 "FAILED: there is growth: open files of programs from [0-9]+ to [0-9]+")
# As a host device that gets further workers on a busy machine, and keeps them.
soak(gets_threads "exec python3 -c '
import threading, time
for i in range(10**9):
  print(\"500 programs\", flush=True)
  time.sleep(0.05)
  if i % 4 == 0 and i < 160: threading.Thread(target=time.sleep, args=(9999,), daemon=True).start()'")
expect(gets_threads 0 "passed")
set(ENV{REPRISE_SOAK_THREADS} 0)
soak(has_threads ":")
unset(ENV{REPRISE_SOAK_THREADS})
expect(has_threads 1 "FAILED: there is growth: [0-9]+ threads of programs, more than 0")

execute_process(COMMAND "${SOAK}" --programs "${FOLDER}/nothing" 2 RESULT_VARIABLE result ERROR_VARIABLE output)
expect(nothing 1 "there is no program")
execute_process(COMMAND "${SOAK}" --programs RESULT_VARIABLE result ERROR_VARIABLE output)
expect(no_folder 1 "expected --programs FOLDER \\[SECONDS\\]; found no folder")
execute_process(COMMAND "${SOAK}" soon RESULT_VARIABLE result ERROR_VARIABLE output)
expect(soon 1 "expected a number of seconds, 1 or more; found 'soon'")
