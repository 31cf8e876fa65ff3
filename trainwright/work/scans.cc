// Mamba and the short convolutions of LFM2.
//
// Mamba as mamba_ssm's fused function runs it (state-spaces/mamba e9594ce,
// ops/selective_scan_interface.py, checkpoint_lvl=1): it keeps what the first product made, the
// step widths, keys and queries, and the states between chunks of 2,048 tokens in fp32; convolution
// and step widths are made again in its backward pass.
#include <algorithm>

#include "trainwright/work/attention.h"
#include "trainwright/work/eager.h"

namespace trainwright::detail {
namespace {

constexpr std::int64_t kScanChunk = 2048;

// b * x, or c * the convolved: two factors, both kept.
TensorId product_of(Builder& b, TensorId first, TensorId second, std::string_view name,
                    std::int64_t elements) {
  const TensorId y = b.tensor(name, b.recipe.compute, elements);
  Operator& op = b.add("multiply", OperatorKind::Elementwise, {first, second}, {y});
  op.saves = {{first, Half::Input}};
  if (second != first) op.saves.push_back({second, Half::Input});
  op.forward.other = Flops(real(elements));
  op.input_gradient.other = Flops(2 * real(elements));
  return y;
}

TensorId selective_scan(Builder& b, const Mamba1& a, TensorId projected, TensorId selected,
                        TensorId steps, std::int64_t width) {
  const std::int64_t chunks = b.slice.mbs * ceil_div(b.rows.sequence, kScanChunk);
  const TensorId y = b.tensor("scanned", b.recipe.compute, checked_mul(b.rows.inner, width));
  const TensorId states =
      b.constant("scan_states", Dtype::Fp32, checked_mul(chunks, checked_mul(2 * width, a.state)));
  Operator& op = b.add("selective_scan", OperatorKind::AttentionCore, {projected, selected, steps},
                       {y, states});
  op.saves = {{projected, Half::Input}, {selected, Half::Input}, {states, Half::Input}};
  op.trained = b.trains();
  const Flops token = attention_core_flops(Attention(a), Tokens(b.slice.seq), AttentionPairs::Full);
  op.forward.matmul = token * (real(b.rows.inner) * real(width) / real(a.width));
  op.input_gradient.matmul = op.forward.matmul * 2;
  op.forward.other = Flops(8 * real(b.at(y).elements));
  op.input_gradient.other = op.forward.other * 3;
  return y;
}

// Each rank of tp multiplies with its channels, and reads all of the sum with them again.
void add_sums_over_tp(Builder& b, TensorId sum) {
  if (b.slice.tp == 1) return;
  for (const Pass pass : {Pass::Forward, Pass::InputGradient}) {
    b.last().collectives.push_back(
        {CollectiveKind::AllReduce, GroupKind::Tp, pass, Beside::OwnProduct, b.at(sum).bytes()});
  }
}

}  // namespace

TensorId mamba1(Builder& b, const Mamba1& a, TensorId x) {
  const std::int64_t width = share(a.width, b.slice.tp);
  const Output wide{"mamba_projected", 2 * width};
  const Output selected{"mamba_selected", a.rank + 2 * a.state};
  const Output step{"mamba_steps", width};
  const TensorId projected = columns(
      b, {.name = "mamba_in", .in = b.model.hidden, .bias = a.projection_bias}, x, {&wide, 1})[0];
  const TensorId half =
      b.tensor("mamba_channels", b.recipe.compute, checked_mul(b.rows.inner, width));
  b.add("split", OperatorKind::Elementwise, {projected}, {half}).gradients_passed = 1;
  const TensorId convolved_channels = convolved(b, half, a.convolution, "channels_convolved");
  TensorId chosen = product(b, {.name = "mamba_select", .in = width}, convolved_channels,
                            b.rows.inner, b.slice.tp, {&selected, 1})
                        .outputs[0];
  add_sums_over_tp(b, chosen);
  chosen = norm(b, "mamba_select_norm", a.inner_norm, chosen, a.rank + 2 * a.state);
  const TensorId ranks =
      b.tensor("mamba_ranks", b.recipe.compute, checked_mul(b.rows.inner, a.rank), b.slice.tp);
  b.add("split_ranks", OperatorKind::Elementwise, {chosen}, {ranks}).gradients_passed = 1;
  const TensorId steps = product(b, {.name = "mamba_step", .in = a.rank, .bias = true}, ranks,
                                 b.rows.inner, 1, {&step, 1})
                             .outputs[0];
  const TensorId y = selective_scan(b, a, projected, chosen, steps, width);
  return rows(b, {.name = "mamba_out", .in = width, .bias = a.projection_bias}, y, "attention_out");
}

TensorId short_convolution(Builder& b, const ShortConvolution& a, TensorId x) {
  const std::int64_t width = share(b.model.hidden, b.slice.tp);
  const Output wide{"convolution_gates", 3 * width};
  const TensorId gates = columns(
      b, {.name = "convolution_in", .in = b.model.hidden, .bias = a.bias}, x, {&wide, 1})[0];
  const std::int64_t elements = checked_mul(b.rows.inner, width);
  const TensorId gated = product_of(b, gates, gates, "convolution_input", elements);
  const TensorId made = convolved(b, gated, a.convolution, "convolved");
  const TensorId y = product_of(b, gates, made, "convolved_gated", elements);
  return rows(b, {.name = "convolution_out", .in = width, .bias = a.bias}, y, "attention_out");
}

}  // namespace trainwright::detail
