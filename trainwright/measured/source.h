#pragma once
// How the rows of one source become questions, as data/sources/*.json says. Part of measured.h:
// include that one.
//
// A source is a list of rules, and a row goes through all of them. Its rows are those of its name,
// or of the names that "rows" tells ("mlperf_*"): rounds of one thing are one source. A rule
// without "when" holds for every row; "when" asks about columns, {"precision": "fp8*",
// "notes.family": ["gpt", "moe"]}: equal, with * for anything at either end, one of several, "!"
// before what must not be, "<" and
// ">" before a number. What a rule says is laid over what the rules before it said:
//
//   columns   cells that the table lacks, and what they are
//   model     a config.json; "shape": one of data/sources/shapes.json, "zoo": a model's own config,
//             either in place of what the rules before it said
//   on        the cluster
//   trainer   "based_on" and what was switched (trainer.h, read_trainer_variant)
//   layout    keys beside the degrees, batch, sharding, recompute and precision of the columns
//   job       likewise
//   cut       by what layers are dealt out: a function of cuts.h
//   order     an order of its own: a function of orders.h
//   readings  what was measured: kind, whose, which figure, in what unit, to how many digits
//   flops     of a source that prints FLOP/s or its share of a peak and no time: "by" which formula
//             of times.h it counts, and the "peak" in TFLOP/s that the share is of
//   pool      with what other sources' rows times are scored together
//   stack     the software stack (simulate.h) where it is not that of the trainer
//   tuned     why its steps are those of recipes tuned for that machine
//   no_memory why memory is not scored
//   skip, broken, time_broken, undetermined, note, correction   why
//   learned   true: only where facts that rows taught are taken; false: only where they are not
//
// Texts hold columns in braces: "{gpus}xH100"; {vocab + 1} is a sum (also - * /), {vocab|32000} has
// a value (or another column's) where the cell is empty, and {head_dim?} leaves its field out
// there. A column that is needed and empty is the reason why a row is skipped.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/result.h"
#include "trainwright/measured/reading.h"
#include "trainwright/trainer/trainer.h"

namespace trainwright {

struct Condition {
  std::string column;
  std::vector<std::string> patterns;  // one of them
};
struct ReadingRule {
  MemoryKind kind = MemoryKind::Allocated;
  ReadAt at = ReadAt::WorstRank;
  std::string index = "0";
  std::string value;       // a text with columns
  std::string each;        // or a column with one figure for each pipeline rank
  std::string ranks;       // or "allocated", "reserved": of the ranks that were read
  std::string unit = "B";  // B, GB, GiB
  int decimals = 0;        // as printed
};
struct FlopsRule {
  std::string by;
  double peak = 0;  // TFLOP/s
};
struct SourceRule {
  std::vector<Condition> when;  // all of them
  std::optional<Learned> only;
  std::string skip, on, cut, broken, time_broken, no_memory, undetermined, pool, stack, tuned, note,
      correction;
  Json columns = Json::object(), model = Json::object(), trainer = Json::object(),
       layout = Json::object(), job = Json::object();
  bool fresh_model = false;  // "model" names a shape or one of the zoo
  std::optional<Json> order;
  std::optional<FlopsRule> flops;
  std::vector<ReadingRule> readings;
};

struct Source {
  std::string rows;  // a pattern of other names; empty: only its own
  std::vector<SourceRule> rules;
};
using Sources = std::map<std::string, Source>;  // by name
// All faults of all files at once.
Result<Sources> load_sources(const std::string& data_directory);

}  // namespace trainwright
