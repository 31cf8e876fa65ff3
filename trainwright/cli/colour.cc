#include "trainwright/cli/colour.h"

#include <array>
#include <string_view>

#include "trainwright/base/text.h"

namespace trainwright::cli {
namespace {

constexpr std::string_view kBold = "1", kGreen = "32", kAmber = "33", kRed = "31", kBlue = "34",
                           kDim = "2";

struct Beginning {
  std::string_view words, style;
};
// Of lines; the whole line has the style.
constexpr std::array kBeginnings = {
    Beginning{"Recommended:", kBold}, Beginning{"Fits, ", kGreen},
    Beginning{"Marginal:", kAmber},   Beginning{"Does not fit", kRed},
    Beginning{"Nothing fits", kRed},  Beginning{"Next:", kDim},
};

std::string styled(std::string_view text, std::string_view style) {
  return "\033[" + std::string(style) + "m" + std::string(text) + "\033[0m";
}

std::string coloured_line(std::string_view line) {
  for (const auto& [words, style] : kBeginnings) {
    if (line.starts_with(words)) return styled(line, style);
  }
  const std::size_t bar = line.find_last_not_of('#') + 1;  // behind "75 %  "
  if (bar < line.size() && line.substr(0, bar).ends_with("%  ")) {
    return std::string(line.substr(0, bar)) + styled(line.substr(bar), kBlue);
  }
  return std::string(line);
}

}  // namespace

std::string coloured(const std::string& answer) {
  // JSON is for programs; what has escapes has its colours.
  if (answer.starts_with('{') || answer.find('\033') != std::string::npos) return answer;
  std::vector<std::string> lines;
  for (const std::string_view line : split(answer, '\n')) lines.push_back(coloured_line(line));
  return join(lines, "\n");
}

}  // namespace trainwright::cli
