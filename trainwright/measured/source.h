#pragma once
// How the rows of one source become questions, as data/sources/*.json says. Part of measured.h:
// include that one.
//
// A source is a list of rules, and a row goes through all of them. A rule without "when" holds for
// every row; "when" asks about columns, {"precision": "fp8*", "notes.family": ["gpt", "moe"]}:
// equal, with * for anything at either end, one of several, "!" before what must not be, "<" and
// ">" before a number. What a rule says is laid over what the rules before it said:
//
//   columns   cells that the table lacks, and what they are
//   model     a config.json; "shape": one of data/sources/shapes.json, "zoo": a model's own config
//   on        the cluster
//   trainer   "based_on" and what was switched (trainer.h, read_trainer_variant)
//   layout    keys beside the degrees, batch, sharding, recompute and precision of the columns
//   job       likewise
//   cut       by what layers are dealt out: a function of cuts.h
//   order     an order of its own: a function of orders.h
//   readings  what was measured: kind, whose, which figure, in what unit, to how many digits
//   skip, broken, undetermined, note, correction   why
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
struct SourceRule {
  std::vector<Condition> when;  // all of them
  std::optional<Learned> only;
  std::string skip, on, cut, broken, undetermined, note, correction;
  Json columns = Json::object(), model = Json::object(), trainer = Json::object(),
       layout = Json::object(), job = Json::object();
  std::optional<Json> order;
  std::vector<ReadingRule> readings;
};

using Sources = std::map<std::string, std::vector<SourceRule>>;  // by name
// All faults of all files at once.
Result<Sources> load_sources(const std::string& data_directory);

}  // namespace trainwright
