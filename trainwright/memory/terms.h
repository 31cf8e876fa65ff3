#pragma once
// Private: the highest moment of a class of ranks.
//
// Everything alive at a moment is linear in what is in flight:
//
//   sum over chunks (whole x kept + half x held + forwards x sent + inputs x sent
//                    + its gradients and the last input gradient, once there are any)
//   + what the action needs at its own highest spot
//
// so that a class is a few numbers per chunk, and a moment a few multiplications. Most chunks of a
// rank hold the same, so a search sums up what is in flight by content once and for all layouts:
// then a class costs O(corners x contents), a few of each, however many chunks it has.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "trainwright/memory/chunk.h"
#include "trainwright/memory/moments.h"
#include "trainwright/memory/states.h"

namespace trainwright::detail {

// Where an action is highest: the list of the chunk and what is alive there for the action itself.
struct Spot {
  RealBytes total;
  RealBytes activations, transients, logits, gathered, reduced, gradients;
  std::int32_t portion = -1;               // of no single list: -1
  Peak Totals::* peak = &Totals::forward;  // of that list, which names the operator
};

struct ChunkTerms {
  RealBytes whole, half;               // of a micro-batch in flight: before I, after it
  RealBytes sent_forward, sent_input;  // output and input gradient, until the step ends
  RealBytes gradients;                 // from the first backward of its weights on
  RealBytes kept_gradients;   // likewise: autograd's, but for the passes that make them anew
  RealBytes last_gradient;    // likewise: of its input, of the micro-batch before
  RealBytes gathered;         // all step, once gathered
  std::array<Spot, 4> spots;  // by ActionKind F I W B
  Spot first_backward;        // B before there are gradients
};
// Whether all of them are whole numbers of bytes, so that their sums are exact in any order.
bool all_whole(const ChunkTerms& terms);

struct PipelineRules {
  bool outputs_freed_early = false;
  bool last_output_stays = false;
  bool buffers_per_micro_batch = false;
  bool sends_stay = false;
  bool last_gradient_stays = false;
  bool last_input_stays = false;
  bool overlaps = false;  // receives are posted ahead
};

// The numbers of one chunk. Allocates nothing.
ChunkTerms chunk_terms(const ChunkBytes& bytes, const StageContent& content,
                       const StateRules& rules, const PipelineRules& pipeline);
// Buffers between stages that stand all step, for a chunk.
RealBytes transport_bytes(const ChunkBytes& bytes, const PipelineRules& pipeline,
                          std::int64_t microbatches);

struct Highest {
  RealBytes bytes;
  std::size_t moment = 0;
};
using TermsOfChunks = std::vector<const ChunkTerms*>;
// `more`: micro-batches beyond those the moments were walked with.
Highest highest(const TermsOfChunks& chunks, const Moments& moments, double more);
// The bytes of the same by content; exact if all terms are whole and it is below kExact.
RealBytes highest_by_content(const TermsOfChunks& contents, const MomentSums& sums, double more);
inline constexpr RealBytes kExact(0x1.0p53);
// Autograd's gradients of a chunk that are still there from its last backward pass.
RealBytes still_kept(const TermsOfChunks& chunks, std::size_t chunk, const MomentAction& action);
const Spot& spot_of(const TermsOfChunks& chunks, const MomentAction& action);

}  // namespace trainwright::detail
