#pragma once
// What is trained: a decoder-only language model, read, counted, named.
//
// The value `Model` (shape.h, included here) is read from a Hugging Face config.json, or from one
// in the words of Megatron-LM's arguments ("model_type": "megatron", num_layers, swiglu, ...). A
// family of models is a file of data/families, or an object "family" in the config. A field that is
// neither known nor known to be harmless is a fault.
//
// All that is counted comes from one list, `layer_weights`: the tensors of a layer with shapes.
//   parameters  the sum of their sizes;
//   FLOPs       2 x in x out per token forward for each matrix the token is multiplied with, and
//               twice that backward (gradients of the input and of the weight); the attention
//               core, which has no weights, 2 x heads x (key width + value width) per pair of
//               query and key, and twice that backward.
// Only matrix products count, as in FlopCounterMode of PyTorch and published MFUs; counts are those
// of transformers 5.23.0 (oracle tests).
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/result.h"
#include "trainwright/base/units.h"
#include "trainwright/model/shape.h"

namespace trainwright {

// Reads a config.json, or the directory that holds one. All faults at once.
Result<Model> read_model(const std::string& path, const std::string& data_directory);
// The same from text or from JSON already read; `origin` begins every place in the diagnostics.
// A multimodal wrapper gives its text model and a note of what is left out.
Result<Model> parse_model(std::string_view text, std::string_view origin,
                          const std::string& data_directory);
Result<Model> model_from_json(const Json& config, std::string_view origin,
                              const std::string& data_directory);
std::vector<std::string> known_families(const std::string& data_directory);  // model_types, sorted

// A named model of the zoo, data/models/<name>.json; data/README.md explains its fields.
// Figures are kept as printed: "70.6B" holds for 70.55B to 70.65B, "559214592" for that count only.
enum class Counted {
  All,                    // a tied head once, MTP modules included
  WithoutMtp,             // the default of this program
  WithoutEmbedding,       // neither token embedding nor head
  WithoutInputEmbedding,  // no token embedding, unless the head is tied to it
  WithoutOutput,          // no head, unless tied
  TiedTwice,              // a tied head counted again
};
struct Published {
  std::string total, active, mtp;  // empty: not published
  Counted counts = Counted::All, active_counts = Counted::WithoutMtp;
  double tolerance = 0, active_tolerance = 0;  // fractions, where the source itself is loose
  std::string source;
};
struct ZooEntry {
  Model model;
  std::string source;            // where the config is from
  std::vector<std::string> ids;  // others of Hugging Face with this shape
  Published published;
};
// Every entry, sorted by name; faults of all files together.
Result<std::vector<ZooEntry>> load_zoo(const std::string& data_directory);
std::vector<std::string> zoo_names(const std::string& data_directory);
// A path, a config's own text ("{...}"), else a name of the zoo, else the nearest names.
Result<Model> find_model(const std::string& name_or_path, const std::string& data_directory);

// Which part of the model a weight belongs to. Norms on queries and keys count as attention, and so
// does whatever else mixes tokens: linear attention, Mamba-2. What all tokens go through on their
// way to the experts is with the shared experts.
enum class Part {
  Embedding,
  SelfAttention,
  DenseFeedForward,
  RoutedExperts,
  SharedExperts,
  Router,
  Norm,
  Head
};
// Matrix: in x out, multiplied with every token. Table: one row of `in` looked up. Vector:
// elementwise. Convolution: depthwise, `in` taps on `out` channels.
enum class WeightUse { Matrix, Table, Vector, Convolution };
// The side of which each rank of a tensor-parallel group has a part: outputs, inputs, rows of the
// vocabulary. Of a Whole weight every rank has all.
enum class WeightCut { Whole, Columns, Rows, Vocabulary };

// One tensor, or `copies` equal ones of which a token meets `used`.
struct Weight {
  std::string_view name;  // "query", "expert_down": the same word in every family
  Part part = Part::Norm;
  WeightUse use = WeightUse::Matrix;
  std::int64_t in = 1;
  std::int64_t out = 0;
  bool bias = false;  // `out` numbers more per copy
  std::int64_t copies = 1;
  std::int64_t used = 1;
  bool tied = false;  // the matrix is the embedding's: multiplied with, but counted there
  WeightCut cut = WeightCut::Whole;
  std::int64_t unit = 1;       // outputs that are never cut apart: those of a key head
  bool low_precision = false;  // a matrix that recipes in 8 and 4 bits multiply in them
  friend bool operator==(const Weight&, const Weight&) = default;
};
Params size_of(const Weight& weight);       // copies x (in x out + bias)
Params active_of(const Weight& weight);     // the same for the copies used
Flops forward_flops(const Weight& weight);  // one token: 2 x in x out x used, 0 for a table

bool has_experts(const Model& model);
std::vector<Weight> layer_weights(const Model& model, const LayerKind& kind);
std::vector<Weight> embedding_weights(const Model& model);  // tables, their norm, projection in
std::vector<Weight> head_weights(const Model& model);       // final norm, projection out, head
// What a multi-token-prediction module has beside its layer: two norms, the 2h x h projection and
// its own final norm. Embedding and head are the main model's (arXiv:2412.19437, section 2.2).
std::vector<Weight> mtp_weights(const Model& model);

struct Parameters {
  Params embedding, attention, feed_forward, routed_experts, shared_experts, router, norm, head;
  Params total() const;
  Parameters& operator+=(const Parameters& other);
  friend bool operator==(const Parameters&, const Parameters&) = default;
};
Parameters parameters(const std::vector<Weight>& weights);         // stored
Parameters active_parameters(const std::vector<Weight>& weights);  // met by one token
// The whole model without its MTP modules. A tied head is counted once, as embedding.
Parameters parameters(const Model& model);
// Per token: all but the experts it is not sent to; the embedding whole, as DeepSeek counts.
Parameters active_parameters(const Model& model);
Parameters mtp_parameters(const Model& model);  // of all MTP modules

// Which (query, key) pairs of a sequence are counted. Full: all s x s, as unfused kernels compute
// and as PaLM and older Megatron count. Causal: those the mask lets through, at most the window.
enum class AttentionPairs { Full, Causal };

// Mean number of keys per query in a sequence of that length; 0 without a softmax.
double keys_per_query(const Attention& attention, Tokens sequence, AttentionPairs pairs);
// The core without its projections, forward, for one token in a sequence of that length. Linear
// attention: reading and writing its state, 6 x key x value width (4 without the delta rule) per
// head; chunked kernels do more. Mamba-2 (H heads of P channels, G groups, N states) as its paper
// computes it, in chunks of Q tokens (arXiv:2405.21060, section 6: block decomposition; the chunk
// is the config's, 128 or 256). Per token
//   2 Q G N   C B^T, all pairs of a chunk, once for the heads of a group,
//   2 Q H P   that, times the decay and the mask, with the values X,
//   2 H P N   the state that a chunk adds, B^T X,
//   2 H P N   what C reads of the state before the chunk;
// passing states from chunk to chunk is H P N / Q multiply-adds, no product, and is left out. A
// shorter last chunk counts as short as it is, whatever `pairs` says.
Flops attention_core_flops(const Attention& attention, Tokens sequence, AttentionPairs pairs);
// Of it, what an indexer takes to score keys: without gradients.
Flops index_flops(const Attention& attention, Tokens sequence, AttentionPairs pairs);
// Of a layer: attention and the mixer beside it.
Flops attention_core_flops(const LayerKind& kind, Tokens sequence, AttentionPairs pairs);

// Forward FLOPs of one token, averaged over a sequence; the backward pass costs twice as much.
struct TokenFlops {
  Flops projections;       // attention's matrices
  Flops attention_core;    // scores and their product with the values
  Flops feed_forward;      // router and experts included
  Flops head;              // and the projections around a narrower embedding
  Flops mtp;               // the MTP modules: their layer, projection and pass through the head
  Flops without_gradient;  // of these, an indexer's: only forward
  Flops forward() const;
  Flops backward() const { return (forward() - without_gradient) * 2; }
  Flops train() const { return forward() + backward(); }
};
TokenFlops token_flops(const Model& model, Tokens sequence, AttentionPairs pairs);

// The conventions people quote, training FLOPs per token.
// PaLM (arXiv:2204.02311, appendix B): 6N + 12 L H Q T; N all (active) parameters, L layers,
// H heads, Q head width, T sequence.
Flops palm_token_flops(const Model& model, Tokens sequence);
// Megatron-LM (num_floating_point_operations in training.py): every matrix but the router's, logits
// with the given padded vocabulary, the attention core as s x s and, in releases since 2025, half
// of it (Causal); of Mamba-2 layers its own estimate, see flops.cc. Without MTP modules, and
// without the few operations per channel that it adds for the norms of latent attention. For GPT
// that is 72 L h^2 (1 + s/6h + V/12hL), arXiv:2205.05198 section 5; SC21 (arXiv:2104.04473) has 96
// and V/16hL because full recomputation runs forward twice.
Flops megatron_token_flops(const Model& model, Tokens sequence, std::int64_t padded_vocabulary,
                           AttentionPairs pairs = AttentionPairs::Full);

// Share of a total peak that `work` in `time` reaches: MFU when the work is the model's, HFU when
// recomputed forward work is included.
double utilization(Flops work, Seconds time, FlopsPerSecond peak);

std::string_view name_of(Norm norm);
std::string_view name_of(Activation activation);
std::string_view name_of(Positions positions);
std::string_view name_of(Reach reach);
std::string_view name_of(Part part);
// "GQA 32:8 x 128, sliding 4096", "MLA 128 x (128 + 64)": one line for tables.
std::string describe(const Attention& attention);
std::string describe_mixing(const LayerKind& kind);     // attention and the mixer beside it
std::string describe(const FeedForward& feed_forward);  // "gated 14336", "8 of 256 x gated 2048"

Json to_json(const Model& model);            // the shape
Json to_json(const Parameters& parameters);  // by part, with "total"
// Shape, "parameters" {total, active, mtp, parts, active_parts, by kind} and, for that sequence
// length, "flops_per_token" by the exact count and by each convention.
Json model_report(const Model& model, Tokens sequence);

}  // namespace trainwright
