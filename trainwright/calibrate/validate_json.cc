#include <fmt/format.h>

#include "trainwright/calibrate/calibrate.h"

namespace trainwright {
namespace {

void add_errors(Json& json, const ErrorScore& errors, const std::string& suffix = {}) {
  json.add("mape" + suffix, Json::of(errors.mape))
      .add("median" + suffix, Json::of(errors.median))
      .add("worst" + suffix, Json::of(errors.worst))
      .add("bias" + suffix, Json::of(errors.bias));
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
      .add("tight", Json::of(verdicts.tight))
      .add("tight_ooms", Json::of(verdicts.tight_ooms))
      .add("brier", Json::of(verdicts.brier));
  Json fold = Json::object();
  fold.add("fold", Json::of(verdicts.worst_fold))
      .add("fit_right", Json::of(verdicts.worst_fold_right));
  json.add("worst_verdict_fold", std::move(fold));
}

Json score_json(const MemoryScore& score) {
  Json json = Json::object();
  json.add("rows", Json::of(score.rows));
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
        .add("coverage_rows", Json::of(score.coverage->rows))
        .add("median_half_width", Json::of(score.width));
  }
  return json;
}

Json counts_json(const std::map<std::string, std::int64_t>& counts) {
  Json json = Json::object();
  for (const auto& [reason, count] : counts) json.add(reason, Json::of(count));
  return json;
}

Json constants_json(const FittedConstants& constants) {
  Json json = Json::object();
  if (constants.outside) json.add("outside", Json::of(*constants.outside));
  if (constants.lead) json.add("lead_pipeline", Json::of(kLeads[*constants.lead]));
  return json;
}

std::string_view kind_of(const ScoredRow& row) {
  return row.verdict ? "verdict" : name_of(row.kind);
}
std::string_view outcome_of(const ScoredRow& row) { return row.out_of_memory ? "oom" : "ok"; }

std::string replaced(std::string_view text, char what, std::string_view with) {
  std::string done;
  for (const char c : text) {
    if (c == what) {
      done += with;
    } else {
      done += c;
    }
  }
  return done;
}

// A command for a shell: words with anything but plain characters in single quotes.
std::string shell_text(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    const bool plain = word.find_first_not_of(
                           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                           "0123456789-_=./,@:+") == std::string::npos;
    if (!text.empty()) text += ' ';
    text += plain ? word : fmt::format("'{}'", replaced(word, '\'', "'\\''"));
  }
  return text;
}
std::string quoted_cell(const std::string& text) { return replaced(text, '"', "\"\""); }

Json row_json(const RowResult& result) {
  const ScoredRow& row = result.row;
  Json json = Json::object();
  json.add("label", Json::of(row.label))
      .add("case", Json::of(static_cast<std::int64_t>(row.of_case)))
      .add("fold", Json::of(row.fold))
      .add("kind", Json::of(kind_of(row)))
      .add("at", Json::of(row.at == ReadAt::WorstRank ? "worst-rank" : "pipeline-rank"))
      .add("pipeline_rank", Json::of(row.pipeline_rank))
      .add("outcome", Json::of(outcome_of(row)))
      .add("measured", Json::of(row.measured))
      .add("as_shipped", Json::of(result.as_shipped.bytes))
      .add("low", Json::of(result.as_shipped.low))
      .add("high", Json::of(result.as_shipped.high))
      .add("oom", Json::of(result.as_shipped.oom))
      .add("held_out", Json::of(result.held_out))
      .add("without_learned", Json::of(result.without_learned))
      .add("broken", Json::of(row.broken))
      .add("undetermined", Json::of(row.undetermined));
  if (!result.estimate.empty()) {
    Json words = Json::array();
    for (const std::string& word : result.estimate) words.push(Json::of(word));
    json.add("estimate", std::move(words));
  }
  return json;
}

}  // namespace

Json to_json(const std::vector<SourceScore>& scores, bool with_rows) {
  Json sources = Json::array();
  for (const SourceScore& score : scores) {
    Json entry = Json::object();
    entry.add("source", Json::of(score.source))
        .add("constants", constants_json(score.constants))
        .add("as_shipped", score_json(score.as_shipped))
        .add("held_out", score_json(score.held_out))
        .add("folds", Json::of(score.folds));
    if (score.without_learned) {
      entry.add("without_learned", score_json(*score.without_learned));
    }
    entry.add("skipped", counts_json(score.skipped)).add("refused", counts_json(score.refused));
    if (with_rows) {
      Json rows = Json::array();
      for (const RowResult& row : score.rows) rows.push(row_json(row));
      entry.add("rows", std::move(rows));
    }
    sources.push(std::move(entry));
  }
  Json json = Json::object();
  json.add("sources", std::move(sources));
  return json;
}

std::string to_csv(const std::vector<SourceScore>& scores) {
  constexpr double kMiB = 1048576;
  std::string text =
      "source,label,fold,kind,outcome,measured_mib,as_shipped_mib,low_mib,high_mib,held_out_mib,"
      "without_learned_mib,oom,estimate\n";
  for (const SourceScore& score : scores) {
    for (const RowResult& of : score.rows) {
      text += fmt::format(
          "{},\"{}\",\"{}\",{},{},{:.1f},{:.1f},{:.1f},{:.1f},{:.1f},{:.1f},{:.4f},\"{}\"\n",
          score.source, of.row.label, of.row.fold, kind_of(of.row), outcome_of(of.row),
          of.row.measured / kMiB, of.as_shipped.bytes / kMiB, of.as_shipped.low / kMiB,
          of.as_shipped.high / kMiB, of.held_out / kMiB, of.without_learned / kMiB,
          of.as_shipped.oom, quoted_cell(shell_text(of.estimate)));
    }
  }
  return text;
}

}  // namespace trainwright
