#include "trainwright/cluster/told_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/cluster/fields.h"
#include "trainwright/cluster/sizing.h"

namespace trainwright::detail {
namespace {

constexpr double kBitsPerSecond = 1e9 / 8;  // of 1 Gb/s, in bytes
constexpr std::int64_t kMostAdapters = 128;
constexpr double kFastestAdapter = 1600;  // Gb/s; one of 3,200 would be a whole node's
// Sockets over Ethernet: 4 to 6 of 12.5 GB/s (NCCL issue 450), at most 60 % of 32 Gb/s (issue 209).
constexpr double kTcpEfficiency = 0.45;
constexpr double kTcpAdapter = 100;  // Gb/s

constexpr const char* kNetworkForms =
    "network=8x200G for 8 adapters of 200 Gb/s a node, 200G for as many as usual, efa, or ethernet";

// "200G", "200Gbps": Gb/s of one adapter.
std::optional<double> gigabits(std::string_view text) {
  const std::string lower = lower_case(text);
  const std::size_t unit = lower.find('g');
  if (unit == std::string::npos) return std::nullopt;
  const std::string_view rest = std::string_view(lower).substr(unit);
  if (rest != "g" && rest != "gbps") return std::nullopt;
  const auto number = parse_number(lower.substr(0, unit));
  return number && *number > 0 ? number : std::nullopt;
}

std::optional<Network> adapters(std::string_view text, const UsualNode& usual) {
  const std::size_t times = text.find_first_of("xX*");
  Network network{.name = {}, .nics = usual.nics};
  if (times != std::string_view::npos) {
    const auto count = parse_integer(trim(text.substr(0, times)));
    if (!count || *count < 1 || *count > kMostAdapters) return std::nullopt;
    network.nics = *count;
    text = trim(text.substr(times + 1));
  }
  const auto speed = gigabits(text);
  if (!speed || *speed > kFastestAdapter) return std::nullopt;
  network.nic_bandwidth = BytesPerSecond(*speed * kBitsPerSecond);
  return network;
}

Result<Network> network_in(const std::string& text, const Accelerator& accelerator) {
  const std::string word = lower_case(text);
  if (word == "ethernet") {
    return Network{.name = {},
                   .nics = 1,
                   .nic_bandwidth = BytesPerSecond(kTcpAdapter * kBitsPerSecond),
                   .efficiency = kTcpEfficiency};
  }
  const UsualNode& usual = accelerator.node;
  if (word == "efa") {
    if (usual.efa > BytesPerSecond(0)) {
      return Network{.name = {}, .nics = 1, .nic_bandwidth = usual.efa};
    }
    return fail("", fmt::format("no instance with EFA is known for {}", accelerator.name),
                "write its adapters: network=4x100G");
  }
  if (const auto network = adapters(word, usual)) return *network;
  return fail("", fmt::format("'{}' is not a network", text), kNetworkForms);
}

Result<Host> host_in(const std::string& text, const Hardware& hardware) {
  const std::string wanted = lower_case(text);
  std::vector<std::string> names;
  for (const Host& host : hardware.hosts) {
    const auto& aliases = host.aliases;
    if (host.name == wanted || std::find(aliases.begin(), aliases.end(), wanted) != aliases.end()) {
      return host;
    }
    names.push_back(host.name);
  }
  constexpr double kFastest = 0.2, kSlowest = 10;
  const auto pace = parse_number(text);
  if (pace && *pace >= kFastest && *pace <= kSlowest) {
    const std::string name = significant(*pace);
    return Host{.name = name, .aliases = {}, .pace = *parse_number(name), .source = {}};
  }
  return fail("", fmt::format("'{}' is no CPU that was measured", text),
              did_you_mean(wanted, names,
                           fmt::format("{}; or its time for an operator over that of a Xeon 8480: "
                                       "cpu=1.3",
                                       enumerate(names, "or"))));
}

Result<double> watts_in(const std::string& text, const Accelerator& accelerator) {
  const std::string lower = lower_case(text);
  const auto watts = lower.ends_with('w') ? parse_number(lower.substr(0, lower.size() - 1))
                                          : std::optional<double>();
  if (!watts) return fail("", fmt::format("'{}' is no power", text), "power=500W");
  if (accelerator.power <= 0) {
    return fail("", fmt::format("what {} usually draws is not known", accelerator.name),
                "leave power= out");
  }
  constexpr double kLeast = 0.3;  // of the board's limit; drivers refuse less
  if (*watts < kLeast * accelerator.power || *watts > accelerator.power) {
    return fail(
        "", fmt::format("{} W is out of range", significant(*watts)),
        fmt::format("{} draws at most {} W, and at least {} W", accelerator.name,
                    significant(accelerator.power), significant(kLeast * accelerator.power)));
  }
  return *parse_number(significant(*watts));
}

// One word; its text as it is printed.
Result<std::string> tell(std::string_view word, const Hardware& hardware, Group& group) {
  const std::size_t equals = word.find('=');
  const std::string key = lower_case(trim(word.substr(0, equals)));
  const std::string value =
      equals == std::string_view::npos ? "" : std::string(trim(word.substr(equals + 1)));
  Told& told = group.told;
  if (key == "network" && (!told.network || told.network->nics == 0)) {
    told.network = TW_TRY(network_in(value, group.accelerator));
    told.network->name = lower_case(value);
    return "network=" + told.network->name;
  }
  if (key == "cpu" && !told.host) {
    told.host = TW_TRY(host_in(value, hardware));
    return "cpu=" + told.host->name;
  }
  if (key == "power" && told.power == 0) {
    told.power = TW_TRY(watts_in(value, group.accelerator));
    return fmt::format("power={}W", significant(told.power));
  }
  const std::vector<std::string> keys = {"network", "cpu", "power"};
  const bool twice = std::find(keys.begin(), keys.end(), key) != keys.end();
  return fail("", fmt::format("'{}' is {}", trim(word), twice ? "said twice" : "not understood"),
              did_you_mean(key, keys, "after the count: network=, cpu= or power="));
}

}  // namespace

std::string read_told(std::string_view words, const std::string& where, const Hardware& hardware,
                      Group& group, Diagnostics& diagnostics) {
  std::string printed;
  if (trim(words).empty()) return printed;
  for (const std::string_view word : split(words, ',')) {
    auto said = tell(trim(word), hardware, group);
    if (said) {
      printed += "," + *said;
      continue;
    }
    for (Diagnostic& fault : said.error().diagnostics) {
      fault.where = where;
      diagnostics.push_back(std::move(fault));
    }
  }
  return printed;
}

void lay_network(Group& group) {
  if (!group.told.network || group.told.network->nics == 0) return;
  const Network& network = *group.told.network;
  const UsualNode& usual = group.accelerator.node;
  const BytesPerSecond each = network.nic_bandwidth * static_cast<double>(network.nics) /
                              static_cast<double>(usual.accelerators);
  for (Tier& tier : group.tiers) {
    if (tier.domain <= group.per_domain) continue;
    tier.bandwidth = each;
    tier.efficiency = network.efficiency;
  }
  const std::int64_t rails = std::min(network.nics, usual.accelerators);
  group.rails = std::max<std::int64_t>(1, rails * group.per_node / usual.accelerators);
}

std::vector<Host> read_hosts(const Json& json, const std::string& origin,
                             Diagnostics& diagnostics) {
  std::vector<Host> hosts;
  JsonFields fields(json, origin, "", diagnostics);
  const Json* list = fields.array("hosts");
  for (std::size_t i = 0; list != nullptr && i < list->items.size(); ++i) {
    JsonFields one(list->items[i], origin, fmt::format("/hosts/{}", i), diagnostics);
    hosts.push_back({.name = name_field(one, "name"),
                     .aliases = one.optional_strings("aliases"),
                     .pace = ratio_field(one, "pace", 0.1, 10, 1),
                     .source = one.string("source")});
    one.finish();
  }
  fields.finish();
  return hosts;
}

}  // namespace trainwright::detail
