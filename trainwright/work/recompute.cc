// What is run again in the backward pass, as marks on a layer's operators.
#include <algorithm>

#include "trainwright/work/builder.h"

namespace trainwright::detail {
namespace {

// Modules that Megatron-Core checkpoints: their inputs stay, and their outputs if somebody needs
// them. Of the others the output itself is dropped and made again before it is needed
// (megatron-core 0.12 tensor_parallel/random.py CheckpointWithoutOutput).
bool keeps_output(RecomputeModule module) {
  switch (module) {
    case RecomputeModule::CoreAttention:
    case RecomputeModule::Mlp:
    case RecomputeModule::Moe:
    case RecomputeModule::SharedExperts: return true;
    case RecomputeModule::Norm:
    case RecomputeModule::MlaUpProjection:
    case RecomputeModule::MoeActivation: return false;
  }
  return true;
}

constexpr std::array kModules = {RecomputeModule::Moe,           RecomputeModule::Mlp,
                                 RecomputeModule::CoreAttention, RecomputeModule::SharedExperts,
                                 RecomputeModule::MoeActivation, RecomputeModule::MlaUpProjection,
                                 RecomputeModule::Norm};

// The widest of the wanted modules that an operator is in.
std::optional<RecomputeModule> module_among(Flags<RecomputeModule> in,
                                            Flags<RecomputeModule> wanted) {
  for (const RecomputeModule module : kModules) {
    if (in.has(module) && wanted.has(module)) return module;
  }
  return std::nullopt;
}

// Neighbours in one module are one segment.
void mark_modules(Builder& b, Flags<RecomputeModule> wanted) {
  std::uint8_t segment = 0;
  std::optional<RecomputeModule> before;
  for (std::size_t i = 0; i < b.list.operators.size(); ++i) {
    const auto module = module_among(b.module_of[i], wanted);
    if (module) {
      if (module != before) ++segment;
      b.list.operators[i].again = keeps_output(*module) ? Again::Rerun : Again::Discarded;
      b.list.operators[i].segment = segment;
    }
    before = module;
  }
}

void mark_all(Builder& b) {
  for (Operator& op : b.list.operators) {
    op.again = Again::Rerun;
    op.segment = 1;
  }
}

bool moves_results(const Operator& op) {
  for (const Collective& call : op.collectives) {
    if (call.pass != Pass::Forward) continue;
    if (call.kind == CollectiveKind::ReduceScatter || call.kind == CollectiveKind::AllToAll) {
      return true;
    }
  }
  return false;
}

// torchtitan 0.2 distributed/activation_checkpoint.py: a layer is one segment, of which the outputs
// of attention, of reduce-scatters and all-to-alls and of every second matrix product are stored.
// Products are aten.mm: not the grouped ones of experts, and the router's is left out by name
// (per_op_sac_force_recompute_mm_shapes_by_fqns, 0.3 force_recompute_mm_shapes_by_fqns; the list of
// 0.3 is that of torch's partitioner, which has no grouped product either).
void mark_ops(Builder& b) {
  mark_all(b);
  int products = 0;
  for (Operator& op : b.list.operators) {
    const bool product = op.kind == OperatorKind::Matmul && op.part != Part::RoutedExperts &&
                         op.part != Part::Router;
    products += product ? 1 : 0;
    // Only a core that is one kernel: products of an eager one are batched, which the list lacks.
    const bool stored =
        op.name == "attention_core" || moves_results(op) || (product && products % 2 == 1);
    if (stored) op.again = Again::Stored;
  }
}

// The input kept in parts: the parts are what is stored.
void mark_parts(Builder& b) {
  for (Operator& op : b.list.operators) {
    if (op.name == "keep_part") op.again = Again::Stored;
  }
}

bool writes_needed(const Builder& b, const Operator& op) {
  for (const Operator& other : b.list.operators) {
    if (other.segment != op.segment) continue;
    for (const Save& save : other.saves) {
      for (const TensorId made : op.outputs) {
        if (save.tensor == made) return true;
      }
    }
  }
  return false;
}

// PyTorch's checkpoint stops as soon as the last tensor that is needed has been made again.
void cut_tails(Builder& b) {
  std::uint8_t ended = 0;
  for (std::size_t i = b.list.operators.size(); i-- > 0;) {
    Operator& op = b.list.operators[i];
    if (op.segment == 0 || op.segment == ended) continue;
    // A compiler stores only what somebody needs; an eager policy whatever it names.
    const bool stored = op.again == Again::Stored && b.slice.compiled;
    if ((op.again == Again::Rerun || stored) && !writes_needed(b, op)) {
      op.again = Again::Tail;
    } else if (op.again != Again::Stored) {
      ended = op.segment;
    }
  }
}

}  // namespace

void mark_recompute(Builder& b) {
  const auto& tensors = b.list.tensors;
  const bool runs_back = std::any_of(tensors.begin(), tensors.end(),
                                     [](const Tensor& tensor) { return tensor.has_gradient; });
  if (!runs_back) return;
  const Recompute& recompute = b.slice.recompute;
  switch (recompute.kind) {
    case RecomputeKind::None:
    case RecomputeKind::EveryNth:
    case RecomputeKind::Block: return;  // settled by the stage: this layer is not one of them
    case RecomputeKind::Selective:
    case RecomputeKind::FeedForwardOnly:
    case RecomputeKind::Modules: mark_modules(b, modules_of(recompute)); break;
    case RecomputeKind::OpSelective: mark_ops(b); break;
    case RecomputeKind::Full:
      mark_all(b);
      mark_parts(b);
      break;
  }
  if (b.recipe.code.stops_early) cut_tails(b);
}

}  // namespace trainwright::detail
