// A second opinion on contention: collectives of layouts as flows in SimGrid, beside our closed
// forms.
//
//   network_replay DATA_DIR [MOST_RANKS [LEAST_RANKS]]
//
// Every collective of a layout is made by all its groups at once, in every way that a library has;
// the fastest one counts, as in cost.h. Rates are nominal on both sides: what is compared is who
// shares what with whom. Exit code 1 where a closed form is off by more than 15 % for no reason
// that docs/time.md gives.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <set>

#include "platform.h"
#include "trainwright/question/question.h"

namespace trainwright::network {
namespace {

constexpr double kBar = 0.15;

struct Asked {
  const char* model;
  int ranks;
  const char* layout;
};
// Each degree within a node, across nodes and across leaves.
constexpr Asked kLayouts[] = {
    {"llama-3.1-70b", 64, "tp=8,sp,zero=1"},
    {"llama-3.1-70b", 64, "tp=8"},
    {"llama-3.1-70b", 64, "tp=4,pp=2,sp,zero=1"},
    {"llama-3.1-70b", 64, "tp=2,cp=4,sp,zero=1"},
    {"llama-3.1-70b", 64, "tp=8,pp=8,sp"},
    {"mixtral-8x7b", 64, "ep=8,zero=1"},
    {"llama-3.1-70b", 128, "tp=8,pp=4,sp,zero=1"},
    {"llama-3.1-70b", 128, "tp=4,cp=2,pp=2,sp,zero=1"},
    {"deepseek-v3", 128, "ep=32,pp=4,zero=1"},
    {"llama-3.1-70b", 256, "tp=8,pp=8,sp,zero=1"},
    {"llama-3.1-70b", 256, "tp=2,pp=16"},
    {"llama-3.1-70b", 256, "tp=4,cp=4,pp=4,sp,zero=1"},
    {"llama-3.1-70b", 256, "tp=16,pp=2,sp,zero=1"},
    {"deepseek-v3", 256, "tp=2,ep=32,pp=8,sp,zero=1"},
    {"llama-3.1-70b", 512, "tp=8,cp=2,pp=4,sp,zero=1"},
    {"llama-3.1-405b", 512, "tp=8,pp=16,sp,zero=1"},
    {"deepseek-v3", 512, "ep=64,pp=8,zero=1"},
    {"llama-3.1-405b", 1024, "tp=8,pp=16,sp,zero=1"},
    {"llama-3.1-405b", 1024, "tp=8,cp=4,pp=8,sp,zero=1"},
    {"deepseek-v3", 1024, "ep=64,pp=16,zero=1"},
};

// Differences that are known and told in docs/time.md, "Contention".
struct Explained {
  const char *scene, *call, *why;
};
constexpr Explained kExplained[] = {
    {"rail: llama-3.1-70b on 256, tp=16", "of tp",
     "rounds of the replay wait for their slowest hop, messages of a ring do not"},
    {"tp=2,pp=16", "all-reduce of dp-cp", "a pair of trees over two nodes sends each byte once"},
};

// A quarter of all ranks below a leaf; the spine of the fat tree is oversubscribed 2 : 1.
Group group_of(const Accelerator& accelerator, std::int64_t ranks, Fabric fabric) {
  const bool rail = fabric == Fabric::Rail;
  Group group;
  group.accelerator = accelerator;
  group.count = ranks;
  group.per_node = group.per_domain = 8;
  group.rails = rail ? 8 : 1;
  const BytesPerSecond nic(rail ? 50e9 : 25e9);
  group.tiers = {{"nvlink", 8, BytesPerSecond(450e9), Seconds(3e-6), 1, 1},
                 {"leaf", ranks / 4, nic, Seconds(14e-6), 1, 1},
                 {"spine", ranks, nic, Seconds(14e-6), 1, rail ? 1.0 : 2.0}};
  return group;
}

// The different calls of a layout: within its lists, of its parameters.
using Calls = std::set<std::tuple<CollectiveKind, GroupKind, std::int64_t>>;
Calls calls_of(const Question& question, const Recipe& recipe) {
  const Layout& layout = question.read.layout;
  Calls calls;
  WorkCache work(question.model, recipe, [&](const Totals&, const OperatorList& list) {
    for (const Operator& op : list.operators) {
      for (const Collective& call : op.collectives) {
        calls.emplace(call.kind, call.group, call.bytes.value());
      }
    }
  });
  const Stage stage = stage_layers(layout, question.model)->front();
  const Totals sums = compose(work.stage(stage, slice_of(layout, question.trainer, 0)));
  const auto bytes = trained_bytes(question.job, layout, question.cluster, question.trainer);
  for (const ParameterTraffic& traffic : parameter_traffic(
           sums.parameters, stage.count, sharding_of(layout, question.trainer), recipe, *bytes)) {
    const std::int64_t each = traffic.bytes.value() / std::max<std::int64_t>(traffic.calls, 1);
    calls.emplace(traffic.kind, traffic.group, each);
  }
  return calls;
}

struct Compared {
  std::string name;
  double closed = 0;
  std::vector<Way> ways;
};
std::vector<Compared> compared(const Question& question) {
  const Layout& layout = question.read.layout;
  const Group& on = question.cluster.groups.front();
  const Recipe recipe = recipe_of(question.trainer, layout.precision, question.job);
  AcceleratorRates rates;  // shares of 1
  rates.links.hop = on.tiers.front().latency;
  std::vector<Compared> all;
  for (const auto& [kind, of, bytes] : calls_of(question, recipe)) {
    const GroupPlacement place = place_group(layout, of, question.cluster);
    if (place.group.size < 2 || bytes == 0) continue;
    const double size = static_cast<double>(bytes);
    all.push_back({fmt::format("{} of {}, {:.1f} MB", name_of(kind),
                               all_names(of)[static_cast<std::size_t>(of)], size / 1e6),
                   collective_time(kind, Bytes(bytes), place, question.cluster, rates).value(),
                   ways_of(kind, size, all_groups(place.group, world_size(layout)), on)});
  }
  if (layout.pp > 1) {
    const GroupPlacement place = place_group(layout, GroupKind::Pp, question.cluster);
    const Bytes bytes = boundary_bytes(question.model, slice_of(layout, question.trainer), recipe);
    const double size = static_cast<double>(bytes.value());
    all.push_back({fmt::format("transfer to the next stage, {:.1f} MB", size / 1e6),
                   transfer_time(bytes, place, question.cluster, rates).value(),
                   {transfer(size, all_groups(place.group, world_size(layout)))}});
  }
  return all;
}

struct Scene {
  std::string name;
  Platform platform;
  std::vector<Compared> calls;
};
Result<Scene> scene_of(const Asked& asked, Fabric fabric, const std::string& data) {
  Words words;
  words.model = asked.model;
  words.on = fmt::format("{}xH100", asked.ranks);
  words.trainer = "megatron@0.12";
  words.layout = fmt::format("{},mbs=1,gbs=2048,seq=8192", asked.layout);
  Question question = TW_TRY(read_question(words, DataDirectory(data)));
  const Group group = group_of(question.cluster.groups.front().accelerator, asked.ranks, fabric);
  question.cluster.groups = {group};
  std::string name = fmt::format("{}: {} on {}, {}", fabric == Fabric::Rail ? "rail" : "fat tree",
                                 asked.model, asked.ranks, asked.layout);
  Scene scene{name, Platform(name, group, fabric), compared(question)};
  for (const Compared& call : scene.calls) {
    for (const Way& way : call.ways) {
      for (const Round& round : way) scene.platform.add_routes(round);
    }
  }
  scene.platform.seal();
  return scene;
}

double fastest(const Compared& call, const Platform& platform) {
  double best = std::numeric_limits<double>::infinity();
  for (const Way& way : call.ways) {
    double time = 0;
    for (const Round& round : way) time += platform.seconds(round);
    best = std::min(best, time);
  }
  return best;
}

const char* explanation_of(const std::string& scene, const std::string& call) {
  for (const Explained& known : kExplained) {
    const bool is_it = scene.find(known.scene) != std::string::npos;
    if (is_it && call.find(known.call) != std::string::npos) return known.why;
  }
  return nullptr;
}

// How many are beyond the bar and not explained.
int play(const std::vector<Scene>& scenes) {
  int beyond = 0, explained = 0, count = 0;
  double sum = 0;
  for (const Scene& scene : scenes) {
    fmt::print("{}\n", scene.name);
    for (const Compared& call : scene.calls) {
      const double best = fastest(call, scene.platform);
      const double off = call.closed / best - 1;
      const char* why = std::abs(off) > kBar ? explanation_of(scene.name, call.name) : "";
      ++count;
      sum += std::abs(off);
      beyond += why == nullptr ? 1 : 0;
      explained += why != nullptr && *why != 0 ? 1 : 0;
      fmt::print("  {:44} {:9.0f} us, SimGrid {:9.0f} us {:+6.1f} %  {}\n", call.name,
                 call.closed * 1e6, best * 1e6, 100 * off, why == nullptr ? "BEYOND" : why);
      std::fflush(stdout);  // large ones take minutes
    }
  }
  fmt::print(
      "{} collectives of {} layouts: mean {:.1f} %; {} off by more than {:.0f} %, {} more for "
      "known reasons\n",
      count, scenes.size(), 100 * sum / count, beyond, 100 * kBar, explained);
  return beyond;
}

int run(int argc, char** argv) {
  simgrid::s4u::Engine engine(&argc, argv);
  configure();
  const int most = argc > 2 ? std::stoi(argv[2]) : 256, least = argc > 3 ? std::stoi(argv[3]) : 0;
  std::vector<Scene> scenes;
  for (const Fabric fabric : {Fabric::Rail, Fabric::FatTree}) {
    for (const Asked& asked : kLayouts) {
      if (asked.ranks > most || asked.ranks < least) continue;
      auto scene = scene_of(asked, fabric, argv[1]);
      if (!scene) {
        fmt::print("{}\n", to_text(scene.error()));
        return 2;
      }
      scenes.push_back(*std::move(scene));
    }
  }
  int beyond = 0;
  simgrid::s4u::Actor::create("driver", scenes.front().platform.host(0),
                              [&] { beyond = play(scenes); });
  engine.run();
  return beyond > 0 ? 1 : 0;
}

}  // namespace
}  // namespace trainwright::network

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print("network_replay DATA_DIR [MOST_RANKS [LEAST_RANKS]]\n");
    return 2;
  }
  return trainwright::network::run(argc, argv);
}
