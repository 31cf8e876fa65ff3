// Seconds of kernels by the functions that ship, at the clocks of short benchmarks.
//
//   kernel_times DATA_DIR KERNELS.json [ACCELERATOR.json...] < calls > seconds
//
// One call per line, one answer per line:
//   product ACCELERATOR STACK TYPE M N K COUNT ROUNDS
//   attention ACCELERATOR STACK FLOPS HEAD_WIDTH KEYS CAUSAL BACKWARD
//   collective ACCELERATOR KIND BYTES RANKS NODES
// A STACK that has no factors of its own is "-".
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>

#include "trainwright/cost/cost.h"

namespace trainwright {
namespace {

struct Timer {
  Hardware hardware;
  Kernels kernels;
  std::map<std::pair<std::string, std::string>, AcceleratorRates> made;

  const Accelerator& accelerator(const std::string& name) const {
    const Accelerator* found = find_accelerator(hardware, name);
    if (found == nullptr) throw std::runtime_error("no accelerator " + name);
    return *found;
  }
  const AcceleratorRates& rates(const std::string& name, const std::string& stack) {
    const auto [at, added] = made.try_emplace({name, stack});
    if (added) {
      at->second = rates_of(kernels, accelerator(name));
      at->second.clocks = Clocks::Burst;
      const auto known = kernels.stacks.find(stack);
      if (known != kernels.stacks.end()) at->second = on_stack(at->second, known->second);
    }
    return at->second;
  }

  Seconds product(std::istream& line) {
    std::string name, stack, type;
    Product product;
    line >> name >> stack >> type >> product.m >> product.n >> product.k >> product.count >>
        product.rounds;
    for (int i = 0; i < 9; ++i) {
      const auto candidate = static_cast<ComputeType>(i);
      if (name_of(candidate) == type) product.type = candidate;
    }
    return product_time(product, rates(name, stack));
  }
  Seconds attention(std::istream& line) {
    std::string name, stack;
    AttentionCall call;
    double flops = 0;
    line >> name >> stack >> flops >> call.head_width >> call.keys >> call.causal >> call.backward;
    call.flops = Flops(flops);
    return attention_time(call, rates(name, stack));
  }
  Seconds collective(std::istream& line) {
    std::string name, kind;
    std::int64_t bytes = 0, ranks = 1, nodes = 1;
    line >> name >> kind >> bytes >> ranks >> nodes;
    const Accelerator& one = accelerator(name);
    const std::int64_t domains = std::max<std::int64_t>(
        1, nodes * one.node.accelerators / std::max<std::int64_t>(one.scale_up.back().domain, 1));
    const std::int64_t per_domain = ranks / std::min(domains, ranks);
    Cluster cluster;
    cluster.groups = {usual_group(one, ranks / per_domain, per_domain)};
    Layout layout;
    layout.dp = ranks;
    const GroupPlacement placement = place_group(layout, GroupKind::Dp, cluster);
    if (kind == "transfer")
      return transfer_time(Bytes(bytes), placement, cluster, rates(name, "-"));
    for (const CollectiveKind candidate : kCollectiveKinds) {
      if (name_of(candidate) != kind) continue;
      return collective_time(candidate, Bytes(bytes), placement, cluster, rates(name, "-"));
    }
    throw std::runtime_error("no kind " + kind);
  }
};

void answer(Timer& timer) {
  for (std::string text; std::getline(std::cin, text);) {
    std::istringstream line(text);
    std::string what;
    line >> what;
    const Seconds time = what == "product"     ? timer.product(line)
                         : what == "attention" ? timer.attention(line)
                                               : timer.collective(line);
    fmt::print("{:.9g}\n", time.value());
  }
}

// `more` are files of accelerators that only benchmarks know.
Result<Timer> ready(const std::string& data, const std::string& kernels,
                    const std::vector<std::string>& more) {
  Timer timer;
  timer.hardware = TW_TRY(load_hardware(data));
  const Json json = TW_TRY(read_json_file(kernels));
  timer.kernels = TW_TRY(read_kernels(json, kernels));
  for (const std::string& path : more) {
    const Json accelerator = TW_TRY(read_json_file(path));
    timer.hardware.accelerators.push_back(TW_TRY(read_accelerator(accelerator, path)));
  }
  return timer;
}

}  // namespace
}  // namespace trainwright

int main(int count, char** words) {
  using namespace trainwright;
  if (count < 3) return 2;
  auto timer = ready(words[1], words[2], {words + 3, words + count});
  if (!timer) {
    fmt::print(stderr, "{}\n", to_text(timer.error()));
    return 2;
  }
  answer(*timer);
}
