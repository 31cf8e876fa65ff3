#include "trainwright/base/text.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <filesystem>

namespace trainwright {
namespace {
using namespace literals;

// A locale that writes 2,5 for 2.5: one of the machine's, or one made for this test where there is
// none.
bool set_comma_locale() {
  const auto comma = [](const char* name) {
    return std::setlocale(LC_NUMERIC, name) != nullptr &&
           std::localeconv()->decimal_point == std::string_view(",");
  };
  for (const char* name : {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "pl_PL.UTF-8", "pt_BR.UTF-8"}) {
    if (comma(name)) return true;
  }
  const auto folder =
      std::filesystem::temp_directory_path() / ("trainwright-locale-" + std::to_string(getpid()));
  const std::string command =
      "localedef -i de_DE -f ISO-8859-1 '" + (folder / "de_DE").string() + "' >/dev/null 2>&1";
  std::filesystem::create_directories(folder);
  bool made = std::system(command.c_str()) == 0;
  if (made) {
    setenv("LOCPATH", folder.c_str(), 1);
    made = comma("de_DE");
    unsetenv("LOCPATH");
  }
  std::filesystem::remove_all(folder);
  return made;
}

TEST_CASE("sizes are read with binary and decimal prefixes, with and without a space") {
  CHECK(parse_bytes("80GiB").value() == 80_GiB);
  CHECK(parse_bytes("80 GB").value() == 80_GB);
  CHECK(parse_bytes("1.5KiB").value() == Bytes(1536));
  CHECK(parse_bytes(" 512B ").value() == 512_B);
  CHECK(parse_bytes("0").value() == 0_B);
}

TEST_CASE("units are recognised in any case, but a bit is never taken for a byte") {
  CHECK(parse_bytes("80gib").value() == 80_GiB);
  CHECK(parse_bytes_per_second("400gb/s").has_value() == false);
  CHECK(parse_bytes_per_second("400GB/S").value() == 400_GBps);
  const auto bits = parse_bytes_per_second("400Gb/s");
  REQUIRE(!bits);
  CHECK(bits.error().diagnostics[0].hint.find("50") != std::string::npos);
}

TEST_CASE("a number without a unit is a fault with an example") {
  const auto size = parse_bytes("80");
  REQUIRE(!size);
  CHECK(size.error().diagnostics[0].what == "the unit is missing");
  CHECK(size.error().diagnostics[0].hint == "write 80GiB");
}

TEST_CASE("nonsense, negative sizes and sizes beyond 64 bits are faults") {
  for (const char* text : {"", "GiB", "80XB", "-1GiB", "1e40GiB", "nanGiB", "infB", "--1B"}) {
    CAPTURE(text);
    CHECK(!parse_bytes(text));
  }
}

TEST_CASE("an exponent and a unit that begins with E are told apart") {
  CHECK(parse_flops_per_second("1e3TFLOP/s").value() == FlopsPerSecond(1e15));
  CHECK(parse_flops_per_second("2EFLOP/s").value() == FlopsPerSecond(2e18));
}

TEST_CASE("times, bandwidths and compute rates are read") {
  CHECK(parse_seconds("3.4us").value().value() == doctest::Approx(3.4e-6));
  CHECK(parse_seconds("2h").value() == 7200_s);
  CHECK(parse_bytes_per_second("3.35TB/s").value() == BytesPerSecond(3.35e12));
  CHECK(parse_flops_per_second("989TFLOP/s").value() == 989_TFLOPS);
}

TEST_CASE("text for people has at most four significant digits and a unit") {
  CHECK(to_text(Bytes(84'987'740'160)) == "79.15 GiB");
  CHECK(to_text(512_B) == "512 B");
  CHECK(to_text(Bytes(0)) == "0 B");
  CHECK(to_text(Seconds(3.4e-6)) == "3.4 us");
  CHECK(to_text(Seconds(0.8125)) == "812.5 ms");
  CHECK(to_text(400_GBps) == "400 GB/s");
  CHECK(to_text(989_TFLOPS) == "989 TFLOP/s");
  CHECK(to_text(Params(70'553'706'496)) == "70.55 B");
  CHECK(to_text(Flops(1.2e15)) == "1.2 PFLOP");
}

TEST_CASE("rounding up may carry into the next unit") {
  CHECK(to_text(BytesPerSecond(999.99e6)) == "1 GB/s");
  CHECK(significant(999.96) == "1000");
  CHECK(significant(0.000123456) == "0.0001235");
  CHECK(significant(-2.5) == "-2.5");
}

TEST_CASE("a host program's locale changes no number") {
  if (!set_comma_locale()) {
    MESSAGE("skipped: no locale with a decimal comma here, and localedef made none");
    return;
  }
  CHECK(to_text(Bytes(84'987'740'160)) == "79.15 GiB");
  CHECK(significant(2.5) == "2.5");
  CHECK(parse_number("2.5") == 2.5);
  CHECK(!parse_number("2,5"));
  std::setlocale(LC_NUMERIC, "C");
}

TEST_CASE("thousands are separated") {
  CHECK(with_thousands(0) == "0");
  CHECK(with_thousands(-123456) == "-123,456");
  CHECK(with_thousands(1234567) == "1,234,567");
}

TEST_CASE("a swap of neighbours is one mistake") {
  CHECK(edit_distance("llama", "lalma") == 1);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("Qwen", "qwen") == 0);
}

TEST_CASE("the nearest names come first, far ones not at all") {
  const std::vector<std::string> names = {"llama-2-7b", "llama-2-70b", "mixtral-8x7b"};
  CHECK(nearest("lama-2-7b", names) == std::vector<std::string>{"llama-2-7b", "llama-2-70b"});
  CHECK(nearest("zzzz", names).empty());
  CHECK(did_you_mean("mixtral-8x7", names) == "did you mean 'mixtral-8x7b'?");
  CHECK(did_you_mean("zzzz", names, "see the list") == "see the list");
}

TEST_CASE("lists read as sentences") {
  const std::vector<std::string> parts = {"a", "b", "c"};
  CHECK(enumerate(parts) == "a, b and c");
  CHECK(join(parts, "+") == "a+b+c");
  CHECK(split("a,,b", ',').size() == 3);
  CHECK(trim("  x \n") == "x");
}

}  // namespace
}  // namespace trainwright
