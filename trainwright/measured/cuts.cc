#include "trainwright/measured/cuts.h"

#include <algorithm>
#include <cmath>

namespace trainwright::detail {
namespace {

// Pipeline ranks for which an explicit list of layers is made.
constexpr std::int64_t kMostListedStages = 4096;

std::int64_t layers_of(const Model& model) { return std::ssize(model.layers); }

// How nanotron cuts a model (src/nanotron/models/base.py build_model): its blocks are embedding,
// layers, final norm, head, cast and loss; a layer costs 4 h^2 + 3 h f, the head V h, the others
// nothing; a rank takes blocks until the running cost reaches its share of the total. (The released
// file has "exceeds". The sweep's own table gives a first rank of the 1B model 940M parameters at
// pp 2 and 604M at pp 4: 10 and 5 layers, of which the costs are equal to the share.)
StageCut nanotron_cut(const MeasuredRun& run, const Model& model, std::int64_t pp) {
  const auto h = static_cast<double>(model.hidden);
  const double layer = 4 * h * h + 3 * h * static_cast<double>(run.ffn_hidden.value_or(0));
  const double head = h * static_cast<double>(model.vocabulary);
  const double total = layer * static_cast<double>(layers_of(model)) + head;
  StageCut cut;
  cut.layers.assign(static_cast<std::size_t>(pp), 0);
  std::int64_t rank = 0;
  double cost = 0;
  const auto place = [&](double block) {
    const std::int64_t at = rank;
    cost += block;
    if (cost >= total * (static_cast<double>(rank + 1) / static_cast<double>(pp))) {
      rank = std::min(rank + 1, pp - 1);
    }
    cut.last = at;
    return at;
  };
  place(0);  // the embedding
  for (std::int64_t i = 0; i < layers_of(model); ++i) {
    ++cut.layers[static_cast<std::size_t>(place(layer))];
  }
  place(0);  // the final norm
  cut.head = place(head);
  place(0);  // the cast to fp32
  place(0);  // the loss
  return cut;
}

// How many layers the head is worth in FLOPs: 2 h V over 24 h^2 + 4 s h per token. The artifact of
// the paper prints the same figure (6.25 for h 3072, V 256,000, s 2048).
double head_in_layers(const Model& model, std::int64_t sequence) {
  const auto h = static_cast<double>(model.hidden);
  return 2 * static_cast<double>(model.vocabulary) / (24 * h + 4 * static_cast<double>(sequence));
}

// Layers moved away from the last stage, to the later ones of the others. Reproduces the FLOPs of
// the stages in artifact/exp_one_host.csv (8 ranks, 32k to 256k).
StageCut redistributed(const Model& model, const Layout& layout) {
  const std::int64_t layers = layers_of(model);
  const double head = head_in_layers(model, layout.seq);
  const double mean = (static_cast<double>(layers) + head) / static_cast<double>(layout.pp);
  const double wanted = std::clamp(std::ceil(mean - head), 0.0, static_cast<double>(layers));
  const auto last = static_cast<std::int64_t>(wanted);
  const std::int64_t others = layout.pp - 1;
  StageCut cut{.layers = {}, .head = others, .last = others, .broken = {}};
  for (std::int64_t i = 0; i < others; ++i) {
    const std::int64_t rest = layers - last;
    cut.layers.push_back(rest / others + (i >= others - rest % others ? 1 : 0));
  }
  cut.layers.push_back(last);
  return cut;
}

// Embedding and head are items of the first and the last stage beside their layers.
StageCut of_items(const MeasuredRun& run, const Model& model, std::int64_t pp) {
  const std::int64_t layers = layers_of(model);
  StageCut cut{.layers = run.stage_items, .head = pp - 1, .last = pp - 1, .broken = {}};
  std::int64_t sum = 0;
  if (!cut.layers.empty()) {
    --cut.layers.front();
    --cut.layers.back();
  }
  for (const std::int64_t count : cut.layers) {
    if (count < 0 || count > layers) sum = layers + 1;
    sum += count;
  }
  if (sum != layers) {
    return {.layers = {},
            .head = pp - 1,
            .last = pp - 1,
            .broken = "the printed layers of the stages are not those of the model"};
  }
  if (pp == 1) cut.layers.clear();
  return cut;
}

}  // namespace

StageCut cut_by(const std::string& name, const MeasuredRun& run, const Model& model,
                const Layout& layout) {
  if (name == "items") return of_items(run, model, layout.pp);
  StageCut even{.layers = {}, .head = layout.pp - 1, .last = layout.pp - 1, .broken = {}};
  if (layout.pp == 1 || layout.pp > kMostListedStages) return even;
  if (name == "nanotron") return nanotron_cut(run, model, layout.pp);
  if (name == "redistributed") return redistributed(model, layout);
  return even;
}

std::vector<std::string> cut_names() { return {"nanotron", "redistributed", "items"}; }

}  // namespace trainwright::detail
