// trainwright help: the words that other commands read.
#include "trainwright/cli/help.h"

#include <fmt/core.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/cli/command.h"
#include "trainwright/cli/glossary.h"
#include "trainwright/layout/keys.h"
#include "trainwright/layout/layout.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {
namespace {

struct Topic {
  std::string_view name;
  std::string (*text)(int width);
};

// A word as it is written, and what it means.
struct Line {
  std::string example, meaning;
};

std::string prose(std::string_view text, int width) {
  return join(wrapped(std::string(text), width), "\n") + '\n';
}

std::string lines_text(const std::vector<Line>& lines, int width) {
  Table table{{{""}, {"", Align::Wrap}}, {}};
  for (const Line& line : lines) table.rows.push_back({"  " + line.example, line.meaning});
  return to_text(table, width);
}

std::string keys_text(std::span<const EntryKey> keys, int width) {
  std::vector<Line> lines;
  for (const EntryKey& key : keys) {
    lines.push_back(
        {std::string(key.example),
         key.takes == EntryKey::Takes::Flag
             ? std::string(key.meaning)
             : fmt::format("{}: {} (default: {})", key.meaning, values_text(key), key.left_out)});
  }
  return lines_text(lines, width);
}

std::string layout_help(int width) {
  return prose("A layout is key=value pairs joined by commas, in any order:", width) +
         "  tp=8,sp,pp=4,zero=1,mbs=1,gbs=512,seq=4096\n\n" + keys_text(layout_keys(), width);
}

std::string job_help(int width) {
  return prose("A job says what is trained and how: key=value pairs joined by commas.", width) +
         "  optimizer=adamw-8bit,lora=16:q_proj+v_proj\n\n" + keys_text(job_keys(), width);
}

std::string cluster_help(int width) {
  std::string text =
      prose("A cluster (--on) is a count and an accelerator, a name or a file:", width);
  text += lines_text(
      {{"64xH100", "64 accelerators in nodes and domains as usually built"},
       {"32x8xA100-80GB", "32 nodes of 8"},
       {"64xH100,network=4x200G", "what is known of their nodes; also cpu=epyc-7742, power=500W"},
       {"256xGB200", "4 NVL72 racks, 64 accelerators of each"},
       {"selene, 64xselene", "a named cluster, or part of it in whole nodes"},
       {"64xH100+32x8xA100", "two groups of unlike accelerators"},
       {"mine.json", "a cluster file"}},
      width);
  text += '\n' + prose(
                     "`trainwright list accelerators` and `list clusters` show the names. A "
                     "cluster file is a JSON object:",
                     width);
  text += R"(  {"name": "mine", "groups": [{"accelerator": "H100", "nodes": 16}]})"
          "\n\n";
  text += lines_text(
      {{"name", "of the cluster (default: the path)"},
       {"groups", "list of 1 to 64 groups of equal accelerators"},
       {"  accelerator", "a known name, or an object as in data/accelerators"},
       {"  nodes", "how many"},
       {"  per_node", "accelerators in one (default: as usually built)"},
       {"  per_domain", "accelerators that share scale-up links (default: as usually built)"},
       {"  network",
        "adapters of a node: \"4x200G\", \"200G\", \"efa\", \"ethernet\" (default: not specified)"},
       {"  cpu", "a known CPU, or its time per operator over a Xeon 8480's: \"1.3\""},
       {"  power", "cap of an accelerator: \"500W\" (default: not specified)"},
       {"  rails",
        "separate networks, one per NIC of a node (default: as usually built; 1 with "
        "tiers)"},
       {"  tiers", "list of links, innermost first (default: as usually built)"},
       {"    name", "\"nvlink\""},
       {"    domain", "accelerators that one joins (default of the last: all)"},
       {"    bandwidth", "each way and accelerator: \"450GB/s\""},
       {"    latency", "of one hop: \"3us\""},
       {"    efficiency", "share of the bandwidth that large messages reach, 0 to 1 (default: 1)"},
       {"    oversubscription", "capacity below over capacity of this tier (default: 1)"},
       {"between", "the tier that joins several groups (default: the slowest of theirs)"},
       {"sources", "object of strings: where each fact is from (default: none)"}},
      width);
  return text;
}

std::string code_fact_values(const CodeFact& fact) {
  if (const auto* number = std::get_if<CodeNumber>(&fact.fact)) {
    return fmt::format("{} to {}", number->least, with_thousands(number->most));
  }
  if (std::holds_alternative<ExpertScores CodeFacts::*>(fact.fact)) {
    return enumerate(to_strings(all_names(ExpertScores{})), "or");
  }
  return "true or false";
}

std::string trainer_help(int width) {
  std::string text =
      prose("A trainer (--trainer) is a name, a name with a version, or a file:", width);
  text += lines_text({{"megatron", "the newest version that is known; also the default"},
                      {"megatron@0.12", "that version, with its rules and defaults"},
                      {"torchtitan@0.3,torch=2.15", "on that PyTorch, not the one of its file"},
                      {"mine.json", "a trainer with some facts set otherwise"}},
                     width);
  text += '\n' + prose(
                     "`trainwright list trainers` shows names and versions, `show trainer "
                     "NAME` all facts. A file is a JSON object:",
                     width);
  text += R"(  {"based_on": "megatron@0.16", "kernels": {"flash-attention": false}})"
          "\n\n";
  std::vector<Line> lines = {
      {"based_on", "the trainer that it is based on, as above"},
      {"kernels", "object: true or false for each of " +
                      enumerate(to_strings(all_names(KernelKind{}))) + " (default: as based_on)"},
      {"loss", "name of one of its losses (default: as based_on)"},
      {"gradients", "dtype that they are added up in, such as bf16 (default: as based_on)"},
      {"workspaces", "object: bytes of each library's workspace (default: as based_on)"},
      {"flash",
       "generation of FlashAttention: 1, 2, 3, or 0 for the accelerator's best kernel "
       "(default: as based_on)"},
      {"attention_takes",
       "times as long as that kernel, where another stands in for it: above 0 "
       "(default: 1)"},
      {"code", "object: how layers are written (default: as based_on)"}};
  for (const CodeFact& fact : kCodeFacts) {
    lines.push_back({fmt::format("  {}", fact.name),
                     fmt::format("{}: {}", fact.meaning, code_fact_values(fact))});
  }
  return text + lines_text(lines, width);
}

// "**MoE** mixture of experts: ..." of the glossary.
struct Term {
  std::vector<std::string> names;  // "HFU", "MFU"
  std::string definition;
};

std::vector<Term> terms() {
  std::vector<Term> list;
  for (const std::string_view line : split(kGlossary, '\n')) {
    std::vector<std::string_view> pieces;
    for (std::size_t at = 0; at != std::string_view::npos;) {
      const std::size_t end = line.find("**", at);
      pieces.push_back(line.substr(at, end == std::string_view::npos ? end : end - at));
      at = end == std::string_view::npos ? end : end + 2;
    }
    if (pieces.size() < 3) continue;
    Term term;
    // Names are in bold, also where one is defined within another's line.
    for (std::size_t i = 1; i < pieces.size(); i += 2) {
      for (const std::string_view name : split(pieces[i], ',')) {
        term.names.emplace_back(trim(name));
      }
      term.names.emplace_back(pieces[i]);  // "reserved, unallocated"
    }
    for (std::size_t i = 1; i < pieces.size(); ++i) term.definition += pieces[i];
    list.push_back(std::move(term));
  }
  return list;
}

std::string definition_of(const std::string& topic, int width) {
  for (const Term& term : terms()) {
    const bool named = std::any_of(term.names.begin(), term.names.end(),
                                   [&](const auto& name) { return lower_case(name) == topic; });
    if (named) return prose(term.definition, width);
  }
  return {};
}

constexpr Topic kTopics[] = {{"layout", layout_help},
                             {"job", job_help},
                             {"cluster", cluster_help},
                             {"trainer", trainer_help}};

Result<Output> run_help(const Invocation& invocation) {
  const std::string topic = lower_case(join(invocation.texts("topic"), " "));
  std::string text = help_text(topic, invocation.width);
  if (text.empty()) text = definition_of(topic, invocation.width);
  if (!text.empty()) {
    if (!invocation.json) return Output{std::move(text)};
    return Output{document_text(invocation.data, Json::object().add("help", Json::of(trim(text))))};
  }
  const auto topics = help_topics();
  std::vector<std::string> known = topics;
  for (const Term& term : terms()) {
    for (const std::string& name : term.names) {
      const std::string word = lower_case(name);
      if (std::find(known.begin(), known.end(), word) == known.end()) known.push_back(word);
    }
  }
  return fail("trainwright help", fmt::format("there is no help on '{}'", topic),
              did_you_mean(topic, known,
                           "topics are " + enumerate(topics) +
                               ", the name of every command, and every term of the glossary"));
}

}  // namespace

std::vector<std::string> help_topics() {
  std::vector<std::string> names;
  for (const Topic& topic : kTopics) names.emplace_back(topic.name);
  return names;
}

std::string help_text(std::string_view name, int width) {
  for (const Topic& topic : kTopics) {
    if (topic.name == name) return topic.text(width);
  }
  return {};
}

Command help_command() {
  return {.name = "help",
          .summary =
              "keys and values of a layout, a job, a cluster or a trainer, and what a term "
              "means",
          .examples = {"trainwright help layout", "trainwright help estimate",
                       "trainwright help exposed communication"},
          .arguments = {{"topic", Argument::Kind::Texts,
                         enumerate(help_topics(), "or") + ", a command, or a term of the glossary",
                         true, "TOPIC"}},
          .run = run_help};
}

}  // namespace trainwright::cli
