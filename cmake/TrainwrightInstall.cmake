# What `cmake --install` and CPack put where: the program with its data, manual pages and completions
# (component runtime), and headers and libraries for find_package and pkg-config (component development).
# A wheel has only the program and its data.

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME runtime)
install(DIRECTORY data/ DESTINATION "${CMAKE_INSTALL_DATADIR}/trainwright")
if(TRAINWRIGHT_BINDINGS OR CMAKE_CROSSCOMPILING)
  return()
endif()

# Manual pages and completions are what the program prints of itself.
set(told "${CMAKE_BINARY_DIR}/told")
add_custom_command(
  OUTPUT "${told}/done"
  COMMAND "${CMAKE_COMMAND}" -E rm -rf "${told}"
  COMMAND "${CMAKE_COMMAND}" -E make_directory "${told}"
  COMMAND trainwright_program man --out "${told}/man1" > "${told}/pages"
  COMMAND sh -c "gzip -9n \"$1\"/*" sh "${told}/man1"
  COMMAND trainwright_program completion bash > "${told}/trainwright"
  COMMAND trainwright_program completion zsh > "${told}/_trainwright"
  COMMAND trainwright_program completion fish > "${told}/trainwright.fish"
  COMMAND "${CMAKE_COMMAND}" -E touch "${told}/done"
  DEPENDS trainwright_program
  VERBATIM)
add_custom_target(trainwright_told ALL DEPENDS "${told}/done")
install(DIRECTORY "${told}/man1" DESTINATION "${CMAKE_INSTALL_MANDIR}")
install(FILES "${told}/trainwright" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
install(FILES "${told}/_trainwright" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions")
install(FILES "${told}/trainwright.fish" DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")

# For find_package(trainwright): a target for every module, trainwright::base to trainwright::cli.
set(library "${CMAKE_INSTALL_LIBDIR}/cmake/trainwright")
foreach(module IN LISTS TRAINWRIGHT_MODULES)
  set_target_properties(trainwright_${module} PROPERTIES EXPORT_NAME ${module})
  install(TARGETS trainwright_${module} EXPORT trainwright COMPONENT development
          INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
endforeach()
install(TARGETS trainwright_warnings EXPORT trainwright COMPONENT development)
get_target_property(alias trainwright_ceres ALIASED_TARGET)
if(NOT alias)  # Ceres for dense problems alone (TrainwrightCeres.cmake)
  install(TARGETS trainwright_ceres EXPORT trainwright COMPONENT development)
  install(FILES "${CMAKE_BINARY_DIR}/libceres_dense.a" DESTINATION "${CMAKE_INSTALL_LIBDIR}/trainwright"
          COMPONENT development)
endif()
install(EXPORT trainwright NAMESPACE trainwright:: DESTINATION "${library}" COMPONENT development)
include(CMakePackageConfigHelpers)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/trainwright-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_LIST_DIR}/package/trainwright-config.cmake"
              "${CMAKE_BINARY_DIR}/trainwright-config-version.cmake"
        DESTINATION "${library}" COMPONENT development)
install(DIRECTORY trainwright DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT development
        FILES_MATCHING PATTERN "*.h" PATTERN testing EXCLUDE)

# For pkg-config, whose file finds its prefix by where it lies.
list(TRANSFORM TRAINWRIGHT_MODULES PREPEND "-ltrainwright_" OUTPUT_VARIABLE links)
list(JOIN links " " links)
configure_file("${CMAKE_CURRENT_LIST_DIR}/package/trainwright.pc.in" "${CMAKE_BINARY_DIR}/trainwright.pc" @ONLY)
install(FILES "${CMAKE_BINARY_DIR}/trainwright.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT development)

# Two Debian packages, by `cpack` in the build folder.
foreach(pair runtime:trainwright development:libtrainwright-dev)
  string(REPLACE ":" ";" pair "${pair}")
  list(POP_FRONT pair component package)
  set(papers "${CMAKE_BINARY_DIR}/papers/${package}")
  configure_file("${CMAKE_CURRENT_LIST_DIR}/package/changelog.in" "${papers}/changelog" @ONLY)
  execute_process(COMMAND gzip -9nkf "${papers}/changelog" COMMAND_ERROR_IS_FATAL ANY)
  install(FILES "${papers}/changelog.gz" "${CMAKE_CURRENT_LIST_DIR}/package/copyright" "${PROJECT_SOURCE_DIR}/NOTICE"
          DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/${package}" COMPONENT ${component})
endforeach()
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL runtime development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "Trainwright maintainers <maintainers@trainwright.example>")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME trainwright)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION science)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION
"Given a model, a cluster and a batch it answers, without a GPU, which
layouts fit and how fast they are, how much memory every rank needs and
what for, and what to tell the trainer.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libtrainwright-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "libfmt-dev, libexpected-dev, nlohmann-json3-dev, libtbb-dev, libcli11-dev, libyaml-cpp-dev, libsqlite3-dev, libgoogle-glog-dev, libeigen3-dev")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
"Headers and static libraries for C++ programs, by
find_package(trainwright) or pkg-config.")
include(CPack)
