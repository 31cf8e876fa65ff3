#pragma once
// What a software stack makes of an accelerator's kernels. Part of simulate.h: include that one.
//
// The trainer explains more of a step's time than the chip does. A stack is a class of trainers
// that launch, fuse and overlap alike; its constants stand in data/calibrations/time.json with the
// runs they were fitted to. Each is a factor on what kernels alone would take, or a time.
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/result.h"
#include "trainwright/base/units.h"
#include "trainwright/cluster/cluster.h"
#include "trainwright/trainer/trainer.h"

namespace trainwright {

// clang-format off
enum class StackConstant : std::uint8_t {
  Products,    // factor on matrix products
  AttentionCores, // factor on fused attention
  Streams,     // factor on memory-bound kernels
  Loss,        // factor on the loss: several passes where a list has one
  Accumulate,  // share of the traffic of adding up gradients that shows beside their product
  Host,        // factor on what the host takes for an operator: a floor
  Hop,         // seconds of the host for each hop of a collective of tp, where ranks leave a node
  InNode,      // factor on collectives within a node, whose kernels share the device with others
  Network,     // factor on what crosses the network
  Reductions,  // factor on all-reduces beside that
  Exposed,     // share of collectives beside other work that shows all the same
  Transfer,    // share of a transfer between stages that shows: it may be there before it is wanted
  DataInNode,  // factor on gradients and weights within a node, beside InNode
  DataExposed, // share of gradients and weights that shows where they are overlapped
  DataGrowth,  // of those that cross the network, with every doubling of the ranks beyond 64
  Optimizer,   // factor on its bytes at full bandwidth
  Growth,      // of a step with every doubling of the ranks beyond 8
  Fixed,       // seconds of a step beside all of it: data, logging, clipping
  Tuned,       // factor on the step of a vendor's own recipe, tuned for that machine
  Scale,       // of a whole step: machines with one and the same stack differ; 1 until one is measured
};
// clang-format on
inline constexpr std::size_t kStackConstants = static_cast<std::size_t>(StackConstant::Scale) + 1;

// How sure a prediction is hangs on what the step is made of. With o the share of the step that is
// neither products nor attention, whose kernels were timed by themselves, and n the nodes, 90 % of
// runs have
//
//   |log(measured / predicted)| <= spread x (least + rest x o) x (1 + nodes x log2 n)
//                                  [x experts] [x adapters] [x untaught] [x slow]
//
// where experts and adapters count for models and jobs that have them, untaught for accelerators of
// a vendor none of whose runs taught the constants, and slow for runs that take longer than
// predicted: what goes wrong on a machine that nobody has measured costs time. One run measured
// there ends that. The numbers stand in time.json with their source; without any, one width is for
// all.
struct WidthRule {
  double least = 1, rest = 0, nodes = 0, experts = 1, adapters = 1, untaught = 1, slow = 1;
  friend bool operator==(const WidthRule&, const WidthRule&) = default;
};
// What a question may leave open of its machines; unspecified.h tells what hangs on each.
enum class Unspecified : std::uint8_t { Network, Host, Power };
inline constexpr std::size_t kUnspecified = static_cast<std::size_t>(Unspecified::Power) + 1;
struct Regime {
  double nodes = 1;
  bool experts = false, adapters = false, untaught = false;
  std::array<bool, kUnspecified> told = {};  // of all groups
};
std::array<bool, kUnspecified> told_of(const Cluster& cluster);
double width_of(const WidthRule& rule, const Regime& regime, double other);  // over the spread
bool is_untaught(
    const Cluster& cluster);  // some of it is no NVIDIA's, whose runs taught the constants

struct StackConstants {
  std::array<double, kStackConstants> values{};
  Seconds host{1.1e-4};  // of an operator, on the host of an H100: measured, never fitted
  double spread = 0.3;   // of 90 % intervals, see WidthRule
  WidthRule width = {};
  double at(StackConstant which) const { return values[static_cast<std::size_t>(which)]; }
  friend bool operator==(const StackConstants&, const StackConstants&) = default;
};

// What is known about a constant before any run: bounds, a middle, and how far it is from there.
struct StackPrior {
  std::string_view name, unit, meaning;
  double least, most, usual;
  double spread;     // standard deviation of its logarithm
  double deviation;  // that of a stack from what all stacks share; 0: it has none
  double machine;    // that of one's own machine, nothing measured there, from its stack
};
std::span<const StackPrior> stack_priors();  // in the order of StackConstant
StackConstants usual_stack();

struct Stack {
  std::string name;                   // "megatron-core", "older-megatron", "pytorch"
  std::vector<std::string> trainers;  // names of trainers; the stack of none is that of all others
  StackConstants constants;
  // Of intervals when no run of one's own is known, when one is, and when there are more: `spread`
  // is the first.
  std::array<double, 3> spreads = {0.4, 0.3, 0.2};
  std::string source;  // which runs it was fitted to
};
struct Stacks {
  std::vector<Stack> list;   // at least one; the last has no trainers
  WidthRule width = {};      // the same in all of them
  std::string width_source;  // what it was chosen by; empty: there is none
};
Result<Stacks> read_stacks(const Json& json, const std::string& origin);
Result<Stacks> load_stacks(const std::string& data_directory,
                           const std::optional<std::string>& file = {});
// The stack of a trainer.
const Stack& stack_of(const Stacks& stacks, const Trainer& trainer);
// As for a vendor's own recipe on a machine set up for it: `tuned` is in the scale.
Stacks as_tuned(Stacks stacks);
Json to_json(const Stacks& stacks);

}  // namespace trainwright
