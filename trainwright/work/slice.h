#pragma once
// What a layer's operator list depends on. Part of work.h: include that one.
//
// Of a whole decision only a slice matters to one layer. Slices are few (a few thousand in a search
// over millions of layouts), so every list is made once.
#include <cstdint>
#include <optional>

#include "trainwright/base/result.h"
#include "trainwright/layout/layout.h"
#include "trainwright/work/list.h"

namespace trainwright {

// Flash: one kernel, keeps its inputs, output and a row statistic. FusedSoftmax: scores, a fused
// scale-mask-softmax, product. Eager: every step its own kernel. Sdpa: PyTorch's
// scaled_dot_product_attention as it runs on CPU (transformers' default there).
enum class AttentionKernel : std::uint8_t { Flash, FusedSoftmax, Eager, Sdpa };
std::string_view name_of(AttentionKernel kernel);
// Unasked, for models of a family.
AttentionKernel usual_attention(const Trainer& trainer, std::string_view family = {});

// Degrees need not divide what they split: a list is that of the most loaded rank.
struct Slice {
  std::int64_t tp = 1, cp = 1, ep = 1, etp = 1;
  std::int64_t mbs = 1, seq = 1;     // the whole sequence, before cp cuts it
  std::int64_t vocabulary_ways = 1;  // pipeline ranks that share embedding and head
  bool sp = false;
  CpKind cp_kind = CpKind::Ring;
  std::int64_t cp_ulysses = 0;
  DispatcherKind dispatcher = DispatcherKind::AllToAll;
  PrecisionKind precision = PrecisionKind::Bf16;
  AttentionKernel attention = AttentionKernel::Flash;
  bool distribute_saved = false;  // the input that full recompute keeps is cut over tp
  bool gradients_wait = false;    // autograd's, until the backward pass of a micro-batch has ended
  bool own_gradients = false;     // the sharding excludes adding weight gradients in the product
  bool frozen = false;            // none of the list's weights is trained, adapters included
  bool input_gradient = true;     // something before the list is trained
  bool compiled = false;          // by torch.compile, layer by layer
  bool autocast = false;          // fp32 weights would be cast where products read them
  bool weights_rounded = false;   // they arrive in 8 bits, as FSDP gathers them
  std::uint8_t loss = 0;          // of Recipe::losses
  Recompute recompute =
      {};  // of this layer: None, Selective, FeedForwardOnly, Modules, OpSelective or
           // Full; which layers Block and EveryNth mean is settled by the stage
  friend bool operator==(const Slice&, const Slice&) = default;
};
struct SliceHash {  // of what differs most
  std::size_t operator()(const Slice& slice) const;
};
// The slice of a layer of that stage (its recompute as written there); `attention`: nullopt for
// what the trainer does by default. Block and EveryNth: see recompute_of_layer.
Slice slice_of(const Layout& layout, const Trainer& trainer, std::int64_t stage = 0,
               std::optional<AttentionKernel> attention = std::nullopt);
// The largest numbers of a model that a token meets.
struct Widths {
  double channels = 0;  // the vocabulary, what a layer makes of a token, of all its experts
  double heads = 0;
  double layers = 0;
  bool experts = false;  // a token may be sent to
};
Widths widths_of(const Model& model, const Job& job = {});  // the rank of adapters among them
// Why no list can be made, if so: bytes of a tensor, summed over layers, would not fit 64 bits. The
// one guard of sizes: whoever counts asks it first, with any stage's slice.
std::optional<Diagnostic> too_large(const Widths& widths, const Slice& slice);
std::optional<Diagnostic> too_large(const Model& model, const Slice& slice);
// What `recompute` means for the i-th layer of its stage: None or Full instead of Block and
// EveryNth.
Recompute recompute_of_layer(const Recompute& recompute, std::int64_t i);

// What the fused version of a step keeps: its input, its output (a dropout: its mask), so many
// bytes per row. A step without one is run as plain PyTorch would, operator by operator.
struct FusedKeeps {
  bool input = false;
  bool output = false;
  double row_bytes = 0;
};

// Adapters beside the matrices `targets`: products with A and B in `dtype`, scaled and added.
struct AdapterRecipe {
  std::int64_t rank = 16;
  Flags<LayerMatrix> targets;
  Dtype dtype = Dtype::Bf16;
  bool autocast = false;  // another dtype than the recipe's, whose products they join by copies
  FrozenBase base = FrozenBase::AsWeights;
  Prepared prepared = Prepared::No;
  bool dropout = false;               // of their input
  bool experts_few_bits = true;       // routed experts are stored as `base` says, too
  Flags<Part> trained;                // copies of whole modules, see Lora
  bool copies_like_adapters = false;  // in dtype, gradients and states
};

// What of a model is trained (Job, layout.h); with adapters nothing else is.
struct Training {
  Flags<Part> frozen;
  std::int64_t frozen_layers = 0;  // the first so many
  std::optional<AdapterRecipe> adapters;
  // Where layers are run again, the embedding's result is made to have a gradient, so that one
  // flows through layers below the first adapter too (peft with transformers).
  bool flows_when_run_again = false;
  OptimizerStates states = {}, adapter_states = {};  // of the model's weights and of adapters'
};

// Which code runs, as far as it changes what is kept or moved: the trainer's facts, settled for one
// precision. Trainers differ in this value and nowhere else.
struct Recipe {
  Dtype compute = Dtype::Bf16;  // of activations
  Dtype weight = Dtype::Bf16;   // as kernels read them
  bool autocast = false;        // torch.autocast: see Slice
  bool stored_wide = false;     // weights that are trained are fp32, products are not
  bool wide = false;            // what flows between branches is fp32: so, or adapters' `prepared`
  std::optional<FusedKeeps> norm, rope, gated_activation, bias_activation, bias_dropout;
  std::optional<FusedKeeps> flash;  // row: one token of one head
  std::optional<FusedKeeps> softmax;
  AttentionKernel attention = AttentionKernel::Eager;  // unasked
  bool accumulates_in_product = false;  // weight gradients are added by the product itself
  bool splits_products = false;         // each gradient of a product is one of its own, over copies
  CodeFacts code;            // how layers are written; stand-ins only where products accumulate
  Loss loss;                 // bytes per logit
  std::vector<Loss> losses;  // all that the trainer has; none: the one above
  double input_copy =
      0;  // bytes per element kept of a matrix' input instead of the input; 0: itself
  double weight_copy = 0;  // bytes per parameter of low-precision weights beside the stored ones
  Rounding rounds;         // of what low-precision products read
  Training training;
};
Recipe recipe_of(const Trainer& trainer, const StoredAs& storage, const Job& job = {});

// Whether matrices of that part are stored in few bits beside adapters, and whether a model's
// weights of it that are not have been made fp32 for that.
bool has_few_bits(const Recipe& recipe, Part part);
bool is_prepared(const Recipe& recipe, Part part);
// Whether weights of that part are trained beside adapters, as copies of the frozen ones.
bool has_trained_copy(const Recipe& recipe, Part part);
// Whether weights of that part are trained in a list of that slice.
bool trains(const Recipe& recipe, const Slice& slice, Part part);
// The first layer of which anything is trained; -1: something before all layers is, the number of
// layers: only what follows them.
std::int64_t first_trained_layer(const Model& model, const Training& training);
const Loss& loss_of(const Recipe& recipe, const Slice& slice);
// The recipe of a slice of a model: its loss, who adds weight gradients up, where experts' scores
// enter, whether products cast what they read (torch.amp: not beside frozen weights, which are in
// 16 bits unless they are prepared), which kernels a family takes from flash-attention, and what a
// compiler changes. torch.compile fuses what is between products: of a norm its input and a number
// per row stay, of a rotation nothing, of an activation what the products gave. (Read off the
// graphs that torch 2.13's min-cut partitioner makes of a Llama block; docs/work.md.) What is run
// again ends with the last tensor that is needed.
Recipe settled(Recipe recipe, const Model& model, const Slice& slice);

}  // namespace trainwright
