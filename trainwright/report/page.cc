#include "trainwright/report/report.h"

namespace trainwright {

Result<std::string> filled_page(std::string page, const Json& data) {
  const std::size_t place = page.find(kPageData);
  if (place == std::string::npos) {
    return fail("report/page.html", "it has no place for data", "install the data directory again");
  }
  // In JSON a '<' stands in strings only, where it may be written as its number; a blank outside of
  // strings says nothing.
  std::string text;
  bool in_string = false, escaped = false;
  for (const char letter : to_line(data)) {
    if (letter == '"' && !escaped) in_string = !in_string;
    escaped = letter == '\\' && !escaped;
    if (letter == '<') {
      text += "\\u003c";
    } else if (letter != ' ' || in_string) {
      text += letter;
    }
  }
  return page.replace(place, kPageData.size(), text);
}

}  // namespace trainwright
