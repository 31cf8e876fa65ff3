#include "trainwright/calibrate/calibrate.h"

namespace trainwright {
namespace {

Json errors_json(const ErrorScore& errors) {
  return Json::object()
      .add("rows", Json::of(errors.rows))
      .add("mape", Json::of(errors.mape))
      .add("median", Json::of(errors.median))
      .add("worst", Json::of(errors.worst))
      .add("bias", Json::of(errors.bias));
}

Json score_json(const TimeScore& score) {
  Json json = score.errors ? errors_json(*score.errors) : Json::object();
  if (score.without_broken) json.add("without_broken", errors_json(*score.without_broken));
  if (score.coverage) {
    json.add("coverage_90", Json::of(score.coverage->share))
        .add("coverage_rows", Json::of(score.coverage->rows))
        .add("median_half_width", Json::of(score.width));
  }
  return json;
}

Json row_json(const TimeRow& row) {
  Json json = Json::object();
  json.add("label", Json::of(row.label))
      .add("fold", Json::of(row.fold))
      .add("measured", Json::of(row.measured))
      .add("as_shipped", Json::of(row.as_shipped))
      .add("low", Json::of(row.low))
      .add("high", Json::of(row.high))
      .add("held_out", Json::of(row.held_out))
      .add("broken", Json::of(row.broken));
  if (!row.estimate.empty()) {
    Json words = Json::array();
    for (const std::string& word : row.estimate) words.push(Json::of(word));
    json.add("estimate", std::move(words));
  }
  return json;
}

}  // namespace

Json to_json(const std::vector<TimeSourceScore>& scores, bool with_rows) {
  Json sources = Json::array();
  for (const TimeSourceScore& score : scores) {
    Json json = Json::object(), stacks = Json::array();
    for (const std::string& stack : score.stacks) stacks.push(Json::of(stack));
    json.add("source", Json::of(score.source))
        .add("stacks", std::move(stacks))
        .add("folds", Json::of(score.folds))
        .add("as_shipped", score_json(score.as_shipped))
        .add("held_out", score_json(score.held_out));
    if (score.one_row) json.add("one_row", Json::object().add("mape", Json::of(*score.one_row)));
    if (with_rows) {
      Json rows = Json::array();
      for (const TimeRow& row : score.rows) rows.push(row_json(row));
      json.add("rows", std::move(rows));
    }
    Json skipped = Json::object();
    for (const auto& [reason, count] : score.skipped) skipped.add(reason, Json::of(count));
    json.add("skipped", std::move(skipped));
    sources.push(std::move(json));
  }
  return Json::object().add("sources", std::move(sources));
}

}  // namespace trainwright
