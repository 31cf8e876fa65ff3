// What of a model is split how many ways: heads, widths, experts, the sequence.
#include <fmt/format.h>

#include <variant>

#include "trainwright/layout/findings.h"
#include "trainwright/layout/shapes.h"

namespace trainwright::detail {
namespace {

void check_heads(const Case& c, std::int64_t heads, Findings& findings) {
  const std::int64_t tp = c.layout.tp;
  if (heads % tp != 0) {
    findings.forbid("heads-split-tp", fmt::format("{} heads do not split {} ways", heads, tp),
                    divisors_hint("tp", heads, tp));
    return;
  }
  // Some trainers deal heads out unevenly; none leaves a rank without any.
  const std::int64_t ulysses = ulysses_degree(c.layout);
  if (heads / tp >= ulysses) return;
  findings.forbid(
      "heads-split-ulysses",
      fmt::format("{} heads over tp {} leave {}, too few for the {} ranks of the "
                  "all-to-all of context parallelism",
                  heads, tp, heads / tp, ulysses),
      fmt::format("{} may be up to {}", c.layout.cp_kind == CpKind::Ulysses ? "cp" : "cp_ulysses",
                  heads / tp));
}

void check_attention(const Case& c, const SoftmaxAttention& attention, Findings& findings) {
  check_heads(c, attention.heads, findings);
  const std::int64_t tp = c.layout.tp;
  const std::int64_t kv = attention.kv_heads;
  // More ranks than key-value heads each hold a copy of one.
  if (kv < 1 || kv % tp == 0 || tp % kv == 0) return;
  findings.forbid("kv-heads-split-tp",
                  fmt::format("{} key-value heads neither split {} ways nor repeat evenly on {} "
                              "ranks",
                              kv, tp, tp),
                  divisors_hint("tp", kv, tp) + fmt::format(", or a multiple of {}", kv));
}
void check_attention(const Case& c, const LatentAttention& attention, Findings& findings) {
  check_heads(c, attention.heads, findings);
}
void check_attention(const Case& c, const CompressedAttention& attention, Findings& findings) {
  check_heads(c, attention.output_groups, findings);
}
void check_attention(const Case& c, const GatedDeltaNet& attention, Findings& findings) {
  check_heads(c, attention.key_heads, findings);
  check_heads(c, attention.value_heads, findings);
}
void check_attention(const Case& c, const LightningAttention& attention, Findings& findings) {
  check_heads(c, attention.heads, findings);
}

// Heads are exchanged for tokens over the whole cp, and groups with them or copied.
void check_mamba_cp(const Case& c, const Mamba2& mamba, Findings& findings) {
  const std::int64_t cp = c.layout.cp;
  const std::int64_t heads = mamba.heads / c.layout.tp;
  const std::int64_t groups = mamba.groups / c.layout.tp;
  if (heads % cp == 0 && (groups % cp == 0 || cp % groups == 0)) return;
  findings.forbid(
      "mamba-splits-cp",
      fmt::format("{} state-space heads in {} groups on a rank do not split {} ways for "
                  "context parallelism",
                  heads, groups, cp),
      divisors_hint("cp", heads, cp));
}
void check_attention(const Case& c, const Mamba2& mamba, Findings& findings) {
  const std::int64_t tp = c.layout.tp;
  if (mamba.heads % tp == 0 && mamba.groups % tp == 0) {
    check_mamba_cp(c, mamba, findings);
    return;
  }
  findings.forbid("mamba-splits-tp",
                  fmt::format("{} state-space heads in {} groups do not split {} ways", mamba.heads,
                              mamba.groups, tp),
                  divisors_hint("tp", mamba.groups, tp));
}
void check_channels(const Case& c, std::string_view what, std::int64_t width, Findings& findings) {
  if (c.layout.cp > 1) {
    findings.forbid(
        "scan-needs-whole-sequence",
        fmt::format("{} pass their state from token to token over the whole sequence", what),
        "cp=1");
  }
  if (width % c.layout.tp == 0) return;
  findings.forbid("channels-split-tp",
                  fmt::format("{} channels of {} do not split {} ways", width, what, c.layout.tp),
                  divisors_hint("tp", width, c.layout.tp));
}
void check_attention(const Case& c, const Mamba1& mamba, Findings& findings) {
  check_channels(c, "Mamba layers", mamba.width, findings);
}
void check_attention(const Case& c, const ShortConvolution&, Findings& findings) {
  check_channels(c, "convolution layers", c.model.hidden, findings);
}
void check_attention(const Case&, const NoAttention&, Findings&) {}

void check_width(std::string_view id, std::string_view what, std::string_view key,
                 std::int64_t width, std::int64_t ways, Findings& findings) {
  if (width % ways == 0) return;
  findings.forbid(std::string(id),
                  fmt::format("a {} width of {} does not split {} ways", what, width, ways),
                  divisors_hint(key, width, ways));
}

void check_feed_forward(const Case& c, const Mlp& mlp, Findings& findings) {
  check_width("ffn-splits-tp", "feed-forward", "tp", mlp.width, c.layout.tp, findings);
}
void check_feed_forward(const Case& c, const MixtureOfExperts& moe, Findings& findings) {
  check_width("expert-ffn-splits-etp", "expert", "etp", moe.expert.width, c.layout.etp, findings);
  if (moe.shared) {
    check_width("shared-ffn-splits-tp", "shared expert", "tp", moe.shared->width, c.layout.tp,
                findings);
  }
  if (moe.experts % c.layout.ep != 0) {
    findings.forbid("experts-split-ep",
                    fmt::format("{} experts do not split {} ways", moe.experts, c.layout.ep),
                    divisors_hint("ep", moe.experts, c.layout.ep));
  }
}

void check_feed_forward(const Case&, const NoFeedForward&, Findings&) {}

// Ring and all-gather give each rank one part from either end, so that causal work is even.
void check_sequence(const Case& c, Findings& findings) {
  const Layout& layout = c.layout;
  const bool halves = layout.cp_kind != CpKind::Ulysses;
  const std::int64_t parts = layout.cp == 1 ? 1 : layout.cp * (halves ? 2 : 1);
  const auto multiple = [&](std::int64_t of) {
    const std::int64_t below = layout.seq / of * of;
    return below == 0 ? fmt::format("seq may be {}", of)
                      : fmt::format("the nearest are seq={} and seq={}", below, below + of);
  };
  if (layout.seq % parts != 0) {
    findings.forbid("sequence-splits-cp",
                    fmt::format("a sequence of {} does not split into {} parts for cp {}",
                                layout.seq, parts, layout.cp),
                    multiple(parts));
  } else if (layout.sp && layout.seq / layout.cp % layout.tp != 0) {
    findings.forbid("sequence-splits-sp",
                    fmt::format("{} tokens over cp {} do not split {} ways for sequence "
                                "parallelism",
                                layout.seq, layout.cp, layout.tp),
                    multiple(layout.cp * layout.tp));
  }
}

void check_positions(const Case& c, Findings& findings) {
  const Model& model = c.model;
  const std::int64_t seq = c.layout.seq;
  if (model.positions == Positions::Learned && seq > model.learned_positions) {
    findings.forbid("sequence-has-positions",
                    fmt::format("{} tokens need as many positions, the model has {}", seq,
                                model.learned_positions),
                    fmt::format("seq may be up to {}", model.learned_positions));
  } else if (model.sequence_most > 0 && seq > model.sequence_most) {
    findings.advise(
        "sequence-promised",
        fmt::format("{} tokens are more than the {} the config promises", seq, model.sequence_most),
        model.positions == Positions::Rotary
            ? "extend the rotary positions, or shorten the sequence"
            : "shorten the sequence");
  }
}

}  // namespace

void check_shapes(const Case& c, Findings& findings) {
  for (const LayerKind& kind : c.model.kinds) {
    std::visit([&](const auto& attention) { check_attention(c, attention, findings); },
               kind.attention);
    if (kind.beside_attention) check_attention(c, *kind.beside_attention, findings);
    std::visit([&](const auto& branch) { check_feed_forward(c, branch, findings); },
               kind.feed_forward);
  }
  if (c.layout.ep > 1 && !has_experts(c.model)) {
    findings.forbid("ep-needs-experts",
                    fmt::format("ep {} on a model without experts", c.layout.ep), "set ep=1");
  }
  if (c.model.vocabulary % c.layout.tp != 0) {
    // As the trainer pads it: Megatron-LM to multiples of 128 times tp.
    const std::int64_t multiple = c.trainer.code.vocabulary_multiple * c.layout.tp;
    const std::int64_t padded = ceil_div(c.model.vocabulary, multiple) * multiple;
    findings.advise("vocabulary-splits-tp",
                    fmt::format("a vocabulary of {} does not split {} ways and will be padded",
                                c.model.vocabulary, c.layout.tp),
                    fmt::format("the next multiple is {}", padded));
  }
  check_sequence(c, findings);
  check_positions(c, findings);
}

}  // namespace trainwright::detail
