// trainwright show model: what a config.json describes, counted.
#include <fmt/core.h>

#include "trainwright/base/text.h"
#include "trainwright/cli/show.h"
#include "trainwright/model/model.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {
namespace {

constexpr std::int64_t kUsualSequence = 4096;

std::string shape_lines(const Model& model) {
  std::string text = fmt::format("{} ({})\n", model.name, model.family);
  text += fmt::format("{} layers, hidden {}, vocabulary {}, {} embeddings, {} positions\n",
                      model.layers.size(), model.hidden, with_thousands(model.vocabulary),
                      model.tied ? "tied" : "untied", name_of(model.positions));
  for (const std::string& note : model.notes) text += fmt::format("note: {}\n", note);
  return text;
}

std::string kinds_table(const Model& model, int width) {
  Table table{{{"layers", Align::Right},
               {"attention", Align::Wrap},
               {"feed-forward", Align::Wrap},
               {"parameters each", Align::Right}},
              {}};
  for (std::size_t i = 0; i < model.kinds.size(); ++i) {
    const auto count = std::count(model.layers.begin(), model.layers.end(),
                                  LayerKindId(static_cast<std::int32_t>(i)));
    const Params each = parameters(layer_weights(model, model.kinds[i])).total();
    table.rows.push_back({std::to_string(count), describe_mixing(model.kinds[i]),
                          describe(model.kinds[i].feed_forward), with_thousands(each.value())});
  }
  return to_text(table, width);
}

std::string parameters_table(const Model& model, int width) {
  const Parameters all = parameters(model);
  const Parameters active = active_parameters(model);
  Table table{{{"part"}, {"parameters", Align::Right}, {"active per token", Align::Right}}, {}};
  const auto row = [&](const char* part, Params stored, Params used) {
    if (stored.value() == 0) return;
    table.rows.push_back({part, with_thousands(stored.value()), with_thousands(used.value())});
  };
  row("embedding", all.embedding, active.embedding);
  row("attention", all.attention, active.attention);
  row("feed-forward", all.feed_forward, active.feed_forward);
  row("routed experts", all.routed_experts, active.routed_experts);
  row("shared experts", all.shared_experts, active.shared_experts);
  row("router", all.router, active.router);
  row("norm", all.norm, active.norm);
  row("head", all.head, active.head);
  table.rows.emplace_back();
  row("total", all.total(), active.total());
  const Params mtp = mtp_parameters(model).total();
  if (mtp.value() > 0) {
    table.rows.push_back({"multi-token prediction, apart", with_thousands(mtp.value()), ""});
  }
  return to_text(table, width);
}

std::string flops_table(const Model& model, Tokens sequence, int width) {
  Table table{{{fmt::format("FLOPs per token at {} tokens", with_thousands(sequence.value()))},
               {"forward", Align::Right},
               {"forward + backward", Align::Right}},
              {}};
  const auto row = [&](const std::string& what, Flops train) {
    table.rows.push_back({what, to_text(train / 3.0), to_text(train)});
  };
  row("exact, causal attention", token_flops(model, sequence, AttentionPairs::Causal).train());
  row("exact, full attention", token_flops(model, sequence, AttentionPairs::Full).train());
  row("PaLM's 6N + 12LHQT", palm_token_flops(model, sequence));
  row("Megatron-LM's formula", megatron_token_flops(model, sequence, model.vocabulary));
  return to_text(table, width);
}

Result<Output> run_show_model(const Invocation& invocation) {
  const Tokens sequence(invocation.integer("seq").value_or(kUsualSequence));
  Diagnostics faults;
  if (sequence.value() < 1 || sequence.value() > 1'000'000'000) {
    faults.push_back({"--seq", "must be between 1 and 1,000,000,000 tokens", "try --seq 4096"});
  }
  std::vector<Model> models;
  for (const std::string& name : invocation.texts("model")) {
    auto model = find_model(name, invocation.data.path());
    if (model) {
      models.push_back(*std::move(model));
    } else {
      for (Diagnostic& fault : model.error().diagnostics) faults.push_back(std::move(fault));
    }
  }
  if (!faults.empty()) return fail(std::move(faults));
  if (invocation.json) {
    if (models.size() == 1)
      return Output{document_text(invocation.data, model_report(models.front(), sequence))};
    Json list = Json::array();
    for (const Model& model : models) list.push(model_report(model, sequence));
    return Output{document_text(invocation.data, Json::object().add("models", std::move(list)))};
  }
  std::string text;
  for (const Model& model : models) {
    if (!text.empty()) text += '\n';
    text += shape_lines(model) + '\n' + kinds_table(model, invocation.width) + '\n' +
            parameters_table(model, invocation.width) + '\n' +
            flops_table(model, sequence, invocation.width);
  }
  return Output{text};
}

}  // namespace

Command show_model_command() {
  return {.name = "model",
          .summary = "shape, parameters by part and FLOPs of a model",
          .details =
              "A model is a name of the zoo (trainwright list models), the path of a Hugging "
              "Face config.json, or a directory that holds one.",
          .examples = {"trainwright show model llama-3.1-70b",
                       "trainwright show model ./my-model/config.json --seq 8192 --json"},
          .arguments = {{"model", Argument::Kind::Texts, "zoo names, Hugging Face ids or paths",
                         true, "MODEL"},
                        {"--seq", Argument::Kind::Integer, "sequence length in tokens for FLOPs",
                         false, "TOKENS"}},
          .run = run_show_model};
}

}  // namespace trainwright::cli
