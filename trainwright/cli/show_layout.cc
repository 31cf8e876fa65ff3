// trainwright show layout: what a layout means on a model, a cluster and a trainer, and whether it
// is legal there. Exit code 1 when it is not.
#include <fmt/core.h>

#include "trainwright/base/text.h"
#include "trainwright/cli/setting.h"
#include "trainwright/cli/show.h"
#include "trainwright/layout/layout.h"
#include "trainwright/report/report.h"
#include "trainwright/work/work.h"

namespace trainwright::cli {
namespace {

std::vector<GroupKind> groups_worth_showing(const Layout& layout, const Model& model) {
  std::vector<GroupKind> kinds;
  for (const GroupKind kind : {GroupKind::Tp, GroupKind::Cp, GroupKind::Dp, GroupKind::DpCp,
                               GroupKind::Pp, GroupKind::Ep, GroupKind::Etp, GroupKind::Edp}) {
    const bool expert = kind == GroupKind::Ep || kind == GroupKind::Etp || kind == GroupKind::Edp;
    const bool has_experts =
        std::any_of(model.kinds.begin(), model.kinds.end(), [](const LayerKind& layer) {
          return std::holds_alternative<MixtureOfExperts>(layer.feed_forward);
        });
    if (kind == GroupKind::DpCp && layout.cp == 1) continue;
    if (expert && !has_experts) continue;
    if (rank_group(layout, kind).size > 1) kinds.push_back(kind);
  }
  return kinds;
}

const std::string& spanned_by(const GroupPlacement& place, const Cluster& cluster) {
  return cluster.groups[place.hardware].tiers[place.spanned].name;
}

std::string groups_table(const Question& setting, int width) {
  Table table{{{"group"},
               {"ranks", Align::Right},
               {"groups", Align::Right},
               {"in one node", Align::Right},
               {"in one scale-up", Align::Right},
               {"spans"},
               {""}},
              {}};
  const Layout& layout = setting.read.layout;
  for (const GroupKind kind : groups_worth_showing(layout, setting.model)) {
    const GroupPlacement place = place_group(layout, kind, setting.cluster);
    table.rows.push_back({std::string(name_of(kind)), with_thousands(place.group.size),
                          with_thousands(place.group.count), with_thousands(place.node.together),
                          with_thousands(place.scale_up.together),
                          spanned_by(place, setting.cluster),
                          place.uniform ? "" : "groups differ; worst shown"});
  }
  return table.rows.empty() ? "" : to_text(table, width) + '\n';
}

std::string runs_text(const Stage& stage, const StageWeights& beside) {
  std::vector<std::string> parts;
  if (stage.embedding && !stage.embedding_share) parts.emplace_back("embedding");
  if (stage.count > 0) {
    parts.push_back(
        fmt::format("{} layer{} from {}", stage.count, stage.count == 1 ? "" : "s", stage.first));
  }
  if (stage.head) parts.emplace_back(stage.head_share ? "final norm" : "head and loss");
  for (const StageWeight weight : beside) parts.emplace_back(name_of(weight));
  if (stage.mtp > 0) parts.push_back(fmt::format("{} MTP", stage.mtp));
  return join(parts, ", ");
}

// Stages that follow each other and hold equally many plain layers are one row.
std::string stages_table(const std::vector<Stage>& stages, const Question& setting, int width) {
  Table table{{{"stage"}, {"pipeline rank"}, {"holds", Align::Wrap}}, {}};
  const auto beside = [&](const Stage& s) {
    return weights_beside_layers(s, setting.model, setting.trainer.code);
  };
  const auto plain = [&](const Stage& s) {
    return !s.embedding && !s.head && s.mtp == 0 && beside(s).empty();
  };
  for (std::size_t i = 0; i < stages.size();) {
    std::size_t end = i + 1;
    while (plain(stages[i]) && end < stages.size() && plain(stages[end]) &&
           stages[end].count == stages[i].count) {
      ++end;
    }
    if (end - i <= 2) {
      table.rows.push_back({std::to_string(i), std::to_string(stages[i].rank),
                            runs_text(stages[i], beside(stages[i]))});
      ++i;
    } else {
      table.rows.push_back({fmt::format("{} to {}", i, end - 1), "",
                            fmt::format("{} layers each", stages[i].count)});
      i = end;
    }
  }
  return to_text(table, width);
}

Json setting_json(const Question& setting, const std::vector<LayoutViolation>& found) {
  const Layout& layout = setting.read.layout;
  Json groups = Json::object();
  for (const GroupKind kind : groups_worth_showing(layout, setting.model)) {
    const GroupPlacement place = place_group(layout, kind, setting.cluster);
    Json group = Json::object();
    group.add("ranks", Json::of(place.group.size))
        .add("groups", Json::of(place.group.count))
        .add("in_one_node", Json::of(place.node.together))
        .add("in_one_scale_up_domain", Json::of(place.scale_up.together))
        .add("spans", Json::of(spanned_by(place, setting.cluster)))
        .add("uniform", Json::of(place.uniform));
    groups.add(std::string(name_of(kind)), std::move(group));
  }
  Json document = Json::object();
  document.add("layout", to_json(layout))
      .add("text", Json::of(to_text(layout)))
      .add("legal", Json::of(is_legal(found)))
      .add("violations", violations_json(found))
      .add("ranks", Json::of(world_size(layout)))
      .add("micro_batches", Json::of(micro_batch_count(layout)))
      .add("tokens_per_step", Json::of(tokens_per_step(layout).value()))
      .add("groups", std::move(groups));
  return document;
}

Result<Output> run_show_layout(const Invocation& invocation) {
  const Question setting = TW_TRY(read_setting(invocation));
  const std::vector<LayoutViolation> found = violations(setting);
  const Exit exit = is_legal(found) ? Exit::Ok : Exit::DoesNotFit;
  if (invocation.json)
    return Output{document_text(invocation.data, setting_json(setting, found)), exit};
  std::string text = setting_text(setting, invocation.width) + '\n';
  if (is_legal(found)) {
    text += groups_table(setting, invocation.width);
    const auto stages = stage_layers(setting.read.layout, setting.model);
    if (stages) text += stages_table(*stages, setting, invocation.width) + '\n';
  }
  text += violations_text(found, invocation.width);
  return Output{text, exit};
}

}  // namespace

Command show_layout_command() {
  return {
      .name = "layout",
      .summary = "which ranks sit where, and whether a layout is valid",
      .details =
          "A layout is key=value pairs joined by commas; dp is what the cluster leaves "
          "when it is not given. Exit code 1 means invalid.",
      .examples = {"trainwright show layout tp=8,pp=4,sp,zero=1,mbs=1,gbs=1024,seq=8192 "
                   "--model llama-3.1-70b --on 64xH100 --trainer megatron@0.12"},
      .topics = {"layout", "job"},
      .arguments = {{"layout", Argument::Kind::Text, "the layout, key=value,...", true, "LAYOUT"},
                    {"--model", Argument::Kind::Text,
                     "zoo name, Hugging Face id or path of a config.json", true, "MODEL"},
                    {"--on", Argument::Kind::Text, "the cluster, for instance 64xH100", true,
                     "CLUSTER"},
                    {"--trainer", Argument::Kind::Text, kTrainerHelp, false, "TRAINER"},
                    {"--job", Argument::Kind::Text, kJobHelp, false, "JOB"}},
      .run = run_show_layout};
}

}  // namespace trainwright::cli
