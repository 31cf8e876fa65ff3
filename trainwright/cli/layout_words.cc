// A layout and its memory in plain English.
#include <fmt/core.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/cli/plan_details.h"
#include "trainwright/layout/keys.h"

namespace trainwright::cli {
namespace {

std::string sharing_text(const Layout& layout) {
  const std::int64_t copies = layout.dp * layout.cp / layout.dp_replicate;
  switch (layout.zero) {
    case 1: return fmt::format("optimizer states are shared out over {} accelerators", copies);
    case 2:
      return fmt::format("gradients and optimizer states are shared out over {} accelerators",
                         copies);
    case 3:
      return fmt::format(
          "weights, gradients and optimizer states are shared out over {} accelerators; weights "
          "are fetched when a layer needs them",
          copies);
    default: return "every copy keeps all weights, gradients and optimizer states";
  }
}

std::string recompute_text(const Layout& layout) {
  switch (layout.recompute.kind) {
    case RecomputeKind::None:
      return "the backward pass finds everything stored; nothing is computed twice";
    case RecomputeKind::Full:
      return "only the input of each layer is stored; layers are computed again in the backward "
             "pass";
    case RecomputeKind::Block:
      return fmt::format("the first {} of each stage {} computed again in the backward pass",
                         counted(layout.recompute.n, "layer", "layers"),
                         layout.recompute.n == 1 ? "is" : "are");
    default: return "some cheap parts of each layer are computed again in the backward pass";
  }
}

std::string offload_text(const Layout& layout) {
  std::vector<std::string> parts;
  for (const Offload part : {Offload::Optimizer, Offload::Activations, Offload::Parameters}) {
    if (layout.offload.has(part)) {
      parts.emplace_back(part == Offload::Optimizer     ? "optimizer states"
                         : part == Offload::Activations ? "activations"
                                                        : "weights");
    }
  }
  return fmt::format("{} lie in the memory of the host", enumerate(parts));
}

std::string_view switch_text(Switch what) {
  switch (what) {
    case Switch::OverlapTp: return "tensor-parallel transfers run beside the products they feed";
    case Switch::OverlapGradientReduce: return "gradients travel beside the backward pass";
    case Switch::OverlapParameterGather: return "weights are gathered beside the forward pass";
    case Switch::OverlapGatherWithStep: return "weights are gathered beside the optimizer's step";
    case Switch::OverlapP2p: return "transfers between pipeline ranks run beside passes";
    case Switch::OverlapEp: return "tokens travel to their experts beside other work";
    case Switch::OverlapSharedExperts: return "shared experts run while tokens travel";
    case Switch::DelayWeightGradient: return "gradients of weights are computed later";
    case Switch::GroupedGemm: return "one product for all experts of a rank";
    case Switch::Compile: return "torch.compile fuses operators";
    case Switch::DistributeSaved: return "inputs of recomputed layers are split over tp";
    case Switch::Fp8ParameterGather: return "weights are gathered in 8 bits";
    case Switch::Graphs: return "CUDA graphs launch whole layers or steps";
    case Switch::PartGraphs: return "CUDA graphs launch parts of layers whose shapes never change";
  }
  return {};
}

// What is not said of the layout yet: a line for each switch, for other entries of its text the
// meaning of their key.
void add_finer(std::vector<LayoutWord>& words, const Layout& layout) {
  constexpr std::string_view kSaid[] = {"tp",       "sp",  "pp",       "vpp",      "cp",
                                        "ep",       "dp",  "dp_shard", "zero",     "sharding",
                                        "schedule", "mbs", "gbs",      "seq",      "recompute",
                                        "offload",  "on",  "off",      "precision"};
  const std::string text = to_text(layout);
  for (const std::string_view entry : split(text, ',')) {
    const std::string_view key = entry.substr(0, entry.find('='));
    if (std::find(std::begin(kSaid), std::end(kSaid), key) != std::end(kSaid)) continue;
    const auto known = std::find_if(layout_keys().begin(), layout_keys().end(),
                                    [&](const EntryKey& one) { return one.name == key; });
    if (known != layout_keys().end()) {
      words.push_back({std::string(entry), std::string(known->meaning)});
    }
  }
  for (std::size_t i = 0; i < all_names(Switch{}).size(); ++i) {
    const auto what = static_cast<Switch>(i);
    const std::string_view name = all_names(Switch{})[i];
    if (layout.on.has(what)) {
      words.push_back({fmt::format("on={}", name), std::string(switch_text(what))});
    }
    if (layout.off.has(what)) {
      words.push_back({fmt::format("off={}", name), fmt::format("not: {}", switch_text(what))});
    }
  }
}

std::string per_parameter(double bytes) { return significant(bytes, 3) + " B"; }

std::string divided(std::int64_t ways) { return ways > 1 ? fmt::format(" / {}", ways) : ""; }

// Of weights, gradients and states, whose bytes go with parameters.
std::string state_formula(Category category, const Wanted& wanted, const Layout& layout) {
  const auto bytes = trained_bytes(wanted.job, layout, wanted.cluster, wanted.trainer);
  if (!bytes) return {};
  const bool adapters = wanted.job.lora.has_value();
  const ParameterBytes& of = adapters ? bytes->adapter : bytes->model;
  const std::string whose = adapters ? "parameters of adapters here" : "parameters here";
  const Sharding sharding = sharding_of(layout, wanted.trainer);
  const auto cut = [&](bool parts) { return parts ? divided(sharding.dense.ways) : ""; };
  switch (category) {
    case Category::Weights:
      return adapters ? "frozen weights as they are stored, and adapters"
                      : fmt::format("{} x {}{}", whose, per_parameter(of.weight + of.weight_copies),
                                    cut(sharding.weights));
    case Category::MainWeights:
      return fmt::format("{} x {}{}", whose, per_parameter(of.master), cut(sharding.states));
    case Category::Gradients:
      return fmt::format("{} x {}{}", whose, per_parameter(of.gradient), cut(sharding.gradients));
    default: {
      const SteppedWeight matrix{.in = 4096, .out = 4096, .matrix = true, .hidden = true};
      const double bytes_each = state_bytes(of.states, matrix) / numbers_of(matrix);
      return fmt::format("{} x {}{} (states of {})", whose, per_parameter(bytes_each),
                         cut(sharding.states), name_of(wanted.job.optimizer));
    }
  }
}

}  // namespace

std::string headline(const Layout& layout) {
  const std::int64_t each = layout.tp * layout.pp * layout.cp;
  std::string text =
      layout.dp == 1
          ? fmt::format("One copy of the model on {}", counted(each, "accelerator", "accelerators"))
          : fmt::format("{} copies of the model, each on {}", with_thousands(layout.dp),
                        counted(each, "accelerator", "accelerators"));
  std::vector<std::string> ways;
  if (layout.tp > 1) ways.push_back(fmt::format("every matrix split over {}", layout.tp));
  if (layout.pp > 1) ways.push_back(fmt::format("layers dealt to {} pipeline ranks", layout.pp));
  if (layout.cp > 1) ways.push_back(fmt::format("sequences split in {}", layout.cp));
  if (!ways.empty()) text += ": " + enumerate(ways);
  if (layout.ep > 1) text += fmt::format("; experts are spread over {} accelerators", layout.ep);
  if (layout.zero > 0 && layout.dp * layout.cp > 1) text += "; " + sharing_text(layout);
  if (!layout.offload.empty()) text += "; " + offload_text(layout);
  return text + ".";
}

std::vector<LayoutWord> plain_words(const Layout& layout) {
  std::vector<LayoutWord> words;
  const auto add = [&](std::string entry, std::string says) {
    words.push_back({std::move(entry), std::move(says)});
  };
  const auto say = [&](const char* key, std::int64_t value, const std::string& says) {
    if (value > 1) add(fmt::format("{}={}", key, value), says);
  };
  say("tp", layout.tp, fmt::format("every matrix is split over {} accelerators", layout.tp));
  if (layout.sp) add("sp", "what lies between the matrices is split over the same accelerators");
  say("pp", layout.pp, fmt::format("layers are dealt to {} pipeline ranks in a row", layout.pp));
  say("vpp", layout.vpp,
      fmt::format("each of them has {} pieces of the layers, so that it waits less", layout.vpp));
  if (layout.pp > 1) {
    add(fmt::format("schedule={}", name_of(layout.schedule)),
        std::string(facts_of(layout.schedule).what));
  }
  say("cp", layout.cp, fmt::format("each sequence is split over {} accelerators", layout.cp));
  say("ep", layout.ep, fmt::format("experts are spread over {} accelerators", layout.ep));
  say("dp", layout.dp, fmt::format("{} copies work on different data", with_thousands(layout.dp)));
  if (layout.dp * layout.cp > 1) {
    const std::string kind = layout.zero > 0 && layout.sharding != ShardingKind::Zero
                                 ? std::string(name_of(layout.sharding))
                                 : fmt::format("zero={}", layout.zero);
    add(kind, sharing_text(layout));
  }
  add(fmt::format("mbs={}", layout.mbs),
      fmt::format("{} of {} each, for every copy and step",
                  counted(micro_batch_count(layout), "micro-batch", "micro-batches"),
                  counted(layout.mbs, "sequence", "sequences")));
  add("recompute=" + to_text(layout.recompute), recompute_text(layout));
  if (!layout.offload.empty())
    add("offload=" + value_of(Knob::Offload, layout), offload_text(layout));
  add_finer(words, layout);
  return words;
}

std::string formula_of(Category category, const Wanted& wanted, const PlannedLayout& plan) {
  switch (category) {
    case Category::Weights:
    case Category::MainWeights:
    case Category::Gradients:
    case Category::OptimizerStates: return state_formula(category, wanted, plan.layout);
    case Category::Activations:
      return "what a layer keeps for its backward pass x layers x micro-batches in flight";
    case Category::Transients: return "of the operators that run at the peak";
    case Category::Logits: return "of the head and the loss: tokens x vocabulary";
    case Category::GatherBuffers: return "weights gathered for the layers at work";
    case Category::ReduceBuffers: return "gradients on their way to other accelerators";
    case Category::PointToPoint: return "tensors between pipeline ranks";
    case Category::StepBuffers: return "of the optimizer's step";
    case Category::Workspace: return "of libraries: GEMMs, attention";
    case Category::AllocatorSlack:
      return "reserved by the allocator and not used, from a replay of the step";
    case Category::Communicators: return "buffers of the groups that exchange data";
    case Category::Context: return "driver, kernels and libraries";
  }
  return {};
}

}  // namespace trainwright::cli
