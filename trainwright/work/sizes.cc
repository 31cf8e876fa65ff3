// The one guard of sizes: what it lets through is counted in 64 bits.
#include <fmt/core.h>

#include <algorithm>

#include "trainwright/work/work.h"

namespace trainwright {
namespace {

// Numbers of one tensor before it is split, and of one tensor in every layer. A list has some
// hundred tensors of at most eight bytes a number, each read and written a few times: 2^12 bytes in
// all for every number, which leaves sums below 2^63.
constexpr double kMostNumbers = 0x1.0p48;
constexpr double kMostNumbersOfLayers = 0x1.0p51;

// Numbers that a chunked linear attention keeps for a token and head.
constexpr double kChunk = 64;

// Of the states that a scan passes from chunk to chunk a token's share, and its scores. Sequences
// may be shorter than a chunk, whose state is as large.
double scanned_per_token(const Mamba2& of) {
  const double chunk = std::min(real(of.chunk), kChunk);
  const double states = real(of.heads) * real(of.head_dim) * (real(of.state) / chunk + 1);
  return std::max(states, real(of.groups) * real(of.chunk));
}

void widen(Widths& widths, const Attention& attention) {
  if (const auto* mamba = std::get_if<Mamba2>(&attention)) {
    widths.channels = std::max(widths.channels, scanned_per_token(*mamba));
  }
  if (const auto* mamba = std::get_if<Mamba1>(&attention)) {
    widths.channels = std::max(widths.channels, real(mamba->width) * (real(mamba->state) + 1));
  }
  const auto heads = [](const auto& of) {
    if constexpr (requires { of.heads; }) return real(of.heads);
    if constexpr (requires { of.value_heads; }) return real(of.value_heads);
    return 0.0;
  };
  const double count = std::visit(heads, attention);
  widths.heads = std::max(widths.heads, count);
  widths.channels = std::max(widths.channels, count * kChunk);
}

}  // namespace

Widths widths_of(const Model& model, const Job& job) {
  const double rank = job.lora ? real(job.lora->rank) : 0;
  Widths widths{
      .channels = std::max(real(model.vocabulary), 8 * real(model.hidden)) * real(model.streams),
      .heads = 1,
      .layers = real(std::ssize(model.layers) + 1)};
  for (const LayerKind& kind : model.kinds) {
    for (const Weight& weight : layer_weights(model, kind)) {
      widths.channels =
          std::max(widths.channels, std::max(real(weight.out), rank) * real(weight.used));
    }
    widths.experts |= std::holds_alternative<MixtureOfExperts>(kind.feed_forward);
    widen(widths, kind.attention);
    if (kind.beside_attention) widen(widths, *kind.beside_attention);
  }
  return widths;
}

std::optional<Diagnostic> too_large(const Widths& widths, const Slice& slice) {
  const bool scores = slice.attention != AttentionKernel::Flash;
  const double widest = std::max(widths.channels, scores ? widths.heads * real(slice.seq) : 0);
  // A rank has at least one token and one entry of the vocabulary, and the parts of experts gather
  // those of each other.
  const double tokens =
      real(slice.mbs) * std::max(real(slice.seq), real(slice.tp) * real(slice.cp));
  const bool gathers = slice.dispatcher == DispatcherKind::AllGather;
  const double gathered = widths.experts ? real(slice.etp) * (gathers ? real(slice.ep) : 1) : 1;
  const double numbers = tokens * std::max(widest, real(slice.tp)) * gathered;
  if (numbers <= kMostNumbers && numbers * widths.layers <= kMostNumbersOfLayers) {
    return std::nullopt;
  }
  return Diagnostic{
      "layout",
      fmt::format("a micro-batch of {} sequence{} of {} tokens is too large to be counted",
                  slice.mbs, slice.mbs == 1 ? "" : "s", slice.seq),
      "choose a smaller mbs or seq"};
}

std::optional<Diagnostic> too_large(const Model& model, const Slice& slice) {
  return too_large(widths_of(model), slice);
}

}  // namespace trainwright
