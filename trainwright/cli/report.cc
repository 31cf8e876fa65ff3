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
  output.files.push_back({out, TW_TRY(report_page(invocation.data, document, path)), true});
  output.text =
      invocation.json ? document_text(Json::object().add("file", Json::of(out))) : out + "\n";
  return output;
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
  Json shown = document;
  for (JsonMember& member : shown.members) {
    if (member.key == "best" && member.value.items.size() > kMostDetailed) {
      member.value.items.resize(kMostDetailed);
    }
  }
  return filled_page(TW_TRY(read_file(data.path() + "/report/page.html")), shown);
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
          .arguments = {{"plan", Argument::Kind::Text, "what `plan --json --details` printed", true,
                         "PLAN.json"},
                        {"--out", Argument::Kind::Text, "the page (default: plan.html)", false,
                         "FILE"}},
          .run = run_report};
}

}  // namespace trainwright::cli
