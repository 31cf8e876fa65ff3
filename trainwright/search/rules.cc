#include "trainwright/search/rules.h"

#include <algorithm>
#include <array>

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

bool is_late(const Rule& rule) {
  const std::vector<Variable> variables = variables_in(rule);
  return std::any_of(kLate.begin(), kLate.end(), [&](const LateSwitch& of) {
    return std::find(variables.begin(), variables.end(), of.variable) != variables.end();
  });
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
  return found;
}

Rules::Rules(const SearchQuestion& question) : question_(question) {
  Layout layout = usual_layout(question.trainer);
  layout.gbs = question.gbs;
  layout.seq = question.seq;
  layout.precision = question.precision;
  const Facts all = facts(layout, question.job, question.model, question.cluster, question.trainer);
  Facts settled;
  for (const Variable of : kOfQuestion) {
    if (const auto value = all.value(of)) settled.set(of, *value);
  }
  for (const Rule& rule : question.trainer.rules) {
    if (rule.severity != Severity::Forbidden) continue;
    const Verdict verdict = evaluate(rule, settled);
    if (verdict == Verdict::Holds || verdict == Verdict::NotApplicable) continue;
    rules_.push_back(&rule);
    if (is_late(rule)) late_.push_back(&rule);
  }
}

Facts Rules::known(const Layout& layout, const Flags<Decided>& decided) const {
  Facts known = facts(layout, question_.job, question_.model, question_.cluster, question_.trainer);
  if (!decided.has(Decided::Recompute)) forget(known, kOfRecompute);
  if (!decided.has(Decided::Sharing)) forget(known, kOfSharing);
  if (!decided.has(Decided::Pipeline)) forget(known, kOfPipeline);
  return known;
}

bool Rules::refuse(const Layout& layout, const Flags<Decided>& decided) const {
  Facts of = known(layout, decided);
  for (const LateSwitch& late : kLate) of.known.reset(static_cast<std::size_t>(late.variable));
  return std::any_of(rules_.begin(), rules_.end(),
                     [&](const Rule* rule) { return evaluate(*rule, of) == Verdict::Violated; });
}

}  // namespace trainwright::detail
