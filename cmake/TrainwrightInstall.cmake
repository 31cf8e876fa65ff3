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
