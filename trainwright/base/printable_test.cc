#include "trainwright/base/printable.h"

#include <doctest/doctest.h>

#include "trainwright/base/json.h"

namespace trainwright {
namespace {

TEST_CASE("a name is printable in any script, and with quotes, blanks and dollar signs") {
  for (const char* name : {"llama-3.1-70b", "", "通义千问", "Модель №5", "a 'b' \"c\" `d` $(e) #f",
                           "👩‍🔬", "é", "\xf4\x8f\xbf\xbd"}) {
    CAPTURE(name);
    CHECK(hidden_fault(name).empty());
    CHECK(printable(name) == name);
  }
}

TEST_CASE("characters that nobody sees are told by their number") {
  const std::pair<std::string, std::string> cases[] = {{std::string("a\0b", 3), "U+0000"},
                                                       {"a\nb", "U+000A"},
                                                       {"\x1b[2J", "U+001B"},
                                                       {"\x7f", "U+007F"},
                                                       {"\xc2\x9b", "U+009B"},
                                                       {"\xd8\x9c", "U+061C"},
                                                       {"\xe2\x80\x8f", "U+200F"},
                                                       {"\xe2\x80\xa8", "U+2028"},
                                                       {"fdp.\xe2\x80\xaegnp", "U+202E"},
                                                       {"\xe2\x81\xa6", "U+2066"},
                                                       {"\xe2\x81\xa9", "U+2069"},
                                                       {"\xef\xbf\xbe", "U+FFFE"}};
  for (const auto& [text, number] : cases) {
    CHECK(hidden_fault(text) == "holds " + number + ", which is not printable");
  }
}

TEST_CASE("bytes that are not UTF-8 are told: alone, cut short, overlong, surrogates, too large") {
  for (const char* text : {"\xff", "\x80", "a\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80",
                           "\xf4\x90\x80\x80", "\xf0\x9f\x98"}) {
    CAPTURE(text);
    CHECK(hidden_fault(text).find("not UTF-8") != std::string::npos);
    CHECK(hidden_fault(printable(text)).empty());
  }
}

TEST_CASE("text is shown with its lines and tabs, and with escapes for all else") {
  CHECK(printable("one\r\n\ttwo\x1b[31m\rx\xe2\x80\xae\xff") ==
        "one\r\n\ttwo\\u001b[31m\\u000dx\\u202e\\xff");
  CHECK(printable_line("one\ttwo\n") == "one\\u0009two\\u000a");
}

TEST_CASE("a comment stays one, whatever its text holds") {
  CHECK(commented("a\nrm -rf b\n\nc\rd\xc2\x85"
                  "e") == "# a\n# rm -rf b\n#\n# c\\u000dd\\u0085e\n");
  CHECK(commented("", "    # ") == "    #\n");
}

TEST_CASE("JSON is written without characters that nobody sees, and reads back with them") {
  const std::string text = "a\x7f\xc2\x9b\xe2\x80\xae\n\xe9\x80\x9a";
  const std::string line = to_line(Json::of(text));
  CHECK(line == "\"a\\u007f\\u009b\\u202e\\n\xe9\x80\x9a\"");
  CHECK(parse_json(line, "it")->string == text);
}

TEST_CASE("no field of JSON is a string with such a character, and all are told") {
  const auto json =
      parse_json(R"({"name": "a\nb", "also": ["c", "d\u202e"], "text": "e\nf"})", "it");
  REQUIRE(json.has_value());
  Diagnostics faults;
  JsonFields fields(*json, "it", "", faults);
  CHECK(fields.string("name").empty());
  CHECK(fields.optional_strings("also") == std::vector<std::string>{"c"});
  CHECK(fields.optional_text("text") == "e\nf");
  REQUIRE(faults.size() == 2);
  CHECK(faults[0].where == "it:1 /name");
  CHECK(faults[0].what == "the text holds U+000A, which is not printable");
  CHECK_FALSE(faults[0].hint.empty());
  CHECK(faults[1].where == "it:1 /also");
}

}  // namespace
}  // namespace trainwright
