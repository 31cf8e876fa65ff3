#include "trainwright/search/rules.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace trainwright::detail {
namespace {

constexpr std::array kLate = {
    LateSwitch{Switch::OverlapTp, Variable::OverlapTp, true},
    LateSwitch{Switch::OverlapGradientReduce, Variable::OverlapGradientReduce, false},
    LateSwitch{Switch::OverlapParameterGather, Variable::OverlapParameterGather, false},
    LateSwitch{Switch::OverlapEp, Variable::OverlapEp, true},
    LateSwitch{Switch::OverlapSharedExperts, Variable::OverlapSharedExperts, false},
    LateSwitch{Switch::OverlapP2p, Variable::OverlapP2p, true},
    LateSwitch{Switch::Graphs, Variable::Graphs, true},
    LateSwitch{Switch::PartGraphs, Variable::PartGraphs, true}};

// What hangs on a choice of a branch.
constexpr std::array kOfRecompute = {
    Variable::Recompute,     Variable::RecomputeLayers,        Variable::RecomputeCoreAttention,
    Variable::RecomputeNorm, Variable::RecomputeMlp,           Variable::RecomputeMlaUpProjection,
    Variable::RecomputeMoe,  Variable::RecomputeMoeActivation, Variable::RecomputeSharedExperts};
constexpr std::array kOfSharing = {Variable::Zero,
                                   Variable::Sharding,
                                   Variable::DpShard,
                                   Variable::DpReplicate,
                                   Variable::OffloadOptimizer,
                                   Variable::OffloadActivations,
                                   Variable::OffloadParameters,
                                   Variable::Fp8ParameterGather};
constexpr std::array kOfPipeline = {Variable::Vpp,
                                    Variable::Stages,
                                    Variable::FirstStageLayers,
                                    Variable::LastStageLayers,
                                    Variable::LeastStageLayers,
                                    Variable::CountEmbedding,
                                    Variable::CountLoss,
                                    Variable::MtpStage,
                                    Variable::LayersBehindMtp,
                                    Variable::MicroBatchGroup,
                                    Variable::Split,
                                    Variable::Schedule,
                                    Variable::SplitBackward,
                                    Variable::Placement};
// What layouts of the same degrees have in common.
constexpr std::array kOfDegrees = {Variable::Dp,
                                   Variable::Tp,
                                   Variable::Pp,
                                   Variable::Cp,
                                   Variable::Ep,
                                   Variable::Etp,
                                   Variable::Sp,
                                   Variable::CpKind,
                                   Variable::Ulysses,
                                   Variable::GroupedGemm,
                                   Variable::MaxConnections};
// What no layout of a question changes.
constexpr std::array kOfQuestion = {Variable::World,
                                    Variable::Gbs,
                                    Variable::Seq,
                                    Variable::Layers,
                                    Variable::Hidden,
                                    Variable::Ffn,
                                    Variable::MoeFfn,
                                    Variable::Heads,
                                    Variable::KvHeads,
                                    Variable::HeadDim,
                                    Variable::Vocab,
                                    Variable::Experts,
                                    Variable::TopK,
                                    Variable::SharedExperts,
                                    Variable::MtpLayers,
                                    Variable::OwnHeadDim,
                                    Variable::TiedEmbeddings,
                                    Variable::Mla,
                                    Variable::Windows,
                                    Variable::ExpertBias,
                                    Variable::LinearHeads,
                                    Variable::MambaHeads,
                                    Variable::MambaGroups,
                                    Variable::MambaBeside,
                                    Variable::Precision,
                                    Variable::Optimizer,
                                    Variable::Prepared,
                                    Variable::FrozenBase,
                                    Variable::NodeSize,
                                    Variable::Blackwell,
                                    Variable::Cdna4,
                                    Variable::Capability,
                                    Variable::TransformerEngine,
                                    Variable::Cuda};

void forget(Facts& facts, const auto& variables) {
  for (const Variable of : variables) facts.known.reset(static_cast<std::size_t>(of));
}

bool is_among(Variable of, const auto& variables) {
  return std::find(variables.begin(), variables.end(), of) != variables.end();
}

bool is_late(Variable of) {
  return std::any_of(kLate.begin(), kLate.end(),
                     [&](const LateSwitch& late) { return late.variable == of; });
}

// Rules that what is known settles neither way.
std::vector<const Rule*> open_rules(const std::vector<const Rule*>& rules, const Facts& known) {
  std::vector<const Rule*> open;
  std::copy_if(rules.begin(), rules.end(), std::back_inserter(open), [&](const Rule* rule) {
    const Verdict verdict = evaluate(*rule, known);
    return verdict != Verdict::Holds && verdict != Verdict::NotApplicable;
  });
  return open;
}

bool asks_about(const Rule& rule, auto what) {
  const std::vector<Variable> variables = variables_in(rule);
  return std::any_of(variables.begin(), variables.end(), what);
}

Facts only(const Facts& all, const auto&... lists) {
  Facts some;
  const auto add = [&](const auto& list) {
    for (const Variable of : list) {
      if (const auto value = all.value(of)) some.set(of, *value);
    }
  };
  (add(lists), ...);
  return some;
}

}  // namespace

std::span<const LateSwitch> late_switches() { return kLate; }

std::vector<Variable> variables_in(const Rule& rule) {
  std::vector<Variable> found;
  for (const Expression* of : {&rule.when, &rule.require}) {
    for (const Instruction& step : of->program) {
      if (step.op == Instruction::Op::Load) found.push_back(static_cast<Variable>(step.operand));
    }
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

Rules::Rules(const SearchQuestion& question) : question_(question) {
  Layout layout = usual_layout(question.trainer);
  layout.gbs = question.gbs;
  layout.seq = question.seq;
  layout.precision = question.precision;
  const Facts all = facts(layout, question.job, question.model, question.cluster, question.trainer);
  std::vector<const Rule*> forbidding;
  for (const Rule& rule : question.trainer.rules) {
    if (rule.severity == Severity::Forbidden) forbidding.push_back(&rule);
  }
  rules_ = open_rules(forbidding, only(all, kOfQuestion));
  for (const Rule* rule : rules_) {
    const auto among = [](const auto& list) {
      return [&list](Variable of) { return is_among(of, list); };
    };
    if (asks_about(*rule, among(kOfSharing))) of_sharing_.insert(rule);
    if (asks_about(*rule, among(kOfRecompute))) of_recompute_.insert(rule);
    if (asks_about(*rule, among(kOfPipeline))) of_pipeline_.insert(rule);
    if (asks_about(*rule, is_late)) late_.insert(rule);
  }
}

const Rules::Open& Rules::open(const Layout& layout, std::size_t degrees) {
  if (open_.size() <= degrees) open_.resize(degrees + 1);
  std::optional<Open>& known = open_[degrees];
  if (known) return *known;
  Open& made = known.emplace();
  const Facts settled =
      only(facts(layout, question_.job, question_.model, question_.cluster, question_.trainer),
           kOfQuestion, kOfDegrees);
  for (const Rule* rule : open_rules(rules_, settled)) {
    const bool broken = evaluate(*rule, settled) == Verdict::Violated;
    auto& level = broken                         ? made.broken
                  : of_pipeline_.contains(rule)  ? made.of_pipeline
                  : of_recompute_.contains(rule) ? made.of_recompute
                  : of_sharing_.contains(rule)   ? made.of_sharing
                                                 : made.of_trunk;
    level.push_back(rule);
    if (broken) continue;
    if (!late_.contains(rule)) continue;
    made.late.push_back(rule);
    for (const Variable of : variables_in(*rule)) {
      if (!is_among(of, made.late_mentioned)) made.late_mentioned.push_back(of);
    }
  }
  made.late_by_batch = is_among(Variable::Mbs, made.late_mentioned) ||
                       is_among(Variable::MicroBatches, made.late_mentioned);
  made.late_number = late_numbers_.try_emplace(made.late, std::ssize(late_numbers_)).first->second;
  return made;
}

Facts Rules::known(const Layout& layout, const Flags<Decided>& decided) const {
  Facts known = facts(layout, question_.job, question_.model, question_.cluster, question_.trainer);
  if (!decided.has(Decided::Recompute)) forget(known, kOfRecompute);
  if (!decided.has(Decided::Sharing)) forget(known, kOfSharing);
  if (!decided.has(Decided::Pipeline)) forget(known, kOfPipeline);
  return known;
}

std::vector<const Rule*> Rules::refusing(const Layout& layout, std::size_t degrees,
                                         const Flags<Decided>& decided) {
  const Open& rules = open(layout, degrees);
  std::vector<const Rule*> found = rules.broken;
  const auto& asked = decided.has(Decided::Pipeline)    ? rules.of_pipeline
                      : decided.has(Decided::Recompute) ? rules.of_recompute
                      : decided.has(Decided::Sharing)   ? rules.of_sharing
                                                        : rules.of_trunk;
  if (asked.empty()) return found;
  Facts of = known(layout, decided);
  for (const LateSwitch& late : kLate) of.known.reset(static_cast<std::size_t>(late.variable));
  std::copy_if(asked.begin(), asked.end(), std::back_inserter(found),
               [&](const Rule* rule) { return evaluate(*rule, of) == Verdict::Violated; });
  return found;
}

}  // namespace trainwright::detail
