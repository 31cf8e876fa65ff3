// A vocabulary that is spread over the pipeline: every rank holds its rows of both tables.
#include <doctest/doctest.h>

#include "trainwright/testing/memory_cases.h"

namespace trainwright {
namespace {

using namespace testing;

Case small(const std::string& more) {
  Case c{.model = gpt({.layers = 8}),
         .trainer = picked_trainer("zbpp@1.2"),
         .layout = layout_of("pp=4,dp=2,zero=1,mbs=1,gbs=32,seq=2048,precision=fp16" + more)};
  c.model.tied = false;
  return c;
}

TEST_CASE("states of a spread vocabulary are those of the whole one, in equal parts") {
  const MemoryEstimate whole = small("").estimate(), spread = small(",vocab_parallel").estimate();
  // Both tables: 2 x 51,200 x 1,024 parameters of 2 bytes, a quarter on every rank, where the first
  // and the last rank had one of them.
  const Bytes table(std::int64_t{2} * 51200 * 1024);
  const auto weights = [](const MemoryEstimate& of, std::size_t rank) {
    return bytes_of(of.classes[rank], Category::Weights);
  };
  CHECK(weights(spread, 1) - weights(whole, 1) == table / 2);
  CHECK(weights(spread, 2) - weights(whole, 2) == table / 2);
  CHECK(weights(whole, 0) - weights(spread, 0) == table / 2);
  CHECK(weights(whole, 3) - weights(spread, 3) == table / 2);
}

TEST_CASE("every rank has its share of the logits of one micro-batch, beside all else") {
  const MemoryEstimate spread = small(",vocab_parallel").estimate();
  for (const RankClass& of : spread.classes) {
    // 2,048 x 51,200 / 4 logits; the hidden states once in fp32 and once in fp16.
    const Case c = small(",vocab_parallel");
    const Slice slice = slice_of(c.layout, c.trainer);
    const Recipe recipe = recipe_of(c.trainer, c.layout.precision);
    CHECK(bytes_of(of, Category::Logits) ==
          totals(make_list(c.model, recipe, {ListOf::What::HeadShare, LayerKindId(0), slice}))
              .forward.bytes);
    CHECK(real(bytes_of(of, Category::Logits)).value() >=
          2048 * 51200 / 4 * recipe.loss.forward + 2048 * 1024 * 6);
  }
}

TEST_CASE("a frozen embedding has no gradients on any rank of a spread vocabulary") {
  Case c = small(",vocab_parallel");
  const MemoryEstimate all = c.estimate();
  c.job.frozen.insert(Part::Embedding);
  const MemoryEstimate frozen = c.estimate();
  for (std::size_t rank = 1; rank < 4; ++rank) {
    // fp16: 2 bytes of each of its 12,800 x 1,024.
    CHECK(bytes_of(all.classes[rank], Category::Gradients) -
              bytes_of(frozen.classes[rank], Category::Gradients) ==
          Bytes(std::int64_t{2} * 12800 * 1024));
  }
}

TEST_CASE("one micro-batch more is in flight on every rank of 1F1B, two on V-Half") {
  // README.md of sail-sg/VocabularyParallelism: p + 1 where 1F1B has p.
  const MemoryEstimate spread = small(",vocab_parallel").estimate();
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    CHECK(spread.classes[static_cast<std::size_t>(rank)].moment.in_flight == 4 - rank + 1);
  }
  const auto in_flight = [](const std::string& more) {
    return small(",vpp=2,schedule=v-half" + more).estimate().classes[0].moment.in_flight;
  };
  // Of each of its two chunks.
  CHECK(in_flight(",vocab_parallel") >= in_flight("") + 2 * 2);
}

}  // namespace
}  // namespace trainwright
