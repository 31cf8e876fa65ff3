#pragma once
// What a job runs on: accelerators, the nodes they sit in, the networks that join them.
//
// A cluster is a list of groups of equal accelerators. Accelerators are numbered 0, 1, 2, ... node
// by node and domain by domain, group after group. A group has tiers, innermost first:
//
//   tier     joins                                  example, 1,024 H100
//   nvlink   one scale-up domain                    8 accelerators at 450 GB/s
//   leaf     nodes below the same leaf switches     256 accelerators at 50 GB/s
//   spine    the whole group                        1,024 accelerators at 50 GB/s
//
// Domains are consecutive and nested: domain d of a tier holds the accelerators [d n, (d + 1) n)
// with n = Tier::domain; only the last domain of a network tier may be short. Two accelerators talk
// over the innermost tier whose domain holds both, so every question of placement is a division:
// a / n == b / n. Nothing here is stored or counted per accelerator; 131,072 cost what 8 cost.
//
// Every bandwidth is per accelerator and one way. Vendors print the sum of both ways ("NVLink 900
// GB/s" is 450 GB/s each way) and networks in bits ("400 Gb/s" is 50 GB/s). Every peak is dense;
// "with sparsity" figures, twice as high, are never used. Sources are kept beside the facts, in
// data/accelerators/*.json and data/clusters/*.json.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/result.h"
#include "trainwright/base/units.h"
#include "trainwright/cluster/told.h"

namespace trainwright {

// The format of the numbers that are multiplied. Products of 16 bits and fewer are summed in fp32
// (int8 in int32): that is what training needs, also where a device is faster without (RTX).
enum class ComputeType { Fp64, Fp32, Tf32, Fp16, Bf16, Fp8, Int8, Fp6, Fp4 };
std::string_view name_of(ComputeType type);  // "fp64", "bf16", ...

struct Tier {
  std::string name;          // "nvlink", "pcie", "leaf", "spine", ...
  std::int64_t domain = 1;   // accelerators in one domain
  BytesPerSecond bandwidth;  // line rate per accelerator, each way, when all of them send
  Seconds latency;           // one hop of a ring between two domains of the tier below
  double efficiency = 1;     // share of the line rate that large messages reach
  // Capacity towards the tier below over capacity of this tier; 1 is non-blocking. Traffic that all
  // accelerators send across this tier at once gets bandwidth / oversubscription.
  double oversubscription = 1;

  friend bool operator==(const Tier&, const Tier&) = default;
};

// bandwidth * efficiency / oversubscription: what one accelerator gets when all of them send.
BytesPerSecond bandwidth_under_load(const Tier& tier);

// How accelerators of one kind are usually built into nodes and networks.
struct UsualNode {
  std::int64_t accelerators = 8;  // that share a host
  std::int64_t nics = 8;
  BytesPerSecond nic_bandwidth;    // of one, each way
  std::int64_t leaf_domains = 32;  // scale-up domains below the same leaf switches
  BytesPerSecond efa{0};           // of a node with AWS's adapters, each way; 0: there is none

  friend bool operator==(const UsualNode&, const UsualNode&) = default;
};

struct Accelerator {
  std::string name;                  // "H100-SXM"
  std::vector<std::string> aliases;  // "H100", "H100-80GB"; compared without case
  std::string vendor;
  std::int64_t year = 0;  // of first shipment
  // NVIDIA's number for the architecture: 8 Ampere, 9 Hopper, 10 Blackwell; 0 for other vendors.
  double compute_capability = 0;
  Bytes memory;          // as sold
  Bytes memory_visible;  // what a program can allocate in all; at most `memory`
  BytesPerSecond memory_bandwidth;
  std::map<ComputeType, FlopsPerSecond> peak;  // dense; absent where the hardware has no such unit
  // The links inside a scale-up domain, innermost first, as usually built; at least one, and the
  // last one's `domain` is the size of the whole.
  std::vector<Tier> scale_up;
  // Accelerators of a scale-up domain that jobs usually take: 64 of the 72 of an NVL72 rack (the
  // others are spares, and 72 is no power of two); elsewhere the whole domain.
  std::int64_t job_domain = 8;
  BytesPerSecond host_link;  // to the memory of the host, each way
  double power = 0;          // W that a board draws at most; 0: not known
  UsualNode node;
  std::map<std::string, std::string> sources;  // field -> document and year; "note" for remarks

  friend bool operator==(const Accelerator&, const Accelerator&) = default;
};

// nullopt where the hardware has no unit for it: then a wider type does the work.
std::optional<FlopsPerSecond> peak(const Accelerator& accelerator, ComputeType type);

// Equal accelerators in equal nodes in equal domains.
struct Group {
  Accelerator accelerator;
  std::int64_t count = 0;       // accelerators; a multiple of per_domain
  std::int64_t per_node = 0;    // accelerators that share a host; divides per_domain
  std::int64_t per_domain = 0;  // accelerators that share the scale-up links
  // Separate networks, one per NIC of a node; accelerators at the same position of their nodes
  // share a rail and reach each other below one leaf switch. 1: the network knows no rails.
  std::int64_t rails = 1;
  std::vector<Tier> tiers;  // innermost first, domains growing; the last one holds `count`
  Told told = {};

  friend bool operator==(const Group&, const Group&) = default;
};

struct Cluster {
  // A name or `--on` text. parse_cluster(name) gives the cluster again unless it came from a file
  // of the user's.
  std::string name;
  std::vector<Group> groups;    // at least one
  std::optional<Tier> between;  // joins the groups when there are several
  std::map<std::string, std::string> sources;

  friend bool operator==(const Cluster&, const Cluster&) = default;
};

// Everything known from a data directory: accelerators and clusters, each sorted by name.
struct Hardware {
  std::vector<Accelerator> accelerators;
  std::vector<Cluster> clusters;
  std::vector<Host> hosts = {};
};

// Largest cluster that is accepted; bounds all arithmetic on counts.
inline constexpr std::int64_t kMostAccelerators = std::int64_t{1} << 24;

// Reads DIR/accelerators/*.json, DIR/clusters/*.json and, if it is there, DIR/hosts.json; all
// faults of all files at once.
Result<Hardware> load_hardware(const std::string& data_dir);

// The accelerator of that name or alias, without regard to case; nullptr if unknown.
const Accelerator* find_accelerator(const Hardware& hardware, std::string_view name);
const Cluster* find_cluster(const Hardware& hardware, std::string_view name);

// Reads what `--on` accepts:
//   64xH100               64 accelerators in nodes and domains as usually built
//   32x8xA100-80GB        32 domains of 8
//   256xGB200             4 NVL72 racks, 64 accelerators of each (job_domain)
//   selene, 64xselene     a known cluster, or a part of it: whole nodes
//   64xH100+32x8xA100     two groups
//   64xH100,network=8x200G,cpu=epyc-7742,power=500W   what is told of their machines
//   mine.json, ./dir/c    a cluster file: the text ends in .json or holds a slash
// Fewer than a node are one part-filled node; more must fill whole nodes and equal domains, because
// the groups of a layout could not all look alike otherwise.
Result<Cluster> parse_cluster(std::string_view text, const Hardware& hardware);

// A cluster and an accelerator as JSON objects and back; read(to_json(x)) == x. In a cluster an
// accelerator is a known name or a whole object; tiers may be left out (as usually built).
Result<Cluster> read_cluster(const Json& json, const std::string& origin, const Hardware& hardware);
Result<Accelerator> read_accelerator(const Json& json, const std::string& origin);
Json to_json(const Cluster& cluster);
Json to_json(const Accelerator& accelerator);

// `domains` domains of `per_domain` accelerators each, built as usual. Needs 1 <= per_domain <= the
// usual domain, whole nodes when more than one, and at most kMostAccelerators in all.
Group usual_group(const Accelerator& accelerator, std::int64_t domains, std::int64_t per_domain);

std::int64_t accelerator_count(const Cluster& cluster);
// The group whose accelerators have the least memory: every rank of a layout must fit there.
const Group& tightest_group(const Cluster& cluster);
// What a program can allocate on an accelerator of that group.
Bytes capacity_of(const Cluster& cluster);
// Of any group: what a layout can count on wherever its ranks lie.
std::int64_t smallest_node(const Cluster& cluster);
std::int64_t smallest_domain(const Cluster& cluster);
std::int64_t largest_node(const Cluster& cluster);
std::int64_t node_count(const Group& group);
std::int64_t node_count(const Cluster& cluster);

// Where the accelerator of that number is: its group, and its number within the group.
struct Place {
  std::size_t group = 0;
  std::int64_t index = 0;

  friend bool operator==(const Place&, const Place&) = default;
};
Place place_of(const Cluster& cluster, std::int64_t accelerator);

bool same_node(const Group& group, std::int64_t a, std::int64_t b);
// The rail of an accelerator, in [0, group.rails).
std::int64_t rail_of(const Group& group, std::int64_t accelerator);
// The innermost tier that holds both; a != b or not.
std::size_t shared_tier(const Group& group, std::int64_t a, std::int64_t b);
const Tier& shared_tier(const Cluster& cluster, std::int64_t a, std::int64_t b);
// The innermost tier with a domain that holds first, first + stride, ... (`members` of them).
std::size_t spanned_tier(const Group& group, std::int64_t first, std::int64_t members,
                         std::int64_t stride);

}  // namespace trainwright
