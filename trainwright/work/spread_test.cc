// A vocabulary that is spread over the pipeline.
#include <doctest/doctest.h>

#include "trainwright/testing/work_cases.h"

namespace trainwright {
namespace {

constexpr std::int64_t kHidden = 1024;
constexpr std::int64_t kVocabulary = 32768;
constexpr std::int64_t kTokens = 4096;
constexpr std::int64_t kRow = kTokens * kHidden * 2;

Model untied() {
  Model model = gpt_model(kHidden, 16);
  model.vocabulary = kVocabulary;
  model.tied = false;
  return model;
}

Slice spread(std::int64_t ways, std::int64_t tp = 1) {
  return {.tp = tp, .etp = tp, .mbs = 1, .seq = kTokens, .vocabulary_ways = ways};
}

Stage shares_only() {
  Stage stage;
  stage.embedding_share = stage.head_share = true;
  return stage;
}
const Totals& embedding_share(WorkCache& cache, const Slice& slice) {
  return *cache.shares(shares_only(), slice).front().totals;
}
const Totals& head_share(WorkCache& cache, const Slice& slice) {
  return *cache.shares(shares_only(), slice).back().totals;
}

}  // namespace

TEST_CASE("the ranks of a spread vocabulary do the work of one head and hold one of each table") {
  WorkCache cache(untied(), paper_recipe());
  const auto flops = [](const Totals& sum) {
    Flops all;
    for (const Effort& effort : sum.effort) all += effort.matmul;
    return all;
  };
  const Totals& whole = cache.head(spread(1));
  const Totals& share = head_share(cache, spread(8));
  CHECK(flops(share) * 8 == flops(whole));
  CHECK(flops(cache.head(spread(8))) == Flops(0));
  // V / p rows and columns; the ends keep positions and the final norm's gain and bias.
  CHECK(share.parameters.dense.all == Params(kVocabulary / 8 * kHidden));
  CHECK(embedding_share(cache, spread(8)).parameters.dense.all ==
        Params(kVocabulary / 8 * kHidden));
  CHECK(cache.embedding(spread(8)).parameters.dense.all == Params(2048 * kHidden));
  CHECK(cache.head(spread(8)).parameters.dense.all == Params(2 * kHidden));
}

TEST_CASE("rows are padded over tp first and then cut over the pipeline") {
  // 50,257 on 2 ranks of tp: 25,129, padded to 128: 25,216; on 4 ranks of the pipeline 6,304.
  Model model = untied();
  model.vocabulary = 50257;
  Recipe recipe = paper_recipe();
  recipe.code.vocabulary_multiple = 128;
  WorkCache cache(model, recipe);
  CHECK(head_share(cache, spread(4, 2)).parameters.dense.all == Params(6304 * kHidden));
}

TEST_CASE("the first stage keeps the sum it begins with, and a dropout mask") {
  WorkCache cache(untied(), paper_recipe());
  const Bytes tokens(8 * kTokens);
  CHECK(cache.embedding(spread(1)).kept == tokens + Bytes(kRow / 2));
  CHECK(cache.embedding(spread(4)).kept == Bytes(kRow + kRow / 2));
}

TEST_CASE("a share of the head holds the hidden states twice and its logits") {
  // Received in fp32, cast to 16 bit, logits at the loss's peak of 6 bytes.
  WorkCache cache(untied(), paper_recipe());
  const std::int64_t logits = kTokens * kVocabulary / 8;
  CHECK(head_share(cache, spread(8)).forward.bytes >= Bytes(3 * kRow + 6 * logits));
  CHECK(head_share(cache, spread(8)).forward.bytes <= Bytes(3 * kRow + 6 * logits + 1024));
}

TEST_CASE("what a spread vocabulary says over the pipeline") {
  // Up: the sum of the embeddings, the last stage's output in fp32, three numbers per token in
  // fp32. Down: the gradients of both.
  WorkCache cache(untied(), paper_recipe());
  const auto moved = [](const Totals& sum, CollectiveKind kind, Pass pass) {
    return sum.traffic.at(GroupKind::Pp, kind, pass);
  };
  const Totals& in = embedding_share(cache, spread(4));
  CHECK(moved(in, CollectiveKind::AllReduce, Pass::Forward) == Traffic{1, Bytes(kRow)});
  CHECK(moved(in, CollectiveKind::AllGather, Pass::InputGradient) == Traffic{1, Bytes(kRow)});
  const Totals& out = head_share(cache, spread(4));
  CHECK(moved(out, CollectiveKind::AllGather, Pass::Forward) == Traffic{1, Bytes(2 * kRow)});
  CHECK(moved(out, CollectiveKind::AllReduce, Pass::InputGradient) == Traffic{1, Bytes(kRow)});
  CHECK(moved(out, CollectiveKind::AllReduce, Pass::Forward) ==
        Traffic{3, Bytes(std::int64_t{3} * 4 * kTokens)});
  // Shares are beside the passes of a stage.
  CHECK(cache.stage(shares_only(), spread(4)).empty());
  CHECK(cache.shares(shares_only(), spread(4)).size() == 2);
}

}  // namespace trainwright
