#pragma once
// Public: how unevenly a router deals tokens to experts, and what that makes of the busiest rank.
//
// Of E experts each token goes to k; a row is a token at one of its experts. Expert e receives the
// share p_e of all rows, and no more than 1/k, since a token goes to it once. A rank of ep holds
// E / ep experts; its load is ep times the sum of their shares, 1 on average.
//
//   in a layer    Everybody waits for the busiest rank before tokens come back, in every layer
//                 anew. So what experts do, and sending rows to and fro, takes the mean over layers
//                 of the highest load of any rank.
//   over layers   Kept activations add up over the layers of a stage. The fullest rank has the
//                 highest mean of its own loads, which is less if other ranks are busy in other
//                 layers.
//
// balanced        p_e = 1/E: both are 1. What vendors force when they measure.
// zipf:a          p_e ~ e^-a by popularity (a = 0: at random). Where popular experts sit is chance,
//                 another one in each layer: n = E / ep of them are drawn without replacement, so a
//                 load has the variance ep^2 n s^2 (E - n) / (E - 1), s^2 that of p, and counting
//                 rows adds 1 / rows. In a layer: the mean of the highest of ep such loads over 64
//                 draws with a fixed seed. Over L layers: 1 + c(ep) sqrt(variance / L), with c(n)
//                 the expected highest of n standard normal numbers (c(64) = 2.38).
// a file          counted tokens: one line of E numbers for every layer with experts, or one line
//                 for all of them; # begins a comment. Ranks hold experts in their order, as
//                 Megatron-Core and torchtitan deal them.
//
// With capacity factors trainers drop rows above a limit; nothing is dropped here.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/base/result.h"
#include "trainwright/model/model.h"
#include "trainwright/work/slice.h"

namespace trainwright {

struct ExpertLoad {
  enum class Kind : std::uint8_t { Balanced, Zipf, Counted };
  Kind kind = Kind::Balanced;
  double exponent = 0;                      // a
  std::vector<std::vector<double>> counts;  // by layer, by expert
  std::string name = "balanced";            // as asked
  friend bool operator==(const ExpertLoad&, const ExpertLoad&) = default;
};
// "balanced" or "zipf:0.5"; nullopt for what may be the name of a file.
Result<std::optional<ExpertLoad>> parse_expert_load(std::string_view word);
Result<ExpertLoad> read_expert_load(std::string_view text, std::string_view origin);
// Diagnoses a count of experts or layers that is not the model's, and a model without experts.
Diagnostics contradictions(const ExpertLoad& load, const Model& model);

// What decides it.
struct ExpertRanks {
  std::int64_t experts = 1, per_token = 1, ep = 1;
  double rows = 1;          // that a rank receives of a micro-batch, on average
  std::int64_t layers = 1;  // with experts, of a stage
};
// Of the model's first kind of layer with experts; nothing without one.
std::optional<ExpertRanks> expert_ranks(const Model& model, const Slice& slice, std::int64_t pp);

struct RankLoad {
  double in_a_layer = 1, over_layers = 1;
  friend bool operator==(const RankLoad&, const RankLoad&) = default;
};
// O(64 E), or O(layers E) for counts.
RankLoad busiest_rank(const ExpertLoad& load, const ExpertRanks& ranks);
RankLoad busiest_rank(const ExpertLoad& load, const Model& model, const Slice& slice,
                      std::int64_t pp);

}  // namespace trainwright
