#include "trainwright/report/report.h"

namespace trainwright {

Result<std::string> filled_page(std::string page, const Json& data) {
  const std::size_t place = page.find(kPageData);
  if (place == std::string::npos) {
    return fail("report/page.html", "it has no place for data", "install the data directory again");
  }
  // In JSON a '<' stands in strings only, where it may be written as its number.
  std::string text;
  for (const char letter : to_line(data)) {
    if (letter == '<') {
      text += "\\u003c";
    } else {
      text += letter;
    }
  }
  return page.replace(place, kPageData.size(), text);
}

}  // namespace trainwright
