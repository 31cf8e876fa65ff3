#pragma once
// How a trainer's layers are written, where no kernel says so. Part of trainer.h: include that one.
//
// Facts are a table: a new one is a member and a row, which files, `to_json` and `show trainer`
// then know. The defaults are Megatron's.
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "trainwright/base/names.h"

namespace trainwright {

// Where the scores of the chosen experts enter: scaling the tokens sent, inside the activation, or
// what comes back. AsModel: what comes back, but in Llama 4 the tokens sent.
enum class ExpertScores { BeforeExperts, InActivation, AtCombine, AsModel };
std::span<const std::string_view> all_names(ExpertScores);

// What each means is in kCodeFacts.
struct CodeFacts {
  bool joined_projections = true;
  bool joined_queries = false;
  bool norm_scales_input = false;
  bool norm_in_product = false;
  bool gathers_again = true;
  bool gathers_into_buffer = false;
  bool vocabulary_split = true;
  std::int64_t vocabulary_multiple = 1;
  bool dropout = true;
  bool delays_vectors = false;
  bool stops_early = false;
  bool permutes_tokens = true;
  bool gradient_stand_ins = false;
  bool casts_copy = false;
  bool keeps_factors = false;
  bool inputs_copied = false;
  bool slices_are_views = false;
  bool reorders_heads = false;
  bool looks_up_rotation = false;
  bool sums_copy = false;
  bool expert_rows_stay = false;
  bool copies_heads = false;
  bool repeats_heads = false;
  bool gather_buffers_stay = false;
  bool root_unit = false;
  std::int64_t step_gathers = 0;
  bool weights_moved = false;
  bool weights_made_wide = false;
  bool states_whole = false;
  bool mtp_copies_embedding = false;
  ExpertScores expert_scores = ExpertScores::AtCombine;
  std::string source;
};

struct CodeNumber {
  std::int64_t CodeFacts::* member;
  std::int64_t least, most;
};
struct CodeFact {
  std::string_view name;
  std::variant<bool CodeFacts::*, CodeNumber, ExpertScores CodeFacts::*> fact;
  std::string_view meaning;
};
inline constexpr auto kCodeFacts = std::to_array<CodeFact>({
    {"joined_projections", &CodeFacts::joined_projections,
     "query, key and value are one product, gate and up another"},
    {"joined_queries", &CodeFacts::joined_queries,
     "query, key and value are one product, whatever gate and up are"},
    {"norm_scales_input", &CodeFacts::norm_scales_input,
     "an unfused RMS norm squares an fp32 copy of its input but scales the input itself: both "
     "stay"},
    {"norm_in_product", &CodeFacts::norm_in_product,
     "a norm belongs to the matrix after it and is run again with it"},
    {"gathers_again", &CodeFacts::gathers_again,
     "sequence parallelism: the gathered input of a matrix is dropped and gathered again for the "
     "weight gradient"},
    {"gathers_into_buffer", &CodeFacts::gathers_into_buffer,
     "and that of the head is gathered into a buffer that stays"},
    {"vocabulary_split", &CodeFacts::vocabulary_split, "embedding and head are split over tp"},
    {"vocabulary_multiple", CodeNumber{&CodeFacts::vocabulary_multiple, 1, 1 << 20},
     "a rank's part of the vocabulary is padded to a multiple of it"},
    {"dropout", &CodeFacts::dropout, "there is dropout as the model says"},
    {"delays_vectors", &CodeFacts::delays_vectors,
     "a split backward puts off gradients of gains and biases too"},
    {"stops_early", &CodeFacts::stops_early, "recompute ends with the last tensor that is needed"},
    {"permutes_tokens", &CodeFacts::permutes_tokens,
     "tokens are permuted to their experts; else as the modules of transformers do it"},
    {"gradient_stand_ins", &CodeFacts::gradient_stand_ins,
     "the library's matrices add their gradients up themselves and hand autograd an empty one, of "
     "which one per shape stays; other matrices make theirs and drop it"},
    {"casts_copy", &CodeFacts::casts_copy,
     "a cast to the type that a tensor has already is a copy"},
    {"keeps_factors", &CodeFacts::keeps_factors,
     "of a product both factors stay, though one has no gradient"},
    {"inputs_copied", &CodeFacts::inputs_copied,
     "tensor parallelism: each column-parallel product keeps a copy of its input"},
    {"slices_are_views", &CodeFacts::slices_are_views,
     "what one product made for query, key and value stays whole as long as one of them is needed"},
    {"reorders_heads", &CodeFacts::reorders_heads,
     "what attention made of several sequences is copied into another order for the matrix after "
     "it"},
    {"looks_up_rotation", &CodeFacts::looks_up_rotation,
     "every layer looks cosine and sine up by position, for query and for key, and keeps them"},
    {"sums_copy", &CodeFacts::sums_copy, "the gradient of a sum is copied for one of its terms"},
    {"expert_rows_stay", &CodeFacts::expert_rows_stay,
     "rows sent to experts and received stay until they are home"},
    {"repeats_heads", &CodeFacts::repeats_heads,
     "grouped keys and values are copied for every query head before attention"},
    {"copies_heads", &CodeFacts::copies_heads,
     "queries, keys and values are copied out of their product head by head, keys and values then "
     "into one tensor; without grouped queries the first copy is one tensor, which stays whole for "
     "its queries; they are turned in place"},
    {"root_unit", &CodeFacts::root_unit,
     "FSDP: embedding, last norm and head are one unit with the root, gathered from the beginning "
     "of "
     "the forward to the end of the backward pass"},
    {"gather_buffers_stay", &CodeFacts::gather_buffers_stay,
     "what column-parallel products gather goes into one buffer, what row-parallel ones gather "
     "backward into another; both stay"},
    {"step_gathers", CodeNumber{&CodeFacts::step_gathers, 0, 16},
     "ZeRO: whole copies of the weights that the step's gather makes"},
    {"weights_moved", &CodeFacts::weights_moved,
     "ZeRO: weights are made one by one, then moved into one buffer"},
    {"weights_made_wide", &CodeFacts::weights_made_wide, "weights are made in fp32, then cast"},
    {"states_whole", &CodeFacts::states_whole,
     "ZeRO deals out whole parameters, states are as large as they are"},
    {"mtp_copies_embedding", &CodeFacts::mtp_copies_embedding,
     "the stage of multi-token-prediction modules holds a copy of the embedding; else what they "
     "look "
     "up comes through the pipeline"},
    {"expert_scores", &CodeFacts::expert_scores, "where the scores of the chosen experts enter"},
});

}  // namespace trainwright
