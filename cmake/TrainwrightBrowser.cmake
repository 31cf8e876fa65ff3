# The core in a browser (preset `wasm`, tools/make/make_playground.sh): packages that are headers alone, no threads, and
# without what needs a solver, processes or a database. web/playground/core.cc stands in for what is left out.
set(headers "${CMAKE_BINARY_DIR}/headers")
file(MAKE_DIRECTORY "${headers}")
# One by one: /usr/include itself has the headers of another C library.
foreach(package fmt tl nlohmann CLI toml++)
  if(NOT EXISTS "/usr/include/${package}")
    message(FATAL_ERROR "no /usr/include/${package}: run tools/install_packages.sh")
  endif()
  file(CREATE_LINK "/usr/include/${package}" "${headers}/${package}" SYMBOLIC)
endforeach()
add_library(trainwright_headers INTERFACE)
target_include_directories(trainwright_headers SYSTEM INTERFACE "${headers}")
target_compile_definitions(trainwright_headers INTERFACE FMT_HEADER_ONLY)
foreach(package fmt::fmt tl::expected nlohmann_json::nlohmann_json CLI11::CLI11)
  add_library(${package} ALIAS trainwright_headers)
endforeach()
add_library(TBB::tbb ALIAS trainwright_headers)
add_library(yaml-cpp ALIAS trainwright_headers)

# Constants are data here: nothing is fitted, measured or tried.
set(TRAINWRIGHT_LEFT_OUT
    "/base/parallel|/export/read_yaml|/cli/(all_commands|calibrate|completion|export_check|learn_times|log|main|man|reconcile|tune[a-z_]*|validate[a-z_]*)")
add_compile_options(-fwasm-exceptions)
add_link_options(-fwasm-exceptions)
