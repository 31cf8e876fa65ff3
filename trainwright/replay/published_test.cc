// The published op-by-op table of a Llama-2 layer, both columns, every row.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "trainwright/base/json.h"
#include "trainwright/base/text.h"
#include "trainwright/replay/replay.h"
#include "trainwright/testing/llama_layer.h"
#include "trainwright/testing/published_table.h"

using namespace trainwright;
using testing::Mentions;

namespace {

struct Row {
  std::string op;
  Bytes bytes;
};

// A column of the table (1: estimator, 3: real); empty when the measurements are not there.
std::vector<Row> published(std::size_t column) {
  std::vector<Row> rows;
  for (const auto& cells : testing::published_table("op_by_op_backward_memory.csv")) {
    if (cells.size() != 5 || !parse_integer(cells[0])) continue;
    rows.push_back({cells[column], Bytes(*parse_integer(cells[column + 1]))});
  }
  return rows;
}

Replay replay_layer(Mentions mentions, Aliases aliases) {
  const auto trace = parse_trace(testing::llama_layer(mentions).text, "layer");
  REQUIRE(trace);
  return replay(resolve(*trace, aliases));
}

std::size_t next_listed(const std::vector<std::string>& names, std::size_t from) {
  while (from < names.size() && names[from] == "-") ++from;
  REQUIRE(from < names.size());
  return from;
}

}  // namespace

TEST_CASE("all 120 rows of the published estimator are reproduced to the byte") {
  const auto rows = published(1);
  const Replay replayed = replay_layer(Mentions::AreUses, Aliases::Ignore);
  const auto names = testing::llama_layer(Mentions::AreUses).estimator_names;
  std::size_t op = 0;
  for (const Row& row : rows) {
    op = next_listed(names, op);
    CHECK(names[op] == row.op);
    // The column is the memory before the op.
    CHECK((op == 0 ? replayed.begin : replayed.after[op - 1]) == row.bytes);
    ++op;
  }
}

TEST_CASE("all 120 rows of the published real run are reproduced to the byte") {
  // The real column is the memory after the op, and its zero already holds the hidden state that
  // enters the layer: 2048 x 4096 x 4 bytes less in every row.
  const Bytes zero(2048 * 4096 * 4);
  const auto rows = published(3);
  const Replay replayed = replay_layer(Mentions::AreIgnored, Aliases::Honour);
  const auto names = testing::llama_layer(Mentions::AreIgnored).real_names;
  std::size_t op = 0;
  for (const Row& row : rows) {
    op = next_listed(names, op);
    CHECK(names[op] == row.op);
    CHECK(replayed.after[op] - zero == row.bytes);
    ++op;
  }
  // The largest row: 2,063,630,336 bytes after the first matmul_grad.
  const Bytes most = *std::max_element(replayed.after.begin(), replayed.after.end());
  CHECK(most - zero == Bytes(2'063'630'336));
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
