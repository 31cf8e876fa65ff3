// trainwright report: a plan as a page to look at.
#include "trainwright/report/report.h"

#include <fmt/core.h>

#include "trainwright/cli/plan_details.h"

namespace trainwright::cli {
namespace {

Result<Output> run_report(const Invocation& invocation) {
  const std::string path = *invocation.text("plan");
  const std::string text = TW_TRY(read_file(path));
  const Json document = TW_TRY(parse_json(text, path));
  const std::string out = invocation.text("out").value_or("plan.html");
  Output output;
  output.files.push_back({out, TW_TRY(report_page(invocation.data, document, path))});
  if (const auto folder = invocation.text("svg")) {
    for (File& file : report_pictures(document, *folder)) output.files.push_back(std::move(file));
  }
  Json names = Json::array();
  for (const File& file : output.files) {
    names.push(Json::of(file.path));
    output.text += file.path + '\n';
  }
  if (invocation.json)
    output.text = document_text(invocation.data, Json::object().add("files", std::move(names)));
  return output;
}

Json only(const Json& object, std::initializer_list<std::string_view> keys) {
  Json kept = Json::object();
  for (const std::string_view key : keys) {
    if (const Json* value = object.find(key)) kept.add(std::string(key), *value);
  }
  return kept;
}

// Of a planned layout what the page draws: a thousand classes of ranks would be megabytes.
Json drawn_layout(const Json& planned) {
  const Json* memory = planned.find("memory");
  const Json* classes = memory == nullptr ? nullptr : memory->find("classes");
  if (classes == nullptr) return planned;
  Json list = Json::array();
  for (const Json& one : classes->items) {
    Json rank = only(one, {"pipeline_rank", "ranks", "layers", "driver", "peak"});
    Json bytes = Json::object();
    if (const Json* all = one.find("bytes")) {
      for (const auto& [category, value] : all->members) {
        if (value.integer > 0) bytes.add(category, value);
      }
    }
    list.push(std::move(rank.add("bytes", std::move(bytes))));
  }
  Json json = only(planned, {"layout", "time"});
  json.add("memory",
           std::move(only(*memory, {"worst", "capacity", "low", "high"}).add("classes", list)));
  return json;
}

Json drawn(const Json& document) {
  Json shown = Json::object();
  for (const auto& [key, value] : document.members) {
    if (key == "why_not" || key == "pareto") continue;  // in the words of the details
    if (key == "smallest") {
      shown.add(key, drawn_layout(value));
    } else if (key == "today") {
      const Json* judged = value.find("judged");
      if (judged != nullptr) shown.add(key, Json::object().add("judged", drawn_layout(*judged)));
    } else if (key == "best") {
      Json best = Json::array();
      for (const Json& one : value.items) {
        if (best.items.size() < kMostDetailed) best.push(drawn_layout(one));
      }
      shown.add(key, std::move(best));
    } else {
      shown.add(key, value);
    }
  }
  return shown;
}

}  // namespace

Result<std::string> report_page(const DataDirectory& data, const Json& document,
                                const std::string& origin) {
  const char* hint = "write it with: trainwright plan ... --json --details";
  const Json* schema = document.find("schema");
  if (!document.is_object() || schema == nullptr || document.find("end") == nullptr) {
    return fail(origin, "it is not the answer of a plan", hint);
  }
  if (!schema->is_integer() || schema->integer != kSchema) {
    return fail(origin, fmt::format("its schema is not {}", kSchema),
                "make the plan again with this version");
  }
  if (document.find("details") == nullptr) return fail(origin, "it has no details", hint);
  return filled_page(TW_TRY(read_file(data.path() + "/report/page.html")), drawn(document));
}

Command report_command() {
  return {.name = "report",
          .summary = "a plan as a page to look at",
          .details =
              "Writes one HTML file that needs nothing else: the answer, memory by pipeline rank, "
              "where the time goes, the pipeline's timeline, the search, and why not the others. "
              "`plan --report FILE` writes the same at once.",
          .examples = {"trainwright plan llama-3.1-8b --on 8xH100 --batch 128 --seq 8192 --json "
                       "--details > plan.json",
                       "trainwright report plan.json --out plan.html"},
          .arguments =
              {{"plan", Argument::Kind::Text, "what `plan --json --details` printed", true,
                "PLAN.json"},
               {"--out", Argument::Kind::Text, "the page (default: plan.html)", false, "FILE"},
               {"--svg", Argument::Kind::Text,
                "folder to write memory, time, timelines, scaling, search and residuals into, a "
                "picture each",
                false, "DIR"}},
          .run = run_report};
}

}  // namespace trainwright::cli
