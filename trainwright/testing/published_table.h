#pragma once
// Tables of published figures, which lie beside the project and not in it.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/text.h"
#include "trainwright/testing/skip.h"

namespace trainwright::testing {

// The cells of a table below the names of its columns, without comments; none, and the test case is
// skipped, where the table is absent.
inline std::vector<std::vector<std::string>> published_table(const std::string& name) {
  std::vector<std::vector<std::string>> rows;
  const auto path = shared_path("fixtures/published/" + name);
  if (!path) return rows;
  const std::string text = read_file(*path).value();
  for (const std::string_view line : split(text, '\n')) {
    if (line.empty() || line.starts_with('#')) continue;
    rows.emplace_back();
    for (const std::string_view cell : split(line, ',')) rows.back().emplace_back(cell);
  }
  REQUIRE(rows.size() > 1);
  rows.erase(rows.begin());
  return rows;
}

}  // namespace trainwright::testing
