// What attention keeps where its tensors are views of larger ones, or copies in another order.
#include <doctest/doctest.h>

#include "trainwright/testing/work_cases.h"

namespace trainwright {
namespace {

// Llama 13B: h 5120, 40 heads of 128, s 2048, here over 2 ranks.
constexpr std::int64_t kHidden = 5120;
constexpr std::int64_t kSequence = 2048;
constexpr std::int64_t kTp = 2;

Bytes kept(const Recipe& recipe, std::int64_t batch,
           AttentionKernel attention = AttentionKernel::Flash) {
  const Slice slice{.tp = kTp, .etp = kTp, .mbs = batch, .seq = kSequence, .attention = attention};
  return layer_totals(llama_model(kHidden, 40, 40, 13824), slice, recipe).kept;
}

}  // namespace

TEST_CASE("a value that is a slice of the joined product keeps query and key with it") {
  Recipe views = paper_recipe();
  views.code.slices_are_views = true;
  // Rotated queries and keys are storages of their own; the slices are 2 bytes each per number.
  for (const std::int64_t b : {1, 4}) {
    const Bytes slices(4 * kSequence * b * kHidden / kTp);
    CHECK(kept(views, b) - kept(paper_recipe(), b) == slices);
  }
  // Products of unfused attention copy several sequences, and the slices go; of one they do not.
  const AttentionKernel unfused = AttentionKernel::FusedSoftmax;
  CHECK(kept(views, 4, unfused) == kept(paper_recipe(), 4, unfused));
  CHECK(kept(views, 1, unfused) - kept(paper_recipe(), 1, unfused) ==
        Bytes(4 * kSequence * kHidden / kTp));
  views.code.joined_projections = false;
  CHECK(kept(views, 1) == kept(paper_recipe(), 1));
}

TEST_CASE("what flash attention made of several sequences is kept once more in another order") {
  Recipe reorders = paper_recipe();
  reorders.code.reorders_heads = true;
  CHECK(kept(reorders, 1) == kept(paper_recipe(), 1));
  CHECK(kept(reorders, 4) - kept(paper_recipe(), 4) == Bytes(2 * kSequence * 4 * kHidden / kTp));
}

TEST_CASE("cosine and sine that a layer looks up are 4 rows of a head for each token") {
  Recipe tables = paper_recipe();
  tables.rope = std::nullopt;
  Recipe looks_up = tables;
  looks_up.code.looks_up_rotation = true;
  // In 16 bit, a head of 128; every rank of tp has them all.
  CHECK(kept(looks_up, 3) - kept(tables, 3) == Bytes(2 * 4 * 128 * kSequence * 3));
}

}  // namespace trainwright
