#pragma once
// Lines of a trace or snapshot file: the fast path for flat arrays of whole numbers. Private to the
// module.
//
// A general JSON parser takes 2 to 3 microseconds for such a line (nlohmann's SAX interface: 3.7 s
// for 10^6 ops and as many frees, measured), ten times what the replay itself takes. So the one
// form events have, `[1,2,-3]`, is read here with std::from_chars; every other line goes to
// parse_json.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/result.h"

namespace trainwright::detail {

// Replaces `numbers` by those of the line; false if it is not a flat array of 64-bit whole numbers.
// Spaces are allowed around numbers.
bool read_numbers(std::string_view line, std::vector<std::int64_t>& numbers);

// Gathers faults with their line, up to a limit after which reading should stop.
struct LineFaults {
  std::string origin;
  std::int64_t line = 0;  // counted from 1
  Diagnostics diagnostics = {};

  void add(std::string what, std::string hint = {});
  bool full() const { return diagnostics.size() >= 20; }
};

// The JSON value of one line; a fault, with the line's number in the file, if it is none.
std::optional<Json> json_of_line(std::string_view line, LineFaults& faults);

// Calls `each(line)`, without line end, for every line until it returns false. What is read of a
// file at a time is bounded, and so is a line.
using EachLine = std::function<bool(std::string_view)>;
void for_each_line(std::string_view text, const EachLine& each);
Result<std::monostate> for_each_line_of_file(const std::string& path, const EachLine& each);

}  // namespace trainwright::detail
