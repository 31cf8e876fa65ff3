// What a file of settings may cost.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "trainwright/export/export.h"

namespace trainwright {
namespace {

// Why a file of settings is not read.
std::string fault_of(const std::string& text, SettingsForm form) {
  const auto settings = read_settings(text, "file", form);
  if (settings) return "";
  const Diagnostic& fault = settings.error().diagnostics[0];
  return fault.where + ' ' + fault.what;
}

TEST_CASE("tables that nest deeper than any trainer's are told with their line, not followed") {
  const auto repeated = [](int times, const std::string& text) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
  };
  const std::string fault = "file:2 nests more than 32 deep";
  // 40,000 tables in each other took the stack of the process.
  CHECK(fault_of("[a]\n" + repeated(40'000, "a.") + "a = 1\n", SettingsForm::Toml) == fault);
  CHECK(fault_of("# a.b\n[" + repeated(40, "a.") + "a]\n", SettingsForm::Toml) == fault);
  CHECK(fault_of("b = \"{[.\"\na = " + repeated(40, "{a.b = "), SettingsForm::Toml) == fault);
  // Dots and brackets of texts and comments are none.
  CHECK(fault_of("a = \"" + repeated(99, "a.[{") + "\"\nb = \"\"\"\n" + repeated(99, ".[\"") +
                     "\n\"\"\" # " + repeated(99, ".[{") + "\nc = '" + repeated(99, "\\.[") + "'\n",
                 SettingsForm::Toml) == "");
  CHECK(fault_of(repeated(31, "a.") + "a = [[[1.5, 2.5], [1.5]]]\n", SettingsForm::Toml) == "");
}

TEST_CASE("a file of settings has bounds on its bytes, its settings and their keys") {
  CHECK(fault_of(std::string(600'000, '\n'), SettingsForm::Options) ==
        "file is larger than 512 KiB");
  std::string options = "t.py";
  std::string members =
      "{\"" + std::string(900, 'k') + "\": {\"" + std::string(200, 'l') + "\": 1}";
  for (int i = 0; i <= 2000; ++i) options += fmt::format(" \\\n--o{} 1", i);
  CHECK(fault_of(options, SettingsForm::Options) == "file:2002 more than 2,000 settings");
  CHECK(fault_of(members + "}", SettingsForm::Json) == "file:1 a key is 1,101 characters long");
}

}  // namespace
}  // namespace trainwright
