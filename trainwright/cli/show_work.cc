// trainwright show work: what one rank of a stage does for one micro-batch, operator by operator.
#include <fmt/core.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/cli/setting.h"
#include "trainwright/cli/show.h"
#include "trainwright/cli/work_formula.h"
#include "trainwright/cli/work_tables.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {
namespace {

Result<WorkSort> sort_named(const std::string& name) {
  const std::vector<std::string> names = {"order", "flops", "kept", "name"};
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    return fail("--sort", fmt::format("unknown order '{}'", name),
                did_you_mean(name, names, "known: " + enumerate(names)));
  }
  return static_cast<WorkSort>(found - names.begin());
}

// What every stage is worked out from.
struct WorkQuestion {
  Question setting;
  Recipe recipe;
};
Slice slice_of(const WorkQuestion& question, const Stage& stage) {
  return slice_of(question.setting.read.layout, question.setting.trainer, stage.id.index(),
                  question.setting.attention);
}

// "first", "last", "all" or a number; the chosen stages.
Result<std::vector<Stage>> stages_named(const std::string& name, const std::vector<Stage>& all) {
  if (name == "all") return all;
  if (name == "first") return std::vector<Stage>{all.front()};
  if (name == "last") return std::vector<Stage>{all.back()};
  const auto number = parse_integer(name);
  const auto count = static_cast<std::int64_t>(all.size());
  if (!number || *number < 0 || *number >= count) {
    return fail("--stage", fmt::format("there is no stage '{}'", name),
                fmt::format("first, last, all, or 0 to {}", count - 1));
  }
  return std::vector<Stage>{all[static_cast<std::size_t>(*number)]};
}

std::string title_of(const Model& model, const ListOf& of) {
  if (of.what != ListOf::What::Layer) return {};
  const LayerKind& kind = model.kinds[of.kind.at()];
  std::string title = fmt::format("{}, {}", describe_mixing(kind), describe(kind.feed_forward));
  if (of.slice.recompute.kind != RecomputeKind::None) {
    title += "; recompute " + to_text(of.slice.recompute);
  }
  if (of.slice.frozen) title += "; frozen";
  if (!of.slice.input_gradient) title += "; nothing before it is trained";
  return title;
}

std::string_view what_of(const ListOf& of) {
  switch (of.what) {
    case ListOf::What::Embedding: return "embedding";
    case ListOf::What::Layer: return "layer";
    case ListOf::What::Mtp: return "multi-token prediction";
    case ListOf::What::Head: return of.slice.vocabulary_ways > 1 ? "final norm" : "head and loss";
    case ListOf::What::EmbeddingShare: return "share of the embedding";
    case ListOf::What::HeadShare: return "share of head and loss";
    case ListOf::What::Copy: return "copy of the embedding";
  }
  return "";
}

// A stage's, then what its rank does of a spread vocabulary.
std::vector<Portion> all_portions(WorkCache& cache, const WorkQuestion& question,
                                  const Stage& stage) {
  const Slice slice = slice_of(question, stage);
  std::vector<Portion> portions = cache.stage(stage, slice);
  for (const Portion& share : cache.shares(stage, slice)) portions.push_back(share);
  return portions;
}

std::vector<WorkPiece> pieces_of(const WorkQuestion& question, const Stage& stage) {
  const auto& [setting, recipe] = question;
  WorkCache cache(setting.model, recipe);
  std::vector<WorkPiece> pieces;
  for (const Portion& portion : all_portions(cache, question, stage)) {
    const ListOf& of = *portion.list;
    WorkPiece piece;
    piece.what = what_of(of);
    piece.title = title_of(setting.model, of);
    piece.count = portion.count;
    if (of.what == ListOf::What::Layer) piece.count *= of.slice.recompute.n;
    piece.list = make_list(setting.model, recipe, of);
    piece.totals = totals(setting.model, recipe, of, piece.list);
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

Totals sum_of(const WorkQuestion& question, const Stage& stage) {
  WorkCache cache(question.setting.model, question.recipe);
  return compose(all_portions(cache, question, stage));
}

// What data parallelism moves for the weights of one of these pieces, as a unit of its own.
Json parameter_traffic_json(const WorkQuestion& question, const WorkPiece& piece) {
  const Layout& layout = question.setting.read.layout;
  const auto bytes = trained_bytes(question.setting.job, layout, question.setting.cluster,
                                   question.setting.trainer);
  Json calls = Json::array();
  if (!bytes || layout.dp * layout.cp == 1) return calls;
  for (const ParameterTraffic& one :
       parameter_traffic(piece.totals.parameters, 1, sharding_of(layout, question.setting.trainer),
                         question.recipe, *bytes)) {
    Json json = Json::object();
    json.add("kind", Json::of(name_of(one.kind)))
        .add("group", Json::of(name_of(one.group)))
        .add("pass", Json::of(name_of(one.pass)))
        .add("calls", Json::of(one.calls))
        .add("bytes", Json::of(one.bytes.value()))
        .add("copied", Json::of(one.copied.value()))
        .add("every_micro_batch", Json::of(one.every_micro_batch));
    calls.push(std::move(json));
  }
  return calls;
}

Json stage_json(const WorkQuestion& question, const Stage& stage) {
  Json pieces = Json::array();
  for (const WorkPiece& piece : pieces_of(question, stage)) {
    Json json = Json::object();
    json.add("what", Json::of(piece.what))
        .add("title", Json::of(piece.title))
        .add("count", Json::of(piece.count))
        .add("list", to_json(piece.list))
        .add("totals", to_json(piece.totals))
        .add("parameter_traffic", parameter_traffic_json(question, piece));
    pieces.push(std::move(json));
  }
  Json json = Json::object();
  json.add("stage", Json::of(static_cast<std::int64_t>(stage.id.index())))
      .add("pipeline_rank", Json::of(stage.rank))
      .add("layers", Json::of(stage.count))
      .add("pieces", std::move(pieces))
      .add("totals", to_json(sum_of(question, stage)));
  return json;
}

std::string stage_text(const WorkQuestion& question, const Stage& stage, WorkSort sort, int width) {
  std::string text = fmt::format("stage {} on pipeline rank {}: one micro-batch of one rank\n",
                                 stage.id.index(), stage.rank);
  text += legend_text(width);
  const auto pieces = pieces_of(question, stage);
  for (const WorkPiece& piece : pieces) text += '\n' + piece_text(piece, sort, width);
  text += '\n' + kinds_text(pieces, width);
  const Recompute recompute = slice_of(question, stage).recompute;
  if (recompute.kind == RecomputeKind::Full && recompute.n > 1) {
    text +=
        fmt::format("\nof {} layers that are run again together only the first keeps its input:\n",
                    recompute.n);
  }
  text += '\n' + sums_text(sum_of(question, stage), width);
  return text;
}

std::string overview(const WorkQuestion& question, const std::vector<Stage>& stages, int width) {
  Table table{{{"stage"},
               {"holds", Align::Wrap},
               {"forward", Align::Right},
               {"backward", Align::Right},
               {"again", Align::Right},
               {"keeps", Align::Right},
               {"parameters", Align::Right}},
              {}};
  for (const Stage& stage : stages) {
    const Totals sum = sum_of(question, stage);
    std::vector<std::string> holds;
    if (stage.embedding && !stage.embedding_share) holds.emplace_back("embedding");
    if (stage.count > 0) holds.push_back(fmt::format("{} layers", stage.count));
    if (stage.mtp > 0) holds.push_back(fmt::format("{} MTP", stage.mtp));
    if (stage.head) holds.emplace_back(stage.head_share ? "final norm" : "head and loss");
    for (const StageWeight weight :
         weights_beside_layers(stage, question.setting.model, question.setting.trainer.code)) {
      holds.emplace_back(name_of(weight));
    }
    table.rows.push_back(
        {std::to_string(stage.id.index()), join(holds, ", "), to_text(sum.effort[0].matmul),
         to_text(sum.effort[1].matmul + sum.effort[2].matmul), to_text(sum.effort[3].matmul),
         to_text(sum.kept), to_text(both(sum.parameters, &HeldGroup::all))});
  }
  return "one micro-batch of one rank, by stage\n\n" + to_text(table, width);
}

// Layers of the stages by formula, and what else the stages keep, by name.
struct Formulas {
  std::vector<FormulaPiece> layers;
  std::vector<std::pair<std::string, Bytes>> others;
};
void add_layer(Formulas& formulas, const WorkQuestion& question, const Portion& portion) {
  const ListOf& of = *portion.list;
  const std::int64_t n = of.slice.recompute.n;
  FormulaPiece piece{title_of(question.setting.model, of), portion.count * n, n,
                     kept_formula(question.setting.model, question.recipe, of)};
  for (FormulaPiece& one : formulas.layers) {
    const bool same = one.title == piece.title && one.formula.text == piece.formula.text &&
                      one.formula.bytes == piece.formula.bytes;
    if (!same) continue;
    one.layers += piece.layers;
    return;
  }
  formulas.layers.push_back(std::move(piece));
}
Formulas formulas_of(const WorkQuestion& question, const std::vector<Stage>& stages) {
  Formulas formulas;
  WorkCache cache(question.setting.model, question.recipe);
  for (const Stage& stage : stages) {
    for (const Portion& portion : all_portions(cache, question, stage)) {
      if (portion.list->what == ListOf::What::Layer) {
        add_layer(formulas, question, portion);
      } else {
        formulas.others.emplace_back(what_of(*portion.list), portion.totals->kept * portion.count);
      }
    }
  }
  return formulas;
}

std::string formulas_text(const Formulas& formulas, int width) {
  std::string text = "activations saved for the backward pass of a micro-batch\n";
  for (const FormulaPiece& piece : formulas.layers) text += '\n' + formula_text(piece, width);
  std::vector<std::string> others;
  for (const auto& [what, kept] : formulas.others) {
    others.push_back(fmt::format("{} {}", what, to_text(kept)));
  }
  if (others.empty()) return text;
  return text + '\n' + join(wrapped("Beside layers: " + join(others, ", "), width), "\n") + '\n';
}

Json formulas_json(const Formulas& formulas) {
  Json layers = Json::array();
  for (const FormulaPiece& piece : formulas.layers) layers.push(formula_json(piece));
  Json others = Json::array();
  for (const auto& [what, kept] : formulas.others) {
    others.push(Json::object().add("what", Json::of(what)).add("bytes", Json::of(kept.value())));
  }
  return Json::object().add("layers", std::move(layers)).add("others", std::move(others));
}

Output formula_output(const Invocation& invocation, const WorkQuestion& question,
                      const std::vector<Stage>& stages) {
  const Formulas formulas = formulas_of(question, stages);
  if (invocation.json) {
    Json document = Json::object();
    document.add("layout", to_json(question.setting.read.layout))
        .add("formulas", formulas_json(formulas));
    return {document_text(invocation.data, document), Exit::Ok};
  }
  return {setting_text(question.setting, invocation.width) + '\n' +
              formulas_text(formulas, invocation.width),
          Exit::Ok};
}

Result<Output> run_show_work(const Invocation& invocation) {
  Diagnostics faults;
  const auto sort = value_or_faults(sort_named(invocation.text("sort").value_or("order")), faults);
  if (invocation.flag("formula") && invocation.flag("sort")) {
    faults.push_back(
        {"--sort", "terms of --formula have the order of the layer", "leave one of them out"});
  }
  const Question setting = TW_TRY(read_setting(invocation, std::move(faults)));
  const Layout& layout = setting.read.layout;
  const auto found = violations(setting);
  if (!is_legal(found)) {
    if (invocation.json) {
      Json document = Json::object();
      document.add("legal", Json::of(false)).add("violations", violations_json(found));
      return Output{document_text(invocation.data, document), Exit::DoesNotFit};
    }
    return Output{
        setting_text(setting, invocation.width) + '\n' + violations_text(found, invocation.width),
        Exit::DoesNotFit};
  }
  const Slice first = slice_of(layout, setting.trainer, 0, setting.attention);
  if (auto fault = too_large(widths_of(setting.model, setting.job), first)) {
    return fail({*std::move(fault)});
  }
  const auto all = TW_TRY(stage_layers(layout, setting.model));
  const std::string which = invocation.text("stage").value_or("first");
  const auto stages = TW_TRY(stages_named(which, all));
  const WorkQuestion question{setting, recipe_of(setting.trainer, StoredAs(layout), setting.job)};
  if (invocation.flag("formula")) return formula_output(invocation, question, stages);
  if (invocation.json) {
    Json list = Json::array();
    for (const Stage& stage : stages) list.push(stage_json(question, stage));
    Json document = Json::object();
    document.add("layout", to_json(layout)).add("stages", std::move(list));
    return Output{document_text(invocation.data, document), Exit::Ok};
  }
  std::string text = setting_text(setting, invocation.width) + '\n';
  text += which == "all" ? overview(question, stages, invocation.width)
                         : stage_text(question, stages.front(), *sort, invocation.width);
  return Output{text, Exit::Ok};
}

}  // namespace

Command show_work_command() {
  std::vector<Argument> arguments = setting_arguments();
  arguments.push_back({"--stage", Argument::Kind::Text,
                       "first, last, all or a number (default: first)", false, "STAGE"});
  arguments.push_back({"--sort", Argument::Kind::Text,
                       "order, flops, kept or name (default: order)", false, "HOW"});
  arguments.push_back({"--formula", Argument::Kind::Flag,
                       "the activations that layers keep, as a formula in s, b, h, a, t"});
  return {
      .name = "work",
      .summary = "what one rank does for one micro-batch, operator by operator",
      .details =
          "FLOPs, bytes moved, tensors kept for backward and collectives of every operator of a "
          "stage. Attention counts the pairs that the trainer's kernel computes: those below the "
          "diagonal with flash attention, all of them otherwise. --formula derives what layers "
          "keep "
          "for their backward pass from the same list, in the letters of Korthikanti et al. "
          "(arXiv:2205.05198).",
      .examples = {"trainwright show work llama-3.1-70b --on 64xH100 --stage last "
                   "--layout tp=8,pp=4,sp,zero=1,mbs=1,gbs=1024,seq=8192",
                   "trainwright show work megatron-22b --on 8xA100-80GB --formula "
                   "--trainer megatron-lm-2022 --layout tp=8,sp,mbs=4,gbs=4,seq=2048"},
      .arguments = std::move(arguments),
      .run = run_show_work};
}

}  // namespace trainwright::cli
