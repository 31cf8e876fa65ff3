// Mamba-2 as the Triton kernels of mamba_ssm run it (state-spaces/mamba e9594ce,
// ops/triton/ssd_combined.py): convolution, scan and gate are one function of what one projection
// made, mamba_split_conv1d_scan_combined.
//
// It keeps the projection's result and the scan's, before the gate, and makes the convolution, the
// step widths with their decays and the states of the chunks again in its backward pass.
//   transformers 5.22.2 gives it the norm's gain and the last matrix too: the norm's statistics are
//   kept beside, and what that matrix reads is made again.
//   Megatron-Core 0.8 to 0.19 (ssm/mamba_mixer.py) leaves both outside: what the gate made, the
//   norm's statistics and what the last matrix reads are kept as well.
// Convolution and scan as two functions (causal_conv1d, then mamba_chunk_scan_combined) would also
// keep the convolved channels, and step widths and decays in fp32; Megatron-Core has them behind
// --disable-mamba-mem-eff-path, transformers where only one of the packages is there.
//
// With cp, Megatron-Core since 0.13 (ssm/mamba_context_parallel.py) exchanges heads for tokens
// before the convolution and after the scan; groups that are fewer than the ranks are copied.
#include <algorithm>
#include <utility>

#include "trainwright/work/attention.h"

namespace trainwright::detail {
namespace {

// What one rank of tp has.
struct LocalMamba {
  std::int64_t heads = 0, width = 0;  // channels of all its heads
  std::int64_t states = 0;            // of B, and of C
  std::int64_t groups = 0;
};
LocalMamba local_of(const Mamba2& a, std::int64_t tp) {
  const std::int64_t heads = share(a.heads, tp);
  const std::int64_t groups = share(a.groups, tp);
  return {heads, heads * a.head_dim, groups * a.state, groups};
}

// Numbers that the scan's function reads of one token, those of cp's copied groups included.
std::int64_t read_width(const LocalMamba& x, std::int64_t state, std::int64_t cp) {
  return 2 * x.width + 2 * std::max(x.groups, cp) * state + x.heads;
}

// Whether norm and last matrix are part of the function.
bool joins_output(const Builder& b) { return !b.recipe.code.permutes_tokens; }

// What the kernels of one call hand to each other in memory: convolved channels, C B^T of each
// chunk in fp32, and the states of all chunks, in fp32 and as the products read them.
struct BetweenKernels {
  Bytes convolved, scores, states;
};
BetweenKernels between_kernels(const Builder& b, const Mamba2& a, const LocalMamba& x) {
  const std::int64_t tokens = b.rows.inner;
  const std::int64_t size = byte_size(b.recipe.compute);
  const std::int64_t chunk = std::min(a.chunk, b.slice.seq);
  const std::int64_t chunks = b.slice.mbs * ceil_div(b.rows.sequence, a.chunk);
  return {Bytes(checked_mul(tokens * (x.width + 2 * x.states), size)),
          Bytes(checked_mul(checked_mul(tokens, chunk), x.groups * 4)),
          Bytes(checked_mul(checked_mul(chunks, x.width * a.state), 4 + size))};
}

// Each is written once and read once, the convolved channels twice; backward all of it is made
// again, and gradients of the same sizes travel.
void add_traffic(Operator& op, const BetweenKernels& x) {
  const Bytes written = x.convolved + x.scores + x.states;
  const Bytes read = x.convolved * 2 + x.scores + x.states;
  op.forward.written += written;
  op.forward.read += read;
  op.input_gradient.written += written * 2;
  op.input_gradient.read += read * 2;
  op.workspace = written;
  op.backward_workspace = written * 2;
}

// Gives what the gate made of the scan.
TensorId scan(Builder& b, const Mamba2& a, const LocalMamba& x, TensorId projected) {
  const bool joined = joins_output(b);
  const TensorId scanned = b.constant("scanned", b.recipe.compute, b.rows.inner * x.width);
  const TensorId gated = b.tensor("scanned_gated", b.recipe.compute, b.rows.inner * x.width);
  Few<TensorId, 6> outputs = {gated, scanned};
  Few<Save, 8> saves = {{projected, Half::Input}, {scanned, Half::Input}};
  if (joined && a.output_norm != Norm::None) {
    const TensorId statistics = b.constant("norm_statistics", Dtype::Fp32, b.rows.inner * x.groups);
    outputs.push_back(statistics);
    saves.push_back({statistics, Half::Input});
  }
  Operator& op = b.add("mamba_scan", OperatorKind::AttentionCore, {projected}, {});
  op.outputs = std::move(outputs);
  op.saves = std::move(saves);
  op.trained = b.trains();
  const double tokens = real(b.rows.inner);
  const double convolved = real(x.width + 2 * x.states);
  const Flops token = attention_core_flops(Attention(a), Tokens(b.slice.seq), AttentionPairs::Full);
  const Flops core = token * (tokens * real(x.heads) / real(a.heads));
  op.forward.matmul = core + Flops(2 * real(a.convolution) * convolved * tokens);
  op.input_gradient.matmul = op.forward.matmul * 2;
  // Activations, gate, decays; backward all of it again beside the gradients.
  op.forward.other = Flops(tokens * (4 * convolved + 10 * real(x.width)));
  op.input_gradient.other = op.forward.other * 3;
  add_traffic(op, between_kernels(b, a, x));
  return gated;
}

// The norm by groups of what the gate made, one kernel: its input and a number for each group stay.
TensorId group_norm(Builder& b, const Mamba2& a, const LocalMamba& x, TensorId gated) {
  const TensorId y = b.like(gated, "normed");
  const TensorId statistics = b.constant("norm_statistics", Dtype::Fp32, b.rows.inner * x.groups);
  Operator& op = b.add("mamba_norm", OperatorKind::Norm, {gated}, {y, statistics});
  const Half half = b.recipe.code.delays_vectors ? Half::Both : Half::Input;
  op.saves = {{gated, half}, {statistics, half}};
  op.trained = a.output_norm == Norm::Rms && b.trains();
  op.has_weight = half == Half::Both;
  op.forward.other = Flops(8 * real(b.at(gated).elements));
  op.input_gradient.other = Flops(12 * real(b.at(gated).elements));
  return y;
}

// The last product's input is made again from what the scan has kept.
void forget_input(Builder& b, TensorId input) {
  for (Operator& op : b.list.operators) {
    if (op.name != "mamba_out") continue;
    Few<Save, 8> saves;
    for (const Save& save : op.saves) {
      if (save.tensor != input) saves.push_back(save);
    }
    op.saves = saves;
    op.weight_workspace += b.at(input).bytes();
  }
}

}  // namespace

TensorId mamba2(Builder& b, const Mamba2& a, TensorId x) {
  b.part = Part::SelfAttention;
  const LocalMamba local = local_of(a, b.slice.tp);
  const std::int64_t cp = b.slice.cp;
  const Output wide{"mamba_projected", 2 * local.width + 2 * local.states + local.heads};
  TensorId projected = columns(b, {.name = "mamba_in", .in = b.model.hidden, .bias = a.input_bias},
                               x, {&wide, 1})[0];
  projected = exchanged(b, projected, "projected_exchanged",
                        checked_mul(b.rows.inner, read_width(local, a.state, cp)), cp);
  TensorId y = scan(b, a, local, projected);
  y = exchanged(b, y, "scanned_exchanged", b.at(y).elements, cp);
  if (a.output_norm != Norm::None && !joins_output(b)) y = group_norm(b, a, local, y);
  const TensorId out =
      rows(b, {.name = "mamba_out", .in = local.width, .bias = a.output_bias}, y, "attention_out");
  if (joins_output(b)) forget_input(b, y);
  return out;
}

}  // namespace trainwright::detail
