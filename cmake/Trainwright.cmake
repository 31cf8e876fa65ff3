# How every module of the project is built.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(EMSCRIPTEN)  # one module that nothing loads beside others
  set(CMAKE_POSITION_INDEPENDENT_CODE OFF)
endif()
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE}")
endif()

add_library(trainwright_warnings INTERFACE)
# Other compilers judge the code: emscripten's would warn of every std::int64_t that becomes a std::size_t of 32 bits.
if(NOT EMSCRIPTEN)
  target_compile_options(trainwright_warnings INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast
    -Wnon-virtual-dtor
    # g++ 12 sees overlaps and overflows in plain std::string code (GCC bug 105651).
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread
      -Wno-array-bounds>
    # libstdc++ 12's stable_sort uses its own deprecated buffer.
    $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)
endif()

# What nearly every file includes.
set(TRAINWRIGHT_COMMON_HEADERS <algorithm> <cmath> <cstdint> <functional> <map> <optional> <set> <span>
    <string> <string_view> <tuple> <utility> <vector> <fmt/format.h> <tl/expected.hpp>)

# trainwright_precompile(TARGET FIRST header...)
# Gives TARGET the precompiled headers of the target FIRST, which makes them; without the time of that in them, so that ccache knows
# what was compiled with them.
function(trainwright_precompile target first)
  if(NOT TRAINWRIGHT_PRECOMPILED)
    return()
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
  if(target STREQUAL first)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  else()
    target_precompile_headers(${target} REUSE_FROM ${first})
  endif()
endfunction()

# trainwright_compile(TARGET NAME)
# How the files of module NAME are compiled. Sanitised, those that hardly loop are not optimised: that took longer than
# all that runs them. The command line, a quarter of what is compiled, is optimised less, with the same headers precompiled.
set(TRAINWRIGHT_HARDLY_LOOPS cluster trainer outside question measured export logs calibrate tune report cli)
function(trainwright_compile target name)
  set(first trainwright_base)
  if(CMAKE_BUILD_TYPE STREQUAL "Debug" AND name IN_LIST TRAINWRIGHT_HARDLY_LOOPS)
    target_compile_options(${target} PRIVATE -O0)
    set(first trainwright_cluster)
  endif()
  if(CMAKE_BUILD_TYPE STREQUAL "Release" AND name STREQUAL "cli" AND NOT EMSCRIPTEN)
    target_compile_options(${target} PRIVATE -O1)
  endif()
  trainwright_precompile(${target} ${first} ${TRAINWRIGHT_COMMON_HEADERS})
  trainwright_together(${target})
endfunction()

# trainwright_together(TARGET)
# Compiles TARGET's files eight at a time where TRAINWRIGHT_UNITY asks for it.
function(trainwright_together target)
  # g++ takes a file that is included for a header, whose unnamed types it warns of.
  if(TRAINWRIGHT_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${TRAINWRIGHT_UNITY} UNITY_BUILD_BATCH_SIZE 8)
endfunction()

# trainwright_leave_out(LIST)
# Takes the sources out of LIST that this build cannot have (TrainwrightBrowser).
macro(trainwright_leave_out sources)
  if(TRAINWRIGHT_LEFT_OUT)
    list(FILTER ${sources} EXCLUDE REGEX "(${TRAINWRIGHT_LEFT_OUT})\\.cc$")
  endif()
endmacro()

# trainwright_module(NAME [USES module...] [LINKS target...])
# One static library trainwright_NAME from every .cc beside the calling file that is no test and no
# benchmark; what it USES are modules, what it LINKS are packages no other module may see.
function(trainwright_module name)
  cmake_parse_arguments(ARG "" "" "USES;LINKS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cc)
  list(FILTER sources EXCLUDE REGEX "_(test|bench)\\.cc$")
  trainwright_leave_out(sources)
  add_library(trainwright_${name} STATIC ${sources})
  target_include_directories(trainwright_${name} PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>")
  target_link_libraries(trainwright_${name} PRIVATE trainwright_warnings fmt::fmt ${ARG_LINKS})
  target_link_libraries(trainwright_${name} PUBLIC tl::expected)
  foreach(used IN LISTS ARG_USES)
    target_link_libraries(trainwright_${name} PUBLIC trainwright_${used})
  endforeach()
  trainwright_compile(trainwright_${name} ${name})
  if(TRAINWRIGHT_TESTS)
    trainwright_module_tests(${name})
  endif()
endfunction()
