// Quantities as text: one table of units per kind, read by one parser and printed by one printer.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "trainwright/base/text.h"

namespace trainwright {
namespace {

struct Unit {
  std::string_view name;
  double scale;
};

constexpr double kKi = 1024.0;
constexpr std::array kByteUnits = {
    Unit{"B", 1},
    Unit{"kB", 1e3},
    Unit{"KB", 1e3},
    Unit{"MB", 1e6},
    Unit{"GB", 1e9},
    Unit{"TB", 1e12},
    Unit{"PB", 1e15},
    Unit{"KiB", kKi},
    Unit{"MiB", kKi* kKi},
    Unit{"GiB", kKi* kKi* kKi},
    Unit{"TiB", kKi* kKi* kKi* kKi},
    Unit{"PiB", kKi* kKi* kKi* kKi* kKi},
};
constexpr std::array kTimeUnits = {
    Unit{"ns", 1e-9}, Unit{"us", 1e-6}, Unit{"ms", 1e-3}, Unit{"s", 1},
    Unit{"min", 60},  Unit{"h", 3600},  Unit{"d", 86400},
};
constexpr std::array kByteRateUnits = {
    Unit{"B/s", 1},     Unit{"kB/s", 1e3},  Unit{"MB/s", 1e6},       Unit{"GB/s", 1e9},
    Unit{"TB/s", 1e12}, Unit{"PB/s", 1e15}, Unit{"MiB/s", kKi* kKi}, Unit{"GiB/s", kKi* kKi* kKi},
};
constexpr std::array kFlopRateUnits = {
    Unit{"FLOP/s", 1},     Unit{"GFLOP/s", 1e9}, Unit{"TFLOP/s", 1e12}, Unit{"PFLOP/s", 1e15},
    Unit{"EFLOP/s", 1e18}, Unit{"TFLOPS", 1e12}, Unit{"PFLOPS", 1e15},
};

struct Scaled {
  double number;
  double scale;
};

// "400 Gb/s" or "400Gbps": a link speed in bits, the commonest slip of all.
bool looks_like_bits(std::string_view unit) {
  if (unit.ends_with("bps") || unit.ends_with("bit/s")) return true;
  return unit.ends_with("b/s") || (unit.ends_with('b') && unit.size() <= 2) ||
         unit.ends_with("bit");
}

template <std::size_t N>
std::string names_of(const std::array<Unit, N>& units) {
  std::vector<std::string> names;
  for (const Unit& unit : units) names.emplace_back(unit.name);
  return join(names, ", ");
}

template <std::size_t N>
Result<Scaled> parse_scaled(std::string_view text, const std::array<Unit, N>& units,
                            std::string_view kind, std::string_view example) {
  const std::string_view trimmed = trim(text);
  const auto digits_end = trimmed.find_first_not_of("0123456789.+-eE");
  // An exponent letter may also begin a unit ("1EFLOP/s"): retry without it.
  std::size_t cut = digits_end == std::string_view::npos ? trimmed.size() : digits_end;
  while (cut > 0 && (trimmed[cut - 1] == 'e' || trimmed[cut - 1] == 'E')) --cut;
  const auto number = parse_number(trimmed.substr(0, cut));
  const std::string where = fmt::format("'{}'", text);
  if (!number) return fail(where, fmt::format("not a {}", kind), fmt::format("write {}", example));
  if (*number < 0) return fail(where, fmt::format("a {} is never negative", kind));
  const std::string_view unit_name = trim(trimmed.substr(cut));
  if (unit_name.empty()) {
    if (*number == 0) return Scaled{0, 1};
    return fail(where, "the unit is missing", fmt::format("write {}", example));
  }
  for (const Unit& unit : units) {
    if (unit.name == unit_name) return Scaled{*number, unit.scale};
  }
  for (const Unit& unit : units) {
    if (lower_case(unit.name) == lower_case(unit_name) && !looks_like_bits(unit_name)) {
      return Scaled{*number, unit.scale};
    }
  }
  if (looks_like_bits(unit_name)) {
    return fail(where, "bits are not accepted, only bytes",
                fmt::format("divide by 8: {} with 'B' for 'b'", significant(*number / 8)));
  }
  return fail(where, fmt::format("unknown unit '{}'", unit_name),
              fmt::format("units are {}", names_of(units)));
}

// The largest unit of `units` (ascending) that leaves at least 1.
template <std::size_t N>
std::string print_scaled(double value, const std::array<Unit, N>& units) {
  const Unit* best = &units[0];
  for (const Unit& unit : units) {
    // Half a unit in the fourth digit: 999.96 MB prints as 1 GB.
    if (std::abs(value) >= unit.scale * 0.99995) best = &unit;
  }
  return fmt::format("{} {}", significant(value / best->scale), best->name);
}

constexpr std::array kPrintBytes = {Unit{"B", 1},
                                    Unit{"KiB", kKi},
                                    Unit{"MiB", kKi* kKi},
                                    Unit{"GiB", kKi* kKi* kKi},
                                    Unit{"TiB", kKi* kKi* kKi* kKi},
                                    Unit{"PiB", kKi* kKi* kKi* kKi* kKi}};
constexpr std::array kPrintByteRate = {Unit{"B/s", 1},    Unit{"kB/s", 1e3},  Unit{"MB/s", 1e6},
                                       Unit{"GB/s", 1e9}, Unit{"TB/s", 1e12}, Unit{"PB/s", 1e15}};
constexpr std::array kPrintFlopRate = {Unit{"FLOP/s", 1},     Unit{"MFLOP/s", 1e6},
                                       Unit{"GFLOP/s", 1e9},  Unit{"TFLOP/s", 1e12},
                                       Unit{"PFLOP/s", 1e15}, Unit{"EFLOP/s", 1e18}};
constexpr std::array kPrintFlops = {Unit{"FLOP", 1},     Unit{"MFLOP", 1e6},  Unit{"GFLOP", 1e9},
                                    Unit{"TFLOP", 1e12}, Unit{"PFLOP", 1e15}, Unit{"EFLOP", 1e18},
                                    Unit{"ZFLOP", 1e21}};
constexpr std::array kPrintParams = {Unit{"", 1}, Unit{"K", 1e3}, Unit{"M", 1e6}, Unit{"B", 1e9},
                                     Unit{"T", 1e12}};
constexpr std::array kPrintTime = {Unit{"ns", 1e-9}, Unit{"us", 1e-6}, Unit{"ms", 1e-3},
                                   Unit{"s", 1},     Unit{"min", 60},  Unit{"h", 3600},
                                   Unit{"d", 86400}};

}  // namespace

Result<Bytes> parse_bytes(std::string_view text) {
  const Scaled scaled = TW_TRY(parse_scaled(text, kByteUnits, "size in bytes", "80GiB"));
  const double exact = scaled.number * scaled.scale;
  if (exact > 9e18) return fail(fmt::format("'{}'", text), "more than 64 bits can count");
  return Bytes(std::llround(exact));
}

Result<Seconds> parse_seconds(std::string_view text) {
  const Scaled scaled = TW_TRY(parse_scaled(text, kTimeUnits, "time", "3.4us or 2s"));
  return Seconds(scaled.number * scaled.scale);
}

Result<BytesPerSecond> parse_bytes_per_second(std::string_view text) {
  const Scaled scaled = TW_TRY(parse_scaled(text, kByteRateUnits, "bandwidth", "400GB/s"));
  return BytesPerSecond(scaled.number * scaled.scale);
}

Result<FlopsPerSecond> parse_flops_per_second(std::string_view text) {
  const Scaled scaled = TW_TRY(parse_scaled(text, kFlopRateUnits, "compute rate", "989TFLOP/s"));
  return FlopsPerSecond(scaled.number * scaled.scale);
}

std::string to_text(Bytes size) {
  return print_scaled(static_cast<double>(size.value()), kPrintBytes);
}
std::string to_text(Seconds time) {
  return time.value() == 0 ? "0 s" : print_scaled(time.value(), kPrintTime);
}
std::string to_text(BytesPerSecond rate) { return print_scaled(rate.value(), kPrintByteRate); }
std::string to_text(FlopsPerSecond rate) { return print_scaled(rate.value(), kPrintFlopRate); }
std::string to_text(Flops work) { return print_scaled(work.value(), kPrintFlops); }
std::string to_text(Params count) {
  return std::string(trim(print_scaled(static_cast<double>(count.value()), kPrintParams)));
}

std::string to_exact_text(Bytes size) {
  for (auto unit = kPrintBytes.rbegin(); unit != kPrintBytes.rend(); ++unit) {
    const auto scale = static_cast<std::int64_t>(unit->scale);
    if (size.value() != 0 && size.value() % scale == 0) {
      const std::int64_t count = size.value() / scale;
      // Only small factors survive the trip through a double exactly, and read well.
      if (count < (std::int64_t{1} << 53)) return fmt::format("{}{}", count, unit->name);
    }
  }
  return fmt::format("{}B", size.value());
}
std::string to_exact_text(Seconds time) { return fmt::format("{}s", time.value()); }
std::string to_exact_text(BytesPerSecond rate) {
  const double giga = rate.value() / 1e9;
  return giga * 1e9 == rate.value() ? fmt::format("{}GB/s", giga)
                                    : fmt::format("{}B/s", rate.value());
}
std::string to_exact_text(FlopsPerSecond rate) {
  const double tera = rate.value() / 1e12;
  return tera * 1e12 == rate.value() ? fmt::format("{}TFLOP/s", tera)
                                     : fmt::format("{}FLOP/s", rate.value());
}

}  // namespace trainwright
