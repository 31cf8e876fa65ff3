#pragma once
// Tables of published figures, which lie beside the project and not in it.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/text.h"

namespace trainwright::testing {

// The cells of a table below the names of its columns, without comments; none, and a word that the
// test was skipped, where the table is absent.
inline std::vector<std::vector<std::string>> published_table(const std::string& name) {
  const std::string path = TRAINWRIGHT_SHARED_DIR "/fixtures/published/" + name;
  std::vector<std::vector<std::string>> rows;
  if (!std::filesystem::exists(path)) {
    MESSAGE("skipped: no " << path);
    return rows;
  }
  const std::string text = read_file(path).value();
  for (const std::string_view line : split(text, '\n')) {
    if (line.empty() || line.starts_with('#')) continue;
    rows.emplace_back();
    for (const std::string_view cell : split(line, ',')) rows.back().emplace_back(cell);
  }
  if (!rows.empty()) rows.erase(rows.begin());
  return rows;
}

}  // namespace trainwright::testing
