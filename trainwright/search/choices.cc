// Ways to recompute and to share weights that a trainer offers and a question allows.
#include <algorithm>
#include <variant>

#include "trainwright/search/manners.h"
#include "trainwright/search/space.h"

namespace trainwright::detail {

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> low, high;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    low.push_back(d);
    if (d != n / d) high.push_back(n / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

namespace {

bool has_limit(const Limits& limits, std::string_view key) {
  return std::any_of(limits.begin(), limits.end(),
                     [&](const Limit& limit) { return limit.key == key; });
}

// What is cheap to run again, alone and with the core of attention; then the experts. Other models
// have little between selective and full.
void add_modules(const SearchQuestion& question, std::vector<Recompute>& found) {
  using Module = RecomputeModule;
  const bool experts = has_experts(question.model);
  const bool latent = std::any_of(question.model.kinds.begin(), question.model.kinds.end(),
                                  [](const LayerKind& kind) {
                                    return std::holds_alternative<LatentAttention>(kind.attention);
                                  });
  if (!experts && !latent) return;
  Flags<Module> cheap{Module::Norm};
  if (experts) cheap.insert(Module::MoeActivation);
  if (latent) cheap.insert(Module::MlaUpProjection);
  Flags<Module> core = cheap;
  core.insert(Module::CoreAttention);
  for (const Flags<Module>& modules :
       {cheap, core, Flags<Module>{experts ? Module::Moe : Module::Mlp}}) {
    found.push_back({RecomputeKind::Modules, modules, 1});
  }
}

}  // namespace

std::vector<Recompute> recomputes_of(const SearchQuestion& question) {
  std::vector<Recompute> found;
  const auto offered = [&](RecomputeKind kind) {
    return (kind == RecomputeKind::None ||
            find_kind(question.trainer.recomputes, kind) != nullptr) &&
           allows(question.limits, "recompute", name_of(kind));
  };
  for (const RecomputeKind kind :
       {RecomputeKind::None, RecomputeKind::Selective, RecomputeKind::OpSelective}) {
    if (offered(kind)) found.push_back({kind, {}, 1});
  }
  const std::int64_t layers = std::ssize(question.model.layers);
  for (std::int64_t n = 1; n < layers && offered(RecomputeKind::Block); n *= 2) {
    found.push_back({RecomputeKind::Block, {}, n});
  }
  if (offered(RecomputeKind::Modules)) add_modules(question, found);
  // These are looked at where they are asked for.
  const bool fixed = !allows(question.limits, "recompute", std::string_view());
  if (fixed && offered(RecomputeKind::FeedForwardOnly)) {
    found.push_back({RecomputeKind::FeedForwardOnly, {}, 1});
  }
  for (std::int64_t n = 2; n < layers && fixed && offered(RecomputeKind::EveryNth); n *= 2) {
    found.push_back({RecomputeKind::EveryNth, {}, n});
  }
  if (offered(RecomputeKind::Full)) found.push_back({RecomputeKind::Full, {}, 1});
  if (question.from &&
      std::find(found.begin(), found.end(), question.from->recompute) == found.end())
    found.push_back(question.from->recompute);
  return found;
}

std::vector<Flags<Offload>> offloads_of(const SearchQuestion& question) {
  const bool today = question.from && !question.from->offload.empty();
  if (!question.offload && !today && !has_limit(question.limits, "offload")) return {{}};
  std::vector<Flags<Offload>> found;
  if (allows(question.limits, "offload", "none")) found.push_back({});
  Flags<Offload> away;
  for (const Offload one : {Offload::Optimizer, Offload::Parameters}) {
    if (find_kind(question.trainer.offloads, one) == nullptr) break;
    away.insert(one);
    // Where one switch moves both there is no half of it.
    Layout layout;
    layout.offload = away;
    const std::string_view name = one == Offload::Optimizer ? "optimizer" : "optimizer+parameters";
    if (offloaded(layout, question.trainer) == away && allows(question.limits, "offload", name)) {
      found.push_back(away);
    }
  }
  return found;
}

bool gathers_in_8_bits(const SearchQuestion& question) {
  const auto& settings = question.trainer.settings;
  const bool offered = std::any_of(settings.begin(), settings.end(), [](const auto& setting) {
    return setting.first == "fp8_parameter_gather" && !setting.second.empty();
  });
  return question.also.has(Also::Fp8ParameterGather) && offered &&
         compute_type(question.precision) == ComputeType::Fp8 &&
         !fixed_switches(question.limits).has(Switch::Fp8ParameterGather);
}

namespace {

// Whether a rule forbids it, whatever the rest is.
bool forbids_8_bits(const SearchQuestion& question, const Sharing& of) {
  Facts known;
  known.set(Variable::Fp8ParameterGather, 1);
  known.set(Variable::Sharding, name_of(of.kind));
  known.set(Variable::Zero, of.zero);
  known.set(Variable::OffloadOptimizer, of.offload.has(Offload::Optimizer) ? 1 : 0);
  known.set(Variable::Precision, name_of(question.precision));
  known.set(Variable::Optimizer, name_of(question.job.optimizer));
  return forbids(question.trainer, known);
}

}  // namespace

std::vector<Sharing> sharings_of(const SearchQuestion& question, std::int64_t dp, bool context) {
  std::vector<Sharing> found;
  const std::vector<Flags<Offload>> offloads = offloads_of(question);
  const std::vector<ShardingKind> left = shardings_left_out(question);
  const bool in_8_bits = gathers_in_8_bits(question);
  for (const Sharing& of : {Sharing{ShardingKind::Ddp, 0, 1},
                            {ShardingKind::Zero, 1, 1},
                            {ShardingKind::Zero, 2, 1},
                            {ShardingKind::Zero, 3, 1},
                            {ShardingKind::Fsdp, 3, 1},
                            {ShardingKind::Hsdp, 3, 1},
                            {ShardingKind::MegatronFsdp, 3, 1}}) {
    const bool skipped = std::find(left.begin(), left.end(), of.kind) != left.end();
    if (skipped || find_kind(question.trainer.shardings, of.kind) == nullptr ||
        !allows(question.limits, "sharding", name_of(of.kind)) ||
        !allows(question.limits, "zero", of.zero)) {
      continue;
    }
    // With one copy of the weights there is nothing to share, but to put them away.
    const bool alone = dp == 1 && !context && of.kind != ShardingKind::Ddp;
    for (const std::int64_t replicas : divisors(dp)) {
      const bool several = replicas > 1 && replicas < dp;
      if ((of.kind == ShardingKind::Hsdp) != several || (!several && replicas > 1)) continue;
      for (const Flags<Offload>& away : offloads) {
        if (alone && away.empty()) continue;
        Sharing one{of.kind, of.zero, replicas, away, {}};
        found.push_back(one);
        one.on = {Switch::Fp8ParameterGather};
        if (in_8_bits && of.zero > 0 && !forbids_8_bits(question, one)) found.push_back(one);
      }
    }
  }
  return found;
}

}  // namespace trainwright::detail
