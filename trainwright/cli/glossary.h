#pragma once
// Private to `help`: GLOSSARY.md, which CMake puts into the program.
#include <string_view>

namespace trainwright::cli {

extern const std::string_view kGlossary;

}  // namespace trainwright::cli
