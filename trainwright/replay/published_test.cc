// The published op-by-op table of a Llama-2 layer, both columns, every row.
#include <doctest/doctest.h>

#include <algorithm>

#include "trainwright/base/json.h"
#include "trainwright/replay/ops.h"
#include "trainwright/testing/llama_layer.h"

using namespace trainwright;
using testing::Mentions;

namespace {

const std::string kExample = TRAINWRIGHT_SOURCE_DIR "/examples/op-by-op/";

// A column of the table beside the program that the example ships.
ColumnBeside beside_column(const std::string& program, Aliases aliases, const std::string& column) {
  const auto trace = read_trace(kExample + program);
  REQUIRE(trace);
  const Trace resolved = resolve(*trace, aliases);
  const auto read = read_memory_column(kExample + column);
  REQUIRE(read);
  REQUIRE(read->rows.size() == 120);
  const auto found = beside(resolved, op_memory(resolved), *read);
  REQUIRE(found);
  return *found;
}

Replay replay_layer(Mentions mentions, Aliases aliases) {
  const auto trace = parse_trace(testing::llama_layer(mentions).text, "layer");
  REQUIRE(trace);
  return replay(resolve(*trace, aliases));
}

}  // namespace

TEST_CASE("the example's programs are those that the other tests replay") {
  CHECK(read_file(kExample + "run.jsonl").value() ==
        testing::llama_layer(Mentions::AreIgnored).text);
  CHECK(read_file(kExample + "mentions.jsonl").value() ==
        testing::llama_layer(Mentions::AreUses).text);
}

TEST_CASE("all 120 rows of the published estimator are reproduced to the byte") {
  const ColumnBeside found =
      beside_column("mentions.jsonl", Aliases::Ignore, "published-estimate.csv");
  CHECK(found.equal == 120);
  CHECK(found.base == Bytes(0));
}

TEST_CASE("all 120 rows of the published real run are reproduced to the byte") {
  const ColumnBeside found = beside_column("run.jsonl", Aliases::Honour, "published-run.csv");
  CHECK(found.equal == 120);
  // Its zero already holds the hidden state that enters the layer: 2048 x 4096 numbers of 4 bytes.
  CHECK(found.base == Bytes(2048 * 4096 * 4));
  // The largest row: 2,063,630,336 bytes after the first matmul_grad.
  const Replay replayed = replay_layer(Mentions::AreIgnored, Aliases::Honour);
  CHECK(*std::max_element(replayed.after.begin(), replayed.after.end()) - found.base ==
        Bytes(2'063'630'336));
}

TEST_CASE("the estimator first differs where it keeps a tensor that a later op only mentions") {
  const ColumnBeside found = beside_column("run.jsonl", Aliases::Honour, "published-estimate.csv");
  REQUIRE(found.first_difference);
  CHECK(found.first_difference->index() == 3);
  CHECK(found.apart == Bytes(-2048 * 4096 * 4));
  CHECK(found.cause.find("frees the output of op 1 pow, 32 MiB") != std::string::npos);
}

TEST_CASE("rows between ops hide what in-place kernels save inside them") {
  // Both columns look between ops, where an input that dies and an output made in place weigh the
  // same; inside an op they do not. The in-place softmax holds one tensor of scores less, 32 heads
  // x 2048 x 2048 x 4 bytes. The peak inside an op is at the first matmul_grad either way.
  const Replay separate = replay_layer(Mentions::AreIgnored, Aliases::Ignore);
  const Replay in_place = replay_layer(Mentions::AreIgnored, Aliases::Honour);
  CHECK(separate.after == in_place.after);
  const auto names = testing::llama_layer(Mentions::AreIgnored).real_names;
  const auto softmax =
      static_cast<std::size_t>(std::find(names.begin(), names.end(), "softmax_") - names.begin());
  CHECK(separate.live[softmax] - in_place.live[softmax] == Bytes(536'870'912));
  CHECK(names[in_place.peak_op.at()] == "matmul_grad");
  CHECK(in_place.peak == separate.peak);
  // The estimator's own peak, from its mentions and without in-place: 1.43 times the real one in
  // the table (2,952,822,784 against 2,063,630,336 bytes).
  const Replay estimator = replay_layer(Mentions::AreUses, Aliases::Ignore);
  CHECK(*std::max_element(estimator.after.begin(), estimator.after.end()) == Bytes(2'952'822'784));
}
