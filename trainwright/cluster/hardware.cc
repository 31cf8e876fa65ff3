// What a data directory knows: one file per accelerator and per cluster.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "trainwright/base/text.h"
#include "trainwright/cluster/fields.h"
#include "trainwright/cluster/names.h"
#include "trainwright/cluster/told_words.h"

namespace trainwright {
namespace {

Result<std::vector<std::string>> json_files(const std::string& directory) {
  std::error_code fault;
  std::vector<std::string> paths;
  std::filesystem::directory_iterator entries(directory, fault);
  for (; !fault && entries != std::filesystem::directory_iterator(); entries.increment(fault)) {
    if (entries->path().extension() == ".json") paths.push_back(entries->path().string());
  }
  if (fault) {
    return fail(directory, fmt::format("cannot be listed: {}", fault.message()),
                "name the directory that holds accelerators and clusters with --data");
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Adds what `read` makes of each file; a file with faults adds its faults instead.
template <class Value, class Read>
std::vector<Value> read_each(const std::string& directory, const Read& read,
                             Diagnostics& diagnostics) {
  std::vector<Value> values;
  const auto keep_faults = [&](const Error& error) {
    diagnostics.insert(diagnostics.end(), error.diagnostics.begin(), error.diagnostics.end());
  };
  const auto paths = json_files(directory);
  if (!paths) keep_faults(paths.error());
  for (const std::string& path : paths.value_or(std::vector<std::string>{})) {
    auto value = read_json_file(path).and_then([&](const Json& json) { return read(json, path); });
    if (value) {
      values.push_back(*std::move(value));
    } else {
      keep_faults(value.error());
    }
  }
  std::sort(values.begin(), values.end(),
            [](const Value& a, const Value& b) { return lower_case(a.name) < lower_case(b.name); });
  return values;
}

// One name must mean one thing.
void check_names(const Hardware& hardware, const std::string& data_dir, Diagnostics& diagnostics) {
  std::map<std::string, std::string> owner;  // lower case -> who has it
  const auto claim = [&](const std::string& name, const std::string& whose) {
    const auto [at, added] = owner.emplace(lower_case(name), whose);
    if (added) return;
    diagnostics.push_back({data_dir,
                           fmt::format("both {} and {} are called '{}'", at->second, whose, name),
                           "rename one"});
  };
  for (const Accelerator& accelerator : hardware.accelerators) {
    const std::string whose = fmt::format("accelerator {}", accelerator.name);
    claim(accelerator.name, whose);
    for (const std::string& alias : accelerator.aliases) claim(alias, whose);
  }
  for (const Cluster& cluster : hardware.clusters) {
    claim(cluster.name, fmt::format("cluster {}", cluster.name));
    if (const std::string fault = detail::name_fault(cluster.name); !fault.empty()) {
      diagnostics.push_back(
          {data_dir, fmt::format("the name of cluster '{}' {}", cluster.name, fault), {}});
    }
  }
}

}  // namespace

std::vector<std::string> detail::accelerator_names(const Hardware& hardware) {
  std::vector<std::string> names;
  for (const Accelerator& accelerator : hardware.accelerators) {
    names.push_back(accelerator.name);
    names.insert(names.end(), accelerator.aliases.begin(), accelerator.aliases.end());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> detail::cluster_names(const Hardware& hardware) {
  std::vector<std::string> names;
  for (const Cluster& cluster : hardware.clusters) names.push_back(cluster.name);
  return names;
}

Result<Hardware> load_hardware(const std::string& data_dir) {
  Diagnostics diagnostics;
  Hardware hardware;
  hardware.accelerators = read_each<Accelerator>(
      data_dir + "/accelerators",
      [](const Json& json, const std::string& path) { return read_accelerator(json, path); },
      diagnostics);
  hardware.clusters = read_each<Cluster>(
      data_dir + "/clusters",
      [&](const Json& json, const std::string& path) { return read_cluster(json, path, hardware); },
      diagnostics);
  check_names(hardware, data_dir, diagnostics);
  const std::string hosts = data_dir + "/hosts.json";
  if (std::filesystem::exists(hosts)) {
    if (const auto json = read_json_file(hosts)) {
      hardware.hosts = detail::read_hosts(*json, hosts, diagnostics);
    } else {
      diagnostics.insert(diagnostics.end(), json.error().diagnostics.begin(),
                         json.error().diagnostics.end());
    }
  }
  if (!diagnostics.empty()) return fail(std::move(diagnostics));
  return hardware;
}

const Accelerator* find_accelerator(const Hardware& hardware, std::string_view name) {
  const std::string wanted = lower_case(name);
  for (const Accelerator& accelerator : hardware.accelerators) {
    if (lower_case(accelerator.name) == wanted) return &accelerator;
    for (const std::string& alias : accelerator.aliases) {
      if (lower_case(alias) == wanted) return &accelerator;
    }
  }
  return nullptr;
}

const Cluster* find_cluster(const Hardware& hardware, std::string_view name) {
  const std::string wanted = lower_case(name);
  for (const Cluster& cluster : hardware.clusters) {
    if (lower_case(cluster.name) == wanted) return &cluster;
  }
  return nullptr;
}

}  // namespace trainwright
