// What one NCCL communicator allocates on one rank; the formula of outside.h, term by term.
#include <algorithm>
#include <bit>
#include <cmath>

#include "trainwright/outside/outside.h"

namespace trainwright {
namespace {

constexpr Version kRounds{2, 19, 0};      // buffers come from cuMem: whole grains
constexpr Version kWhenNeeded{2, 22, 0};  // connections are made at first use
constexpr double kHopper = 9;             // the first with reductions in the switch
constexpr double kReads = 8;              // the only one whose receivers read over NVLink

// The value of the last key that is not above `at`; of the first one where all are.
template <class Key, class Value>
Value value_at(const std::map<Key, Value>& table, Key at) {
  const auto above = table.upper_bound(at);
  return above == table.begin() ? above->second : std::prev(above)->second;
}

// One communicator's geometry and what its links cost.
struct Wiring {
  double members = 1, per_node = 1, nodes = 1;
  double channels = 0, tables = 0;  // C and A
  double link = 0;                  // s + r inside a node
  bool nvls = false;                // possible
  bool all_at_once = false;         // connected when made
};

Wiring wiring_of(const CommunicatorShape& shape, const Accelerator& accelerator, Version nccl,
                 const NcclFacts& facts) {
  Wiring of;
  of.members = static_cast<double>(shape.members);
  of.per_node = static_cast<double>(shape.per_node);
  of.nodes = std::ceil(of.members / of.per_node);
  const double capability = accelerator.compute_capability;
  const bool pcie = accelerator.scale_up.front().name == "pcie";
  std::int64_t channels = pcie ? facts.channels_pcie : value_at(facts.channels, capability);
  if (of.nodes > 1) {
    const std::int64_t wires = std::max<std::int64_t>(4, 2 * accelerator.node.nics);
    channels = std::min(value_at(facts.channels_across, shape.per_node), wires);
  }
  of.channels = static_cast<double>(channels);
  of.tables = static_cast<double>(std::bit_ceil(static_cast<std::uint64_t>(channels)));
  const bool reads = capability == kReads && !pcie;
  of.link = reads ? facts.send_reading + facts.receive_reading : facts.send + facts.receive;
  of.nvls = !pcie && capability >= kHopper && shape.per_node >= facts.nvls_least;
  of.all_at_once = nccl < kWhenNeeded;
  return of;
}

double table_bytes(const Wiring& of, bool nvls, Version nccl, const NcclFacts& facts) {
  const auto pad = [&](double bytes) {
    return nccl < kRounds ? bytes : std::ceil(bytes / facts.grain) * facts.grain;
  };
  const double channel = pad(facts.table_member * of.members) +
                         pad(facts.table_pointer * (of.members + 1 + of.per_node)) +
                         pad(facts.table_rank * of.members);
  // The communicator's own structure, and its list of ranks.
  double bytes = of.tables * channel + pad(60'000) + pad(facts.table_rank * of.members);
  if (nvls) bytes += of.channels * pad(facts.table_member * of.per_node) + facts.grain;
  return bytes;
}

// Links inside the node that a walk through all of its members takes, as a mean over them.
double inside(const Wiring& of) { return (of.per_node - 1) / of.per_node * of.link; }

double ring_bytes(const Wiring& of, const NcclFacts& facts) {
  if (of.nodes == 1) return of.channels * of.link;
  return of.channels * (inside(of) + facts.network_link / of.per_node);
}

double tree_bytes(const Wiring& of, const NcclFacts& facts, bool ring) {
  if (of.members == 2) return ring ? 0 : ring_bytes(of, facts);
  const double degree = 2 * (of.nodes - 1) / of.nodes;
  const double both = 2 * inside(of) + degree * facts.network_link / of.per_node;
  return of.channels * (both - (ring ? inside(of) : 0));
}

double nvls_bytes(const Wiring& of, double capability, const NcclFacts& facts) {
  const double heads = std::min(of.per_node, static_cast<double>(facts.nvls_most));
  if (of.all_at_once) return heads * of.channels * facts.nvls_channel_before;
  return heads * static_cast<double>(value_at(facts.nvls_channels, capability)) *
         facts.nvls_channel;
}

double nvls_tree_bytes(const Wiring& of, const NcclFacts& facts) {
  return of.channels * 2 * (of.nodes - 1) / of.nodes * facts.network_link;
}

// One rank on each node: all-gather and reduce-scatter by doubling distances, beside the ring.
double doubling_bytes(const Wiring& of, const NcclFacts& facts) {
  if (of.per_node > 1) return 0;
  const double rounds = std::ceil(std::log2(of.members));
  return std::max(0.0, of.channels * rounds * 2 * facts.network_link - ring_bytes(of, facts));
}

double pair_bytes(const Wiring& of, double peers, const NcclFacts& facts) {
  const double on_node = static_cast<double>(facts.pair_channels);
  const double across = 2 * of.members <= 4 * of.channels ? 2 : 1;
  double bytes = peers * (of.nodes == 1 ? on_node : across) * of.link;
  if (of.nodes > 1) bytes += 2 * of.tables * facts.pool_far;
  return bytes;
}

// What is connected: the ways in use, without the switch, or all that could be.
enum class Extent { Least, Usual, Most };

double connected(const Wiring& of, const std::vector<Connection>& uses, double capability,
                 const NcclFacts& facts, Extent extent) {
  const auto used = [&](Connection way) {
    return std::find(uses.begin(), uses.end(), way) != uses.end();
  };
  const bool collectives =
      used(Connection::Ring) || used(Connection::Tree) || used(Connection::Nvls);
  const bool most = extent == Extent::Most && collectives && of.members > 2;
  const bool nvls = of.nvls && extent != Extent::Least;
  double bytes = 0;
  const bool ring = of.all_at_once || most || used(Connection::Ring) || used(Connection::Nvls) ||
                    (extent == Extent::Least && collectives);
  const bool tree = of.all_at_once || most || (used(Connection::Tree) && extent != Extent::Least);
  if (ring) bytes += ring_bytes(of, facts);
  if (tree) bytes += tree_bytes(of, facts, ring);
  if (nvls && (of.all_at_once || most || used(Connection::Nvls))) {
    bytes += nvls_bytes(of, capability, facts);
    if (of.nodes > 1 && (of.all_at_once || most)) bytes += nvls_tree_bytes(of, facts);
  }
  if (most && !of.all_at_once) bytes += doubling_bytes(of, facts);
  if (of.all_at_once) bytes += of.tables * (of.nodes == 1 ? facts.pool_near : facts.pool_far);
  const double local = of.per_node - 1;
  if (used(Connection::AllToAll)) bytes += pair_bytes(of, local, facts);
  if (used(Connection::Pairs)) bytes += pair_bytes(of, std::min(2.0, local), facts);
  return bytes;
}

}  // namespace

BytesRange communicator_bytes(const CommunicatorShape& shape, const std::vector<Connection>& uses,
                              const Accelerator& accelerator, Version nccl,
                              const NcclFacts& facts) {
  if (shape.members <= 1) return {};
  const Wiring of = wiring_of(shape, accelerator, nccl, facts);
  const auto bytes = [&](Extent extent) {
    const bool nvls = of.nvls && extent != Extent::Least;
    return RealBytes(table_bytes(of, nvls, nccl, facts) +
                     connected(of, uses, accelerator.compute_capability, facts, extent));
  };
  return {bytes(Extent::Least), bytes(Extent::Usual), bytes(Extent::Most)};
}

}  // namespace trainwright
