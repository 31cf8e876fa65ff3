// What `--on` accepts: counts and a name, joined by 'x', groups joined by '+'.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "trainwright/base/text.h"
#include "trainwright/cluster/names.h"
#include "trainwright/cluster/sizing.h"
#include "trainwright/cluster/told_words.h"

namespace trainwright {
namespace {

using detail::DomainShape;

constexpr std::string_view kForms =
    "write 64xH100, 32x8xA100-80GB, the name of a known cluster or the path of a cluster file";

// Bounds the work spent on looking for the nearest names.
constexpr std::size_t kLongestText = 512;

// "32x8xA100" cut into its counts, as written, and the name.
struct Written {
  std::vector<std::string_view> counts;
  std::string_view name;
};

// Bytes of the sign that the text begins with: x, *, or the sign of multiplication itself.
std::size_t times_sign(std::string_view text) {
  for (const std::string_view sign : {"x", "X", "*", "\u00d7"}) {
    if (text.starts_with(sign)) return sign.size();
  }
  return 0;
}

Written cut(std::string_view text) {
  Written written{.counts = {}, .name = trim(text)};
  while (true) {
    const auto digits = std::min(written.name.find_first_not_of("0123456789"), written.name.size());
    const std::string_view rest = trim(written.name.substr(digits));
    const std::size_t times = times_sign(rest);
    if (digits == 0 || times == 0) return written;
    written.counts.push_back(written.name.substr(0, digits));
    written.name = trim(rest.substr(times));
  }
}

// What a name stands for: the pattern that counts are cut out of, and the name to print.
struct Pattern {
  std::string name;
  Group group;
  std::map<std::string, std::string> sources;
};

std::optional<Pattern> find_pattern(const Hardware& hardware, std::string_view name) {
  if (const Accelerator* accelerator = find_accelerator(hardware, name)) {
    return Pattern{accelerator->name, detail::usual_pattern(*accelerator), {}};
  }
  const Cluster* cluster = find_cluster(hardware, name);
  if (cluster == nullptr || cluster->groups.size() != 1) return std::nullopt;
  return Pattern{cluster->name, cluster->groups.front(), cluster->sources};
}

std::string shape_text(const Pattern& pattern, DomainShape shape) {
  const std::int64_t count = shape.domains * shape.per_domain;
  return detail::usual_shape(pattern.group, count) == shape
             ? fmt::format("{}x{}", count, pattern.name)
             : fmt::format("{}x{}x{}", shape.domains, shape.per_domain, pattern.name);
}

// A name nobody knows, or one with the count at the wrong place or without its 'x'.
Diagnostic unknown_name(std::string_view where, std::string_view name, const Hardware& hardware) {
  const std::string place(where);
  const auto leading = std::min(name.find_first_not_of("0123456789"), name.size());
  if (leading > 0 && find_pattern(hardware, trim(name.substr(leading)))) {
    return {place, "no 'x' between count and name",
            fmt::format("write {}x{}", name.substr(0, leading), trim(name.substr(leading)))};
  }
  const auto last = name.find_last_of("xX");
  if (last != std::string_view::npos && find_pattern(hardware, trim(name.substr(0, last))) &&
      parse_integer(trim(name.substr(last + 1)))) {
    return {place, "the count comes first",
            fmt::format("write {}x{}", trim(name.substr(last + 1)), trim(name.substr(0, last)))};
  }
  std::vector<std::string> names = detail::accelerator_names(hardware);
  const std::vector<std::string> clusters = detail::cluster_names(hardware);
  names.insert(names.end(), clusters.begin(), clusters.end());
  return {place, fmt::format("unknown accelerator or cluster '{}'", name),
          did_you_mean(name, names,
                       "`trainwright list accelerators` and `list clusters` show the names")};
}

std::optional<std::int64_t> read_count(std::string_view where, std::string_view digits,
                                       Diagnostics& diagnostics) {
  const auto count = parse_integer(digits);
  if (count && *count >= 1 && *count <= kMostAccelerators) return count;
  const bool none = count && *count == 0;
  diagnostics.push_back(
      {std::string(where),
       none ? "a count of 0" : fmt::format("a count of {} is more than is accepted", digits),
       fmt::format("between 1 and {}", with_thousands(kMostAccelerators))});
  return std::nullopt;
}

// "7 nodes", "1 node".
std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", with_thousands(count), noun, count == 1 ? "" : "s");
}

// Why no shape holds that many, with the nearest counts that would do.
Diagnostic uneven_count(std::string_view where, const Pattern& pattern, std::int64_t count) {
  const Group& group = pattern.group;
  const bool splits_node = count % group.per_node != 0;
  const std::int64_t unit = splits_node ? group.per_node : detail::job_domain(group);
  std::vector<std::string> ways;
  for (const std::int64_t up : {0, 1}) {
    // The next count of whole nodes, or where that fills domains unequally, of whole domains.
    for (const std::int64_t size : {group.per_node, detail::job_domain(group)}) {
      const std::int64_t other = (count / size + up) * size;
      const auto shape = detail::usual_shape(group, other);
      if (!shape) continue;
      const std::string spare =
          other < count ? fmt::format(" ({} spare)", with_thousands(count - other)) : "";
      ways.push_back(shape_text(pattern, *shape) + spare);
      break;
    }
  }
  // Whole nodes, or 2, 4, 8 of one as they are rented; others only where these do not divide it.
  std::int64_t best = 0;
  for (std::int64_t size = std::min(group.per_domain, count); size > 1; --size) {
    if (count % size != 0 || !detail::fits(group, {count / size, size})) continue;
    const bool built =
        size % group.per_node == 0 || std::has_single_bit(static_cast<std::uint64_t>(size));
    if (best == 0 || built) best = size;
    if (built) break;
  }
  if (best > 0) ways.push_back(shape_text(pattern, {count / best, best}));
  std::string what = fmt::format(
      "{} accelerators fill {} of {} and leave {} over", with_thousands(count),
      counted(count / unit, splits_node ? "node" : "scale-up domain"), unit, count % unit);
  return {std::string(where), std::move(what),
          ways.empty() ? "" : fmt::format("fill them equally: {}", enumerate(ways, "or"))};
}

Diagnostic bad_shape(std::string_view where, const Pattern& pattern, DomainShape shape) {
  const Group& group = pattern.group;
  std::string place(where);
  if (shape.per_domain > group.per_domain) {
    return {std::move(place),
            fmt::format("a scale-up domain of {} holds {}, not {}", pattern.name, group.per_domain,
                        shape.per_domain),
            "describe another build with a cluster file"};
  }
  return {std::move(place),
          fmt::format("{} of a domain fill {} of {} and leave {} over", shape.per_domain,
                      counted(shape.per_domain / group.per_node, "node"), group.per_node,
                      shape.per_domain % group.per_node),
          "use whole nodes, or less than one"};
}

Diagnostic too_many(std::string_view where, const Pattern& pattern, std::int64_t count) {
  std::string place(where);
  const std::string& accelerator = pattern.group.accelerator.name;
  if (accelerator == pattern.name) {
    return {std::move(place),
            fmt::format("{} accelerators are more than are accepted", with_thousands(count)),
            fmt::format("at most {}", with_thousands(kMostAccelerators))};
  }
  return {std::move(place),
          fmt::format("{} has {} accelerators, fewer than {}", pattern.name,
                      with_thousands(pattern.group.count), with_thousands(count)),
          fmt::format("for a larger cluster of the usual build write {}x{}", count, accelerator)};
}

// The shape that the counts mean, or nullopt after a fault.
std::optional<DomainShape> read_shape(std::string_view where, const Pattern& pattern,
                                      const std::vector<std::int64_t>& counts,
                                      Diagnostics& diagnostics) {
  const Group& group = pattern.group;
  const std::int64_t count = counts.size() == 1 ? counts[0] : counts[0] * counts[1];
  if (count > group.count) {
    diagnostics.push_back(too_many(where, pattern, count));
    return std::nullopt;
  }
  if (counts.size() == 1) {
    const auto shape = detail::usual_shape(group, count);
    if (!shape) diagnostics.push_back(uneven_count(where, pattern, count));
    return shape;
  }
  const DomainShape shape{.domains = counts[0], .per_domain = counts[1]};
  if (detail::fits(group, shape)) return shape;
  const bool fits_one = detail::fits(group, {.domains = 1, .per_domain = counts[1]});
  diagnostics.push_back(fits_one
                            ? too_many(where, pattern, checked_mul(counts[0], group.per_domain))
                            : bad_shape(where, pattern, shape));
  return std::nullopt;
}

// A part without what is told of it: its cluster of one group, or nullopt after faults.
std::optional<Cluster> read_build(std::string_view part, const Hardware& hardware,
                                  Diagnostics& diagnostics) {
  const std::string where = fmt::format("'{}'", trim(part));
  const std::size_t before = diagnostics.size();
  const Written written = cut(part);
  std::vector<std::int64_t> counts;
  for (const std::string_view digits : written.counts) {
    if (const auto count = read_count(where, digits, diagnostics)) counts.push_back(*count);
  }
  if (written.counts.size() > 2) {
    diagnostics.push_back({where, "more than two counts", std::string(kForms)});
  }
  if (written.name.empty()) {
    diagnostics.push_back({where, "no accelerator or cluster is named", std::string(kForms)});
    return std::nullopt;
  }
  if (written.counts.empty()) {
    if (const Cluster* cluster = find_cluster(hardware, written.name)) return *cluster;
  }
  const auto pattern = find_pattern(hardware, written.name);
  if (!pattern) {
    const Cluster* mixed = find_cluster(hardware, written.name);
    diagnostics.push_back(
        mixed == nullptr ? unknown_name(where, written.name, hardware)
                         : Diagnostic{where, "a cluster of unlike groups has no parts by count",
                                      fmt::format("write {} alone", mixed->name)});
  } else if (written.counts.empty()) {
    diagnostics.push_back({where, fmt::format("how many {}?", pattern->name),
                           fmt::format("write {}x{}", pattern->group.per_node, pattern->name)});
  }
  if (diagnostics.size() != before) return std::nullopt;
  const auto shape = read_shape(where, *pattern, counts, diagnostics);
  if (!shape) return std::nullopt;
  return Cluster{.name = shape_text(*pattern, *shape),
                 .groups = {detail::sized(pattern->group, *shape)},
                 .between = std::nullopt,
                 .sources = pattern->sources};
}

// One part between '+': its build, and what is told of its machines.
std::optional<Cluster> read_part(std::string_view part, const Hardware& hardware,
                                 Diagnostics& diagnostics) {
  const std::size_t comma = std::min(part.find(','), part.size());
  auto cluster = read_build(part.substr(0, comma), hardware, diagnostics);
  if (!cluster || comma == part.size()) return cluster;
  const std::string where = fmt::format("'{}'", trim(part));
  if (cluster->groups.size() > 1) {
    diagnostics.push_back({where, "a cluster of unlike groups is told of in its file", {}});
    return std::nullopt;
  }
  Group& group = cluster->groups.front();
  cluster->name += detail::read_told(part.substr(comma + 1), where, hardware, group, diagnostics);
  detail::lay_network(group);
  return cluster;
}

// A single domain has no network by itself; beside others it has the one that such accelerators are
// usually built with.
void join_network(Group& group, std::int64_t everyone) {
  if (group.count > group.per_domain) return;
  Tier network = usual_group(group.accelerator, 2, group.per_domain).tiers.back();
  network.domain = everyone;
  group.tiers.push_back(std::move(network));
  detail::lay_network(group);
}

}  // namespace

Result<Cluster> parse_cluster(std::string_view text, const Hardware& hardware) {
  const std::string_view trimmed = trim(text);
  if (trimmed.empty()) return fail("", "no cluster is named", std::string(kForms));
  if (trimmed.size() > kLongestText) {
    return fail("", fmt::format("longer than {} letters", kLongestText), std::string(kForms));
  }
  if (trimmed.ends_with(".json") || trimmed.find('/') != std::string_view::npos) {
    const std::string path(trimmed);
    return read_cluster(TW_TRY(read_json_file(path)), path, hardware);
  }
  Diagnostics diagnostics;
  std::vector<Cluster> parts;
  for (const std::string_view part : split(trimmed, '+')) {
    if (auto cluster = read_part(part, hardware, diagnostics)) parts.push_back(*std::move(cluster));
  }
  if (!diagnostics.empty()) return fail(std::move(diagnostics));
  if (parts.size() == 1) return std::move(parts.front());
  Cluster joined;
  for (Cluster& part : parts) {
    joined.name += (joined.name.empty() ? "" : "+") + part.name;
    joined.groups.insert(joined.groups.end(), part.groups.begin(), part.groups.end());
    joined.sources.merge(part.sources);
  }
  if (accelerator_count(joined) > kMostAccelerators) {
    return fail(std::string(text), "more accelerators than are accepted",
                fmt::format("at most {}", with_thousands(kMostAccelerators)));
  }
  for (Group& group : joined.groups) join_network(group, accelerator_count(joined));
  joined.between = detail::tier_between(joined.groups);
  return joined;
}

}  // namespace trainwright
