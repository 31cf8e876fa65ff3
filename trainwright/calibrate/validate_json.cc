#include <fmt/format.h>

#include "trainwright/calibrate/calibrate.h"

namespace trainwright {
namespace {

void add_errors(Json& json, const ErrorScore& errors, const std::string& suffix = {}) {
  json.add("mape" + suffix, Json::of(errors.mape))
      .add("median" + suffix, Json::of(errors.median))
      .add("worst" + suffix, Json::of(errors.worst))
      .add("bias" + suffix, Json::of(errors.bias));
  Json fold = Json::object();
  fold.add("fold", Json::of(errors.worst_fold)).add("mape", Json::of(errors.worst_fold_mape));
  json.add("worst_fold" + suffix, std::move(fold));
}

Json error_json(const ErrorScore& errors) {
  Json json = Json::object();
  json.add("rows", Json::of(errors.rows));
  add_errors(json, errors);
  return json;
}

void add_verdicts(Json& json, const VerdictScore& verdicts) {
  const auto share = static_cast<double>(verdicts.right) / static_cast<double>(verdicts.rows);
  json.add("verdicts", Json::of(verdicts.rows))
      .add("fit_right", Json::of(share))
      .add("false_fits", Json::of(verdicts.false_fits))
      .add("false_ooms", Json::of(verdicts.false_ooms))
      .add("brier", Json::of(verdicts.brier));
  Json fold = Json::object();
  fold.add("fold", Json::of(verdicts.worst_fold))
      .add("fit_right", Json::of(verdicts.worst_fold_right));
  json.add("worst_verdict_fold", std::move(fold));
}

Json to_json(const MemoryFit& constants) {
  Json json = Json::object();
  for (std::size_t i = 0; i < kMemoryConstants; ++i) {
    json.add(std::string(name_of(static_cast<MemoryConstant>(i))), Json::of(constants[i]));
  }
  return json;
}

Json to_json(const MemoryScore& score, const std::map<std::string, std::int64_t>& skipped) {
  Json json = Json::object();
  json.add("rows", Json::of(score.rows));
  Json reasons = Json::object();
  for (const auto& [reason, count] : skipped) reasons.add(reason, Json::of(count));
  json.add("skipped", std::move(reasons));
  json.add("constants", Json::of(score.constants));
  if (score.errors) add_errors(json, *score.errors);
  for (const auto& [kind, errors] : score.by_kind) add_errors(json, errors, "_" + kind);
  if (score.without_broken) json.add("without_broken", error_json(*score.without_broken));
  if (score.undetermined) json.add("undetermined", error_json(*score.undetermined));
  if (score.verdicts) {
    add_verdicts(json, *score.verdicts);
    json.add("oom_chances_calibrated", Json::of(score.calibrated.value_or(false)));
  }
  if (score.with_crashes) {
    Json all = Json::object();
    add_verdicts(all, *score.with_crashes);
    json.add("with_likely_crashes", std::move(all));
  }
  if (score.coverage) {
    json.add("coverage_90", Json::of(score.coverage->share))
        .add("coverage_calibrated", Json::of(score.coverage->calibrated));
  }
  json.add("values", to_json(score.values));
  return json;
}

}  // namespace

Json to_json(const std::vector<SourceScore>& scores, const MemoryFit& shipped) {
  Json sources = Json::array();
  for (const SourceScore& score : scores) {
    Json entry = Json::object();
    entry.add("source", Json::of(score.source))
        .add("folds", Json::of(score.folds))
        .add("folds_with_learned", Json::of(score.folds_with_learned))
        .add("held_out", to_json(score.held_out, score.skipped))
        .add("as_shipped", to_json(score.as_shipped, score.skipped));
    if (score.as_shipped_without_learned) {
      entry.add("held_out_without_learned", to_json(*score.held_out_without_learned, score.skipped))
          .add("as_shipped_without_learned",
               to_json(*score.as_shipped_without_learned, score.skipped));
    }
    sources.push(std::move(entry));
  }
  Json json = Json::object();
  json.add("sources", std::move(sources)).add("constants", to_json(shipped));
  return json;
}

std::string to_csv(const std::vector<SourceScore>& scores) {
  constexpr double kMiB = 1048576;
  std::string text =
      "source,label,fold,kind,outcome,measured_mib,held_out_mib,as_shipped_mib,fixed_mib,"
      "coming_mib,communicators\n";
  for (const SourceScore& score : scores) {
    for (const RowResult& row : score.rows) {
      text +=
          fmt::format("{},\"{}\",\"{}\",{},{},{:.1f},{:.1f},{:.1f},{:.1f},{:.1f},{:.0f}\n",
                      score.source, row.label, row.fold,
                      row.verdict ? "verdict" : name_of(row.kind), row.out_of_memory ? "oom" : "ok",
                      row.measured / kMiB, row.held_out / kMiB, row.as_shipped / kMiB,
                      row.terms.fixed / kMiB, of(row.terms.times, MemoryConstant::Slack) / kMiB,
                      of(row.terms.times, MemoryConstant::Communicator));
    }
  }
  return text;
}

}  // namespace trainwright
