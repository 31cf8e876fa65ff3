# How tests are built and labelled. Every test carries its module's name as a label; oracle tests
# also carry `oracle`, tests on the real engine `engine`.

# Where the published measurements and fixtures lie; tests that need them are skipped where they are
# absent: such a program, and a pytest run (tests/ctest_skips.py), ends with this code.
set(TRAINWRIGHT_SKIPPED 77)
set(TRAINWRIGHT_SHARED "${PROJECT_SOURCE_DIR}/../shared" CACHE PATH "measurements and fixtures")
# The interpreter of the virtual environment that holds PyTorch and the oracles (tools/make/make_venv.sh).
set(TRAINWRIGHT_PYTHON "${PROJECT_SOURCE_DIR}/build/venv/bin/python" CACHE FILEPATH
    "Python with the oracles; oracle and engine tests are only added when it exists")

# Seconds after which a test hangs. Far beyond what any takes: a busy host fails none.
set(TRAINWRIGHT_HANGS 3600)

add_library(trainwright_test_main STATIC "${PROJECT_SOURCE_DIR}/trainwright/testing/main.cc")
target_link_libraries(trainwright_test_main PUBLIC doctest::doctest)
target_include_directories(trainwright_test_main PUBLIC "${PROJECT_SOURCE_DIR}")
target_compile_definitions(trainwright_test_main
  PUBLIC TRAINWRIGHT_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
  PRIVATE TRAINWRIGHT_SHARED_DIR="${TRAINWRIGHT_SHARED}")

# Beside a module, *_bench.cc are google-benchmark programs, which only say something when optimised
# and are not run as tests, and *_test.cc become two test programs, one ctest per test case
# (TRAINWRIGHT_WHOLE_TESTS: per program):
# NAME_prop_test of *_prop_test.cc and *_release_test.cc, which run long (rapidcheck, searches, all
# published runs), and NAME_test of all others.
function(trainwright_module_tests name)
  file(GLOB tests CONFIGURE_DEPENDS *_test.cc)
  set(long ${tests})
  list(FILTER tests EXCLUDE REGEX "_(prop|release)_test\\.cc$")
  list(FILTER long INCLUDE REGEX "_(prop|release)_test\\.cc$")
  # Checks expand to much code that runs once: optimising it took a third of the build.
  if(tests AND TRAINWRIGHT_UNIT_TESTS)
    trainwright_test_program(${name}_test ${name} ${tests})
    target_compile_options(${name}_test PRIVATE $<IF:$<CONFIG:Debug>,-O0,-O1>)
    trainwright_precompile(${name}_test base_test ${TRAINWRIGHT_COMMON_HEADERS} <doctest/doctest.h>)
  endif()
  if(long AND TRAINWRIGHT_PROPERTY_TESTS)
    trainwright_test_program(${name}_prop_test ${name} ${long})
    target_link_libraries(${name}_prop_test PRIVATE rapidcheck)
    target_compile_options(${name}_prop_test PRIVATE $<$<CONFIG:Release>:-O1>)
    trainwright_precompile(${name}_prop_test base_prop_test ${TRAINWRIGHT_COMMON_HEADERS}
                           <doctest/doctest.h> <rapidcheck.h>)
  endif()
  file(GLOB benches CONFIGURE_DEPENDS *_bench.cc)
  if(benches AND CMAKE_BUILD_TYPE STREQUAL "Release")
    add_executable(${name}_bench ${benches})
    target_link_libraries(${name}_bench PRIVATE trainwright_${name} trainwright_warnings fmt::fmt
                          benchmark::benchmark_main)
    target_compile_definitions(${name}_bench PRIVATE TRAINWRIGHT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  endif()
endfunction()

# Properties draw the same cases every time, so that a run fails by what was changed and not by chance.
function(trainwright_test_program program label)
  add_executable(${program} ${ARGN})
  target_link_libraries(${program} PRIVATE trainwright_${label} trainwright_test_main
                        trainwright_warnings fmt::fmt)
  set(properties LABELS "${label}" TIMEOUT ${TRAINWRIGHT_HANGS} SKIP_RETURN_CODE ${TRAINWRIGHT_SKIPPED}
      ENVIRONMENT "RC_PARAMS=seed=1")
  if(NOT TRAINWRIGHT_WHOLE_TESTS)
    doctest_discover_tests(${program} TEST_PREFIX "${label}: " PROPERTIES ${properties})
    return()
  endif()
  if(label MATCHES "^(schedule|search|cli)$")  # take longest
    list(APPEND properties COST 50)
  endif()
  add_test(NAME "${label}: ${program}" COMMAND ${program} --minimal)
  set_tests_properties("${label}: ${program}" PROPERTIES ${properties})
endfunction()

# trainwright_python_test(NAME SCRIPT LABELS label... [ARGS arg...] [COST cost])
# A pytest file run by the oracle environment's Python; left out when that environment is missing.
# The built program is passed in TRAINWRIGHT_BINARY.
function(trainwright_python_test name script)
  cmake_parse_arguments(ARG "" "COST" "LABELS;ARGS" ${ARGN})
  if(NOT EXISTS "${TRAINWRIGHT_PYTHON}")
    message(STATUS "no ${TRAINWRIGHT_PYTHON}: leaving out ${name}")
    return()
  endif()
  add_test(NAME "${name}" COMMAND "${TRAINWRIGHT_PYTHON}" -m pytest -q -rs -p no:cacheprovider -p ctest_skips
           "${script}" ${ARG_ARGS})
  # What takes long starts first, so that no core idles at the end.
  if(NOT ARG_COST)
    set(ARG_COST 100)
  endif()
  set_tests_properties("${name}" PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${TRAINWRIGHT_HANGS} COST ${ARG_COST}
    SKIP_RETURN_CODE ${TRAINWRIGHT_SKIPPED}
    ENVIRONMENT "TRAINWRIGHT_BINARY=${CMAKE_BINARY_DIR}/trainwright;TRAINWRIGHT_BUILD=${CMAKE_BINARY_DIR};TRAINWRIGHT_SHARED=${TRAINWRIGHT_SHARED};PYTHONPATH=${PROJECT_SOURCE_DIR}/python:${PROJECT_SOURCE_DIR}/tests;PYTHONDONTWRITEBYTECODE=1;OMP_NUM_THREADS=1")
endfunction()
