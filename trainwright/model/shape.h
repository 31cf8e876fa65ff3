#pragma once
// The shape of a decoder-only language model, as a value. Part of model.h: include that one.
//
// A Model is read from a Hugging Face config.json. It is an embedding, a list of layers (each one
// of a few layer kinds, because a plan reasons about kinds and counts, not about 61 layers), a
// final norm and a head. A layer is
//
//   x += after_attention(attention(before_attention(x)))
//   x += after_feed_forward(feed_forward(before_feed_forward(x)))
//
// where any norm may be absent; in a parallel layer both branches read the same x. Hybrids have
// layers with one branch only, and layers with a state-space mixer beside attention.
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "trainwright/base/ids.h"

namespace trainwright {

using LayerKindId = Id<struct LayerKindTag>;  // an index into Model::kinds

// What a norm divides by and what it learns: Rms has a gain, Layer gain and bias, LayerGain only
// the gain; the fixed ones learn nothing.
enum class Norm { None, Rms, RmsFixed, Layer, LayerGain, LayerFixed };
// Xielu (arXiv:2411.13010) learns two numbers in every layer.
enum class Activation { Silu, Gelu, GeluTanh, QuickGelu, Relu, SquaredRelu, Xielu };
enum class Positions { None, Rotary, Learned, Alibi };
// Which earlier tokens a query sees: all, the last `window`, or those of its chunk of `window`.
enum class Reach { Full, Sliding, Chunked };

// DeepSeek sparse attention (arXiv:2512.02556, section 2.1): a light scorer of `heads` heads, whose
// one key head all share, chooses the `topk` keys that a query then attends to.
struct Indexer {
  std::int64_t heads = 0;  // 0: the keys that an earlier layer chose
  std::int64_t head_dim = 0;
  std::int64_t topk = 0;
  std::int64_t query_in = 0;  // what its queries are made of: the query latent's width, or hidden
  Norm key_norm = Norm::Layer;
  Norm query_norm = Norm::None;
  bool weighted = true;  // a hidden x heads projection weighs the heads
  friend bool operator==(const Indexer&, const Indexer&) = default;
};

// Multi-head (kv_heads == heads), grouped-query and multi-query (kv_heads == 1) attention.
struct SoftmaxAttention {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;  // need not be hidden / heads
  Reach reach = Reach::Full;
  std::int64_t window = 0;  // tokens; 0 when the reach is full
  bool qkv_bias = false;
  bool output_bias = false;
  Norm qk_norm = Norm::None;
  bool qk_norm_per_head = true;  // gain of one head, shared; else one gain over all heads
  bool output_gate = false;      // a second query-sized projection gates the output
  bool sinks = false;            // one learned logit per head in the softmax
  bool softcap = false;          // logits squashed by tanh before the softmax
  bool rotary = true;            // false for alibi, learned positions and layers without any
  std::int64_t value_dim = 0;    // of one value head; 0: head_dim
  bool head_gate = false;        // a number for each head, of the hidden state, scales its result
  bool causal = true;            // false: encoders and diffusion language models see all tokens
  bool shared_kv = false;        // keys and values are those of an earlier layer (Gemma 3n)
  bool value_is_key = false;     // one projection makes both (the full layers of Gemma 4)
  Norm value_norm = Norm::None;  // of one head
  std::optional<Indexer> indexer = {};
  std::int64_t value_width() const { return value_dim > 0 ? value_dim : head_dim; }
  friend bool operator==(const SoftmaxAttention&, const SoftmaxAttention&) = default;
};

// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434): queries, keys and values come from
// small latents; the rotary part of the key is one head shared by all.
struct LatentAttention {
  std::int64_t heads = 0;
  std::int64_t query_rank = 0;  // 0: queries straight from the hidden state
  std::int64_t kv_rank = 0;
  std::int64_t rope_dim = 0;   // rotary part of a query or key head
  std::int64_t nope_dim = 0;   // the part without positions
  std::int64_t value_dim = 0;  // of one value head
  Norm latent_norm = Norm::Rms;
  bool down_bias = false;  // on the projections into the latents
  bool output_bias = false;
  bool rotary = true;
  bool head_gate = false;  // as above
  std::optional<Indexer> indexer = {};
  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
};

// Attention of DeepSeek-V4: queries of a latent, one head that is key and value at once for the
// last `window` tokens, and beside them the same of `ratio` tokens pressed into one, of which an
// indexer over keys pressed alike chooses `topk`. The result goes to the hidden size by way of
// `output_groups` latents, each of as many heads.
struct CompressedAttention {
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t query_rank = 0;
  std::int64_t output_groups = 0;
  std::int64_t output_rank = 0;  // of a group
  std::int64_t window = 0;
  std::int64_t ratio = 0;    // 0: the window alone
  std::int64_t overlap = 1;  // groups of tokens that a pressed key is made of
  std::optional<Indexer> indexer = {};
  friend bool operator==(const CompressedAttention&, const CompressedAttention&) = default;
};

// Gated DeltaNet (arXiv:2412.06464), the linear layers of Qwen3-Next: a key_dim x value_dim state
// per value head, behind a short depthwise convolution. Kimi Delta Attention (arXiv:2510.26692)
// forgets each channel of a key by a rate of its own.
struct GatedDeltaNet {
  std::int64_t key_heads = 0;
  std::int64_t value_heads = 0;
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;
  std::int64_t convolution = 0;  // taps
  bool channel_decay = false;    // a rate for each channel of a key; else for each head
  std::int64_t decay_rank = 0;   // rates by way of a latent; 0: of the hidden state
  std::int64_t gate_rank = 0;    // the output gate likewise
  bool gate_bias = false;
  bool gated = true;
  friend bool operator==(const GatedDeltaNet&, const GatedDeltaNet&) = default;
};

// Lightning attention (arXiv:2401.04658), the linear layers of MiniMax-01: a head_dim x head_dim
// state per head with a fixed decay, computed in blocks, normed and gated.
struct LightningAttention {
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t block = 0;  // tokens
  friend bool operator==(const LightningAttention&, const LightningAttention&) = default;
};

// Mamba-2 (arXiv:2405.21060): a head_dim x state matrix per head, behind a short depthwise
// convolution, gated at the end. One projection makes the gate z and the values x (heads x head_dim
// each), the keys B and queries C (groups x state each, shared by the heads of a group) and a step
// width for every head.
struct Mamba2 {
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t groups = 0;
  std::int64_t state = 0;
  std::int64_t convolution = 0;  // taps
  std::int64_t chunk = 0;        // tokens that the scan takes at once
  bool input_bias = false;
  bool output_bias = false;
  bool convolution_bias = true;
  Norm output_norm = Norm::Rms;  // of the gated result, by groups
  friend bool operator==(const Mamba2&, const Mamba2&) = default;
};

// Mamba (arXiv:2312.00752): each of `width` channels has `state` numbers that a scan carries on;
// step widths come by way of `rank` numbers, keys and queries are `state` wide for all channels.
struct Mamba1 {
  std::int64_t width = 0;
  std::int64_t state = 0;
  std::int64_t rank = 0;
  std::int64_t convolution = 0;  // taps
  bool projection_bias = false;
  bool convolution_bias = true;
  Norm inner_norm = Norm::None;  // of step widths, keys and queries (Jamba)
  friend bool operator==(const Mamba1&, const Mamba1&) = default;
};

// The short convolutions of LFM2 (arXiv:2511.23404): out(c * convolution(b * x)), where b, c and x
// are one product's.
struct ShortConvolution {
  std::int64_t convolution = 0;  // taps
  bool bias = false;             // of all three
  friend bool operator==(const ShortConvolution&, const ShortConvolution&) = default;
};

// A layer that is a feed-forward alone.
struct NoAttention {
  friend bool operator==(const NoAttention&, const NoAttention&) = default;
};

using Attention =
    std::variant<SoftmaxAttention, LatentAttention, CompressedAttention, GatedDeltaNet,
                 LightningAttention, Mamba2, Mamba1, ShortConvolution, NoAttention>;

// Plain: down(act(up(x))). Gated: down(act(gate(x)) * up(x)).
struct Mlp {
  std::int64_t width = 0;
  bool gated = false;
  bool bias = false;
  Activation activation = Activation::Silu;
  friend bool operator==(const Mlp&, const Mlp&) = default;
};

// Each token goes to `experts_per_token` of `experts` and, if there are any, through the shared
// experts, which are one Mlp as wide as all of them.
struct MixtureOfExperts {
  std::int64_t experts = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t latent = 0;  // channels that experts read and write, behind a matrix on either side;
                            // 0: the hidden size (Nemotron 3 Super)
  Mlp expert;
  std::optional<Mlp> shared;
  bool latent_bias = false;
  bool shared_gate = false;  // a hidden x 1 projection scales the shared output
  bool router_bias = false;
  bool score_correction_trained = false;  // a per-expert selection bias held as a parameter
  friend bool operator==(const MixtureOfExperts&, const MixtureOfExperts&) = default;
};

// A layer that is attention, or a state-space mixer, alone.
struct NoFeedForward {
  friend bool operator==(const NoFeedForward&, const NoFeedForward&) = default;
};

using FeedForward = std::variant<Mlp, MixtureOfExperts, NoFeedForward>;

// A weight that a family has beside those of its parts, and what the class does with it is small: a
// matrix reads what is `in` wide and its result scales or is added; a vector does so itself.
struct Extra {
  enum class Part { Embedding, SelfAttention, DenseFeedForward, SharedExperts, Router, Norm, Head };
  enum class Use { Matrix, Table, Vector, Convolution };
  std::string name;
  Part part = Part::Norm;
  Use use = Use::Vector;
  std::int64_t in = 1;
  std::int64_t out = 0;
  bool bias = false;
  friend bool operator==(const Extra&, const Extra&) = default;
};

struct LayerKind {
  Attention attention;
  FeedForward feed_forward;
  std::optional<Mamba2> beside_attention;  // reads what attention reads; both are added (Falcon-H1)
  Norm before_attention = Norm::None;
  Norm after_attention = Norm::None;
  Norm before_feed_forward = Norm::None;  // None in a parallel layer: shares before_attention
  Norm after_feed_forward = Norm::None;
  bool parallel = false;
  bool norm_after_residual = false;  // x = after(x + branch(x)), the original Transformer's way
  std::vector<Extra> extras;
  friend bool operator==(const LayerKind&, const LayerKind&) = default;
};

// What a config says, or its class does, that changes what is learned but no figure here: exports
// hand it on. Absent: the config is silent.
struct Constants {
  std::optional<double> norm_epsilon, rotary_base, rotary_share;  // share of a head that is rotated
  std::string rotary_scaling;  // "llama3", "yarn"; empty for plain rotation
  std::optional<double> rotary_factor;
  // YaRN's: what scores are multiplied by in latent attention, and where it stops to stretch.
  std::optional<double> rotary_mscale, rotary_mscale_all, rotary_beta_fast;
  // The router: softmax over all experts or over the chosen ones, or a sigmoid of each.
  enum class Scores { OfChosen, OfAll, Sigmoid } scores = Scores::OfChosen;
  bool balancing_bias = false;  // added to the scores for choosing only, updated without gradients
  std::int64_t expert_groups = 0, groups_chosen = 0;  // 0: not by groups
  double score_scale = 1;
  bool score_scale_assumed = false;  // the family's: the config is silent
  friend bool operator==(const Constants&, const Constants&) = default;
};

// How the class spells out what others compute alike; it decides what plain PyTorch keeps.
struct CodeStyle {
  // Where the gain of an RMS norm is applied: to the result cast back, to fp32 before the cast, or
  // there as 1 + gain or a copy in fp32, which are tensors of their own.
  enum class Gain {
    AfterCast,
    BeforeCast,
    OnePlusBeforeCast,
    CopiedBeforeCast
  } gain = Gain::AfterCast;
  // What a gated feed-forward does with its halves: act(gate) * up, also of bounded halves, or
  // gate * sigmoid(1.702 gate) * (up + 1) of these.
  enum class Gate { Plain, Clamped, ClampedSigmoid } gate = Gate::Plain;
  bool rms_by_power = false;         // (mean of squares)^-0.5, of which the mean stays
  bool one_plus_norm_gain = false;   // 1 + gain also in layer norms
  bool layer_norm_in_steps = false;  // written out in fp32 instead of PyTorch's kernel
  bool joined_attention = false;     // query, key and value are views of one product's result
  bool joined_feed_forward = false;  // gate and up are
  bool softmax_in_fp32 = true;       // else in the dtype of the scores
  // Scores less the largest of a row before the softmax, as where it has sinks.
  bool subtracts_largest = false;
  bool rotates_part = false;           // of a head; the rest is joined to it anew, heads outermost
  bool tanh_gelu_in_steps = false;     // "gelu_new" instead of PyTorch's kernel
  bool router_in_fp32 = false;         // its product too, not only the scores
  bool scores_in_fp32 = true;          // else in the dtype of the router's product
  bool scores_of_chosen = false;       // softmax over the chosen experts, not over all
  bool scores_by_root = false;         // sqrt(softplus(x)) instead of a sigmoid or softmax
  bool scores_divided = true;          // by the sum of the chosen; a config may say so
  bool scores_narrowed = false;        // to the dtype of the layer before they scale its rows
  bool scores_before_experts = false;  // tokens are scaled on their way in
  // Norms and rotations are flash-attention's where that is, rotations over copies in fp32.
  bool takes_flash_kernels = false;
  friend bool operator==(const CodeStyle&, const CodeStyle&) = default;
};

struct Model {
  std::string name;    // as the user or the zoo calls it
  std::string family;  // model_type, "deepseek_v3"
  std::int64_t vocabulary = 0;
  std::int64_t hidden = 0;
  std::int64_t sequence_most = 0;  // longest sequence the config promises; 0 if it is silent
  Positions positions = Positions::Rotary;
  std::int64_t learned_positions = 0;  // rows of the position table
  std::int64_t embedding_width = 0;    // hidden, or narrower with projections in and out (OPT-350m)
  Norm embedding_norm = Norm::None;
  Norm final_norm = Norm::Rms;
  bool tied = false;  // head and embedding are one matrix
  bool head_bias = false;
  bool logit_softcap = false;
  // Residual streams that hyper-connections mix (arXiv:2409.19606, arXiv:2512.24880): what travels
  // from layer to layer is so many times the hidden state.
  std::int64_t streams = 1;
  // Per-layer embeddings (Gemma 3n): each layer adds a vector of this width that the token chose,
  // from a table with a row of layers x width numbers. 0: none.
  std::int64_t per_layer_width = 0;
  std::int64_t per_layer_vocabulary = 0;
  std::vector<Extra> embedding_extras, head_extras;
  double dropout_hidden = 0;  // probabilities; what the config says, a job may override
  double dropout_attention = 0;
  std::vector<LayerKind> kinds;     // distinct, in order of first appearance
  std::vector<LayerKindId> layers;  // the kind of each layer, first to last
  std::vector<LayerKindId> mtp;     // multi-token-prediction modules (arXiv:2412.19437, 2.2)
  Constants constants;              // for exports
  CodeStyle style;
  std::vector<std::string> notes;  // what the config holds that this value leaves out
  friend bool operator==(const Model&, const Model&) = default;
};

}  // namespace trainwright
