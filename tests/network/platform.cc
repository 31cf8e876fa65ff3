#include "platform.h"

#include <fmt/format.h>

#include <cmath>

namespace trainwright::network {
namespace {

namespace sg = simgrid::s4u;

constexpr std::int64_t kOnNic = 2;  // accelerators, in a fat tree

sg::NetZone* child_zone(const std::string& name) {
  static sg::NetZone* const root = sg::create_full_zone("all");
  return sg::create_full_zone(name)->set_parent(root);
}

template <class T>
const T& at(const std::vector<T>& list, std::int64_t place) {
  return list.at(static_cast<std::size_t>(place));
}

}  // namespace

void configure() {
  for (const char* setting : {"network/model:CM02", "network/TCP-gamma:0", "network/crosstraffic:0",
                              "network/bandwidth-factor:1", "network/latency-factor:1"}) {
    sg::Engine::set_config(setting);
  }
}

Platform::Platform(const std::string& name, Group group, Fabric fabric)
    : name_(name), group_(std::move(group)), fabric_(fabric), zone_(child_zone(name)) {
  const Tier &nvlink = group_.tiers[0], &leaf = group_.tiers[1], &spine = group_.tiers[2];
  const std::int64_t sharing = fabric == Fabric::Rail ? 1 : kOnNic;
  for (std::int64_t rank = 0; rank < group_.count; ++rank) {
    hosts_.push_back(zone_->create_host(fmt::format("{}-{}", name, rank), 1e9));
    nvlinks_.push_back(pair("nvlink", rank, nvlink.bandwidth.value(), nvlink.latency.value()));
  }
  for (std::int64_t nic = 0; nic < group_.count / sharing; ++nic) {
    nics_.push_back(pair("nic", nic, leaf.bandwidth.value() * static_cast<double>(sharing),
                         leaf.latency.value()));
  }
  const double below = static_cast<double>(leaf.domain / group_.rails);
  for (std::int64_t up = 0; up < group_.count / leaf.domain * group_.rails; ++up) {
    ups_.push_back(pair("up", up, below * spine.bandwidth.value() / spine.oversubscription, 0));
  }
}

Platform::Pair Platform::pair(const char* what, std::int64_t number, double rate, double latency) {
  const auto link = [&](const char* way, double waits) {
    const std::string name = fmt::format("{}-{}-{}-{}", name_, what, number, way);
    return zone_->create_link(name, rate)->set_latency(waits)->seal();
  };
  return {link("up", latency), link("down", 0)};
}

void Platform::add_spine(Path& path, std::int64_t from, std::int64_t to) const {
  const std::int64_t leaf = group_.tiers[1].domain, rail = rail_of(group_, to);
  if (from / leaf == to / leaf) return;
  path.push_back(at(ups_, from / leaf * group_.rails + rail).up);
  path.push_back(at(ups_, to / leaf * group_.rails + rail).down);
}

Platform::Path Platform::path(std::int64_t from, std::int64_t to) const {
  if (same_node(group_, from, to)) return {at(nvlinks_, from).up, at(nvlinks_, to).down};
  Path path;
  if (fabric_ == Fabric::FatTree) {
    path.push_back(at(nics_, from / kOnNic).up);
    add_spine(path, from, to);
    path.push_back(at(nics_, to / kOnNic).down);
    return path;
  }
  // Over NVLink to the neighbour on the receiver's rail, as NCCL does (PXN).
  const std::int64_t sender = from - from % group_.per_node + to % group_.per_node;
  if (sender != from) path = {at(nvlinks_, from).up, at(nvlinks_, sender).down};
  path.push_back(at(nics_, sender).up);
  add_spine(path, from, to);
  path.push_back(at(nics_, to).down);
  return path;
}

sg::Host* Platform::host(std::int64_t rank) const { return at(hosts_, rank); }

void Platform::add_routes(const Round& round) {
  for (const Flow& flow : round.flows) {
    if (!known_.emplace(std::pair(flow.from, flow.to), true).second) continue;
    std::vector<sg::LinkInRoute> route;
    for (const sg::Link* link : path(flow.from, flow.to)) route.emplace_back(link);
    zone_->add_route(host(flow.from)->get_netpoint(), host(flow.to)->get_netpoint(), nullptr,
                     nullptr, route, false);
  }
}

double Platform::seconds(const Round& round) const {
  const double before = sg::Engine::get_clock();
  std::vector<sg::CommPtr> sent;
  for (const Flow& flow : round.flows) {
    sent.push_back(sg::Comm::sendto_async(host(flow.from), host(flow.to),
                                          static_cast<std::uint64_t>(std::llround(flow.bytes))));
  }
  sg::Comm::wait_all(sent);
  return (sg::Engine::get_clock() - before) * round.times;
}

}  // namespace trainwright::network
