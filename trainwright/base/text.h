#pragma once
// Text in and out: quantities with their units, and help for people who mistype.
//
// Reading accepts a number and a unit, with or without a space: "80GiB", "1.5 GB", "400GB/s",
// "989 TFLOP/s", "3.4us". SI prefixes are powers of 1000 (kB, MB, GB, TB, PB), binary ones powers
// of 1024 (KiB, MiB, GiB, TiB, PiB). Bits ("400Gb/s", "400Gbps") are refused with the value in
// bytes as the hint. A bare number is refused too, except 0: a number without a unit is a guess.
//
// Two ways out. `to_text` is for people: at most four significant digits ("79.15 GiB").
// `to_exact_text` reads back to the same value: parse_bytes(to_exact_text(x)) == x.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/base/result.h"
#include "trainwright/base/units.h"

namespace trainwright {

Result<Bytes> parse_bytes(std::string_view text);                      // "80GiB"
Result<Seconds> parse_seconds(std::string_view text);                  // "3.4us", "2 h"
Result<BytesPerSecond> parse_bytes_per_second(std::string_view text);  // "400GB/s"
Result<FlopsPerSecond> parse_flops_per_second(std::string_view text);  // "989TFLOP/s"

std::string to_text(Bytes size);           // "79.15 GiB", binary prefixes as memory is sold
std::string to_text(Seconds time);         // "3.4 us", "812.5 ms", "12.3 s", "2.5 h"
std::string to_text(BytesPerSecond rate);  // "400 GB/s", decimal prefixes as links are sold
std::string to_text(FlopsPerSecond rate);  // "989 TFLOP/s"
std::string to_text(Flops work);           // "1.2 PFLOP"
std::string to_text(Params count);         // "70.55 B", as papers count
std::string to_exact_text(Bytes size);     // "80GiB" or, if it does not divide evenly, "123B"
std::string to_exact_text(Seconds time);   // shortest decimal that reads back, "0.0034s"
std::string to_exact_text(BytesPerSecond rate);
std::string to_exact_text(FlopsPerSecond rate);

// 1234567 -> "1,234,567".
std::string with_thousands(std::int64_t number);
// At most `digits` significant digits, no trailing zeros: (3.14159, 3) -> "3.14". Never scientific
// between 1e-4 and 1e15.
std::string significant(double number, int digits = 4);
// 0.4131 -> "41.3 %".
std::string percent(double fraction);

// A whole decimal number, nothing before or after it; nullopt otherwise or beyond 64 bits.
std::optional<std::int64_t> parse_integer(std::string_view text);
// A finite decimal number, nothing before or after it.
std::optional<double> parse_number(std::string_view text);

std::string_view trim(std::string_view text);
std::string lower_case(std::string_view text);
// Cuts at every separator; "a,,b" has three parts, "" has one.
std::vector<std::string_view> split(std::string_view text, char separator);
std::string join(std::span<const std::string> parts, std::string_view separator);
// "a", "a and b", "a, b and c"; `last` is the word before the last part.
std::string enumerate(std::span<const std::string> parts, std::string_view last = "and");

// How many single-letter insertions, deletions, replacements and neighbour swaps turn one text
// into the other, ignoring case. O(|a| |b|).
int edit_distance(std::string_view a, std::string_view b);
// The candidates near enough to be a misspelling of `name`, nearest first, at most `most`. A
// candidate that begins with the name counts as near.
std::vector<std::string> nearest(std::string_view name, std::span<const std::string> candidates,
                                 std::size_t most = 3);
// "did you mean 'llama-3-8b'?", or, when nothing is near, the `otherwise` text.
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates,
                         std::string_view otherwise = {});

}  // namespace trainwright
