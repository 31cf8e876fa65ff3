#include "trainwright/simulate/list_time.h"

#include <algorithm>
#include <cmath>

namespace trainwright::detail {
namespace {

// What an operator takes of the host's time for a product's. An elementwise one has no module
// around it. Routing and permutation are several operators each: Megatron-Core's dispatcher without
// fused kernels calls 10 to 20 and waits for the counts of tokens
// (transformer/moe/token_dispatcher.py).
constexpr double kElementwiseCalls = 0.25, kRoutingCalls = 4;
// Without a grouped product each expert has its product, the slices of its rows and its activation:
// two operators for each of its products. Many runs have a grouped one and do not say so: counted
// are between the two.
constexpr double kKernelsOfExpert = 0.7;
// The kernel that adds a gradient to its buffer streams it at this share of the bandwidth.
constexpr double kAddingUp = 0.8;

ComputeType type_of(const Operator& op, PrecisionKind precision) {
  const ComputeType asked = compute_type(precision);
  const bool low = asked == ComputeType::Fp8 || asked == ComputeType::Fp4;
  return low && !op.low_precision ? ComputeType::Bf16 : asked;
}

// Several operators make a norm, of which one has the weight; frozen, none is told apart.
bool holds_weights(const Operator& op) {
  return op.kind == OperatorKind::Matmul || op.kind == OperatorKind::Lookup || op.trained;
}

bool is_routing(const Operator& op) {
  return op.kind == OperatorKind::Route || op.kind == OperatorKind::Permute;
}

// What is moved to add the gradient of a product's weights to what is there: fp32 by the product
// itself, or by an operator after it that reads both.
Bytes added_up(const Operator& op) {
  if (!op.trained) return {};
  const bool fused = op.weight_gradient.read > Bytes(0);
  return fused ? op.weight_gradient.read + op.weight_gradient.written
               : op.weight_gradient.written * 2;
}

std::vector<Call>& calls_of(ListTime& time, Pass pass) {
  return time.calls[static_cast<std::size_t>(pass)];
}

}  // namespace

double host_share(const Layout& layout, const Trainer& trainer, const Accelerator& accelerator) {
  // torchtitan 0.3 distributed/cudagraph.py wrap_with_cuda_graph leaves others than NVIDIA's alone.
  const bool made = accelerator.vendor == "NVIDIA" || layout.on.has(Switch::Graphs);
  if (made && asks(layout, Switch::Graphs, trainer)) return 0;
  // Graphs of attention and routers hold about every other call: of a layer of Qwen3 30B-A3B on 16
  // ranks of ep 12.5 of 27, of one of Llama's 4.5 of 8, as they are counted here.
  return asks(layout, Switch::PartGraphs, trainer) ? 0.5 : 1;
}

namespace {

int flash_on(const LibraryFacts& libraries, const AcceleratorRates& rates) {
  const double from = libraries.best_attention_from;
  const bool best = from > 0 && rates.compute_capability >= from;
  return best ? 0 : static_cast<int>(libraries.flash);
}

}  // namespace

ListTimer::ListTimer(const AcceleratorRates& rates, PrecisionKind precision, const Trainer& trainer)
    : rates_(rates), precision_(precision), libraries_(trainer.libraries) {
  // Transformer Engine's grouped product is one of cuBLAS for each expert, on streams that take
  // turns and have a workspace each (common/gemm/cublaslt_gemm.cu multi_stream_cublas_gemm).
  for (const Workspace& of : trainer.workspaces) {
    if (of.grouped_gemm) expert_streams_ = real(of.count);
  }
}

// Those that run at once on several streams count as one.
double ListTimer::kernels(const Operator& op) const {
  if (is_routing(op)) return kRoutingCalls;
  const bool in_turn = op.kind == OperatorKind::Matmul && expert_streams_ > 0;
  return in_turn ? std::max(1.0, real(op.matrices) / expert_streams_) : 1.0;
}

ListTime ListTimer::timed(const OperatorList& list) const {
  ListTime time;
  for (const Operator& op : list.operators) {
    const bool again = op.again == Again::Rerun || op.again == Again::Discarded;
    add(time, Pass::Forward, op, op.forward);
    add(time, Pass::InputGradient, op, op.input_gradient);
    add(time, Pass::WeightGradient, op, op.weight_gradient);
    if (again) add(time, Pass::Recompute, op, op.forward);
    for (const Collective& call : op.collectives) {
      const Call one{call.kind, call.group, call.beside, call.bytes};
      if (call.pass != Pass::Recompute) calls_of(time, call.pass).push_back(one);
      const bool repeats = call.pass == Pass::Forward || call.pass == Pass::Recompute;
      if (again && repeats) calls_of(time, Pass::Recompute).push_back(one);
    }
  }
  return time;
}

void ListTimer::add(ListTime& time, Pass pass, const Operator& op, const Effort& effort) const {
  // A transfer takes what its collective takes (wires.h).
  if (op.kind == OperatorKind::Transfer) return;
  const Bytes moved = effort.read + effort.written;
  if (effort.matmul == Flops(0) && moved == Bytes(0)) return;
  const bool elementwise = op.kind == OperatorKind::Elementwise;
  const bool backward = pass == Pass::InputGradient || pass == Pass::WeightGradient;
  Piece piece = Piece::Streams;
  Seconds seconds;
  if (op.kind == OperatorKind::Matmul && op.matrix.in > 0) {
    piece = Piece::Products;
    seconds = product(op, effort, pass);
  } else if (op.kind == OperatorKind::AttentionCore && op.head_width > 0) {
    piece = Piece::AttentionCores;
    const AttentionCall fused{.flops = effort.matmul,
                              .head_width = op.head_width,
                              .keys = op.keys,
                              .backward = backward,
                              .flash = flash_on(libraries_, rates_)};
    // However few keys a window leaves, what enters and leaves is moved.
    seconds = std::max(attention_time(fused, rates_) * libraries_.attention_takes,
                       streamed_time(moved, false, rates_));
  } else if (op.kind == OperatorKind::AttentionCore && effort.matmul > Flops(0)) {
    const AttentionCall unfused{
        .flops = effort.matmul, .backward = backward, .kernel = AttentionKernel::Eager};
    piece = Piece::AttentionCores;
    seconds = std::max(attention_time(unfused, rates_), streamed_time(moved, backward, rates_));
  } else if (op.kind == OperatorKind::Loss) {
    piece = Piece::Loss;
    seconds = streamed_time(moved, false, rates_);  // no sum over rows slows its backward pass
  } else {
    seconds = streamed_time(moved, backward && !elementwise, rates_);
  }
  PassPieces& all = time.passes[static_cast<std::size_t>(pass)];
  all.at(piece) += seconds;
  count(time, pass, op, effort);
  if (piece == Piece::Products && pass == Pass::WeightGradient) {
    all.accumulated += added_up(op) / (rates_.memory_bandwidth * kAddingUp);
  }
  const Seconds casts = effort.converted / (rates_.memory_bandwidth * rates_.rounding);
  all.at(Piece::Streams) += casts;
  if (op.part != Part::RoutedExperts) return;
  PassPieces& experts = time.of_experts[static_cast<std::size_t>(pass)];
  experts.at(piece) += seconds;
  experts.at(Piece::Streams) += casts;
}

void ListTimer::count(ListTime& time, Pass pass, const Operator& op, const Effort& effort) const {
  PassPieces& all = time.passes[static_cast<std::size_t>(pass)];
  const double own = kernels(op);
  const double casts = effort.converted > Bytes(0) ? 1 : 0;
  all.kernels += own + casts;
  all.calls +=
      (op.kind == OperatorKind::Elementwise ? kElementwiseCalls : own) + casts * kElementwiseCalls;
  if (op.kind == OperatorKind::Matmul && op.matrices > 1) {
    time.one_by_one[static_cast<std::size_t>(pass)] +=
        std::max(0.0, kKernelsOfExpert * real(op.matrices) - own);
  }
  if (pass != Pass::WeightGradient && holds_weights(op)) ++all.modules;
}

// Rows follow from the FLOPs, 2 m n k of each of the matrices.
Seconds ListTimer::product(const Operator& op, const Effort& effort, Pass pass) const {
  const double per_row = 2 * real(op.matrix.in) * real(op.matrix.out) * real(op.matrices);
  const std::int64_t rows = std::llround(effort.matmul.value() / per_row);
  Product product{.m = std::max<std::int64_t>(rows, 1),
                  .n = op.matrix.out,
                  .k = op.matrix.in,
                  .count = op.matrices,
                  .type = type_of(op, precision_)};
  if (pass == Pass::InputGradient) std::swap(product.n, product.k);
  if (pass == Pass::WeightGradient) std::swap(product.m, product.k);
  return product_time(product, rates_);
}

}  // namespace trainwright::detail
