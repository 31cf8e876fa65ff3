// From a plan to settings: the pipeline, its schedule and the layers of its stages.
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/export/say.h"

namespace trainwright::detail {
namespace {

std::string repeated(char letter, std::int64_t count) {
  if (count == 0) return "";
  return count == 1 ? std::string(1, letter) : fmt::format("{}*{}", letter, count);
}

// Megatron's letters: E embedding, t layer, m layer that predicts further tokens, L loss.
std::string letters_of(const std::vector<Stage>& stages) {
  std::vector<std::string> texts;
  for (const Stage& stage : stages) {
    texts.push_back((stage.embedding ? "E" : "") + repeated('t', stage.count) +
                    repeated('m', stage.mtp) + (stage.head ? "L" : ""));
  }
  return join(texts, "|");
}

// `names`: of the embedding, of a layer with N for its number, of the final norm and the head.
std::string modules_of(const std::vector<Stage>& stages, std::string_view names) {
  const auto words = split(names, ' ');
  std::vector<std::string> lists;
  for (const Stage& stage : stages) {
    std::vector<std::string> modules;
    if (stage.embedding) modules.emplace_back(words[0]);
    for (std::int64_t i = 0; i < stage.count; ++i) {
      std::string name(words[1]);
      modules.push_back(name.replace(name.find('N'), 1, std::to_string(stage.first + i)));
    }
    if (stage.head) modules.insert(modules.end(), words.begin() + 2, words.end());
    lists.push_back(list_text(modules));
  }
  return list_text(lists);
}

std::string counts_text(const std::vector<Stage>& stages) {
  const auto less = [](const Stage& a, const Stage& b) { return a.count < b.count; };
  const auto [least, most] = std::minmax_element(stages.begin(), stages.end(), less);
  if (least->count == most->count) {
    return fmt::format("{} stages of {} layers", stages.size(), least->count);
  }
  return fmt::format("{} stages of {} to {} layers", stages.size(), least->count, most->count);
}

// An order from a file still needs a name that says how stages lie on ranks.
ScheduleKind named_schedule(const Layout& layout) {
  if (layout.schedule != ScheduleKind::Csv) return layout.schedule;
  if (layout.placement == StagePlacement::V) return ScheduleKind::ZbV;
  return usual_schedule(layout.pp, layout.vpp);
}

void say_schedule(Speech& speech) {
  const Plan& plan = speech.plan;
  const Layout& layout = plan.layout;
  const auto usual = [](Layout& near) {
    near.schedule = usual_schedule(near.pp, near.vpp);
    near.placement = usual_placement(near.schedule, near.vpp);
  };
  const ScheduleKind kind = named_schedule(layout);
  std::string name;
  for (const TrainerSchedule& one : plan.trainer.schedules) {
    if (one.kind == kind && name.empty()) name = one.name;
  }
  say(speech, {.key = "schedule",
               .value = std::string(name_of(kind)),
               .filling = {.number = name, .usual = name},
               .needed = kind != usual_schedule(layout.pp, layout.vpp),
               .unsay = usual});
  if (layout.schedule != ScheduleKind::Csv) return;
  say(speech, {.key = "schedule_csv",
               .value = "schedule.csv",
               .filling = {.usual = "schedule.csv"},
               .why = "the order of actions; the name beside it places the stages",
               .unsay = usual});
}

void say_count(Speech& speech, const char* key, std::int64_t count, std::int64_t most,
               const std::function<void(Layout&)>& unsay) {
  if (count == 0) return;
  if (count > most) {
    return cannot_say(speech, fmt::format("{}={}", key, count), "it can be counted as one layer",
                      unsay);
  }
  const std::string number = std::to_string(count);
  say(speech, {.key = key,
               .value = number,
               .filling = {.number = number, .usual = most > 1 ? number : ""},
               .unsay = unsay});
}

// An explicit list of what each stage holds where the trainer takes one and needs it.
bool say_split(Speech& speech, const std::vector<Stage>& stages) {
  const Layout& layout = speech.plan.layout;
  const std::string* split = find_setting(speech.plan.trainer, "split");
  const bool listed = !layout.layers.empty() || layout.mtp_stage || layout.count_embedding > 1 ||
                      layout.count_loss > 1;
  if (split == nullptr) {
    if (listed) {
      cannot_say(speech, "layers of each stage", "it deals them out by itself", [](Layout& near) {
        near.layers.clear();
        near.mtp_stage.reset();
        near.count_embedding = std::min<std::int64_t>(near.count_embedding, 1);
        near.count_loss = std::min<std::int64_t>(near.count_loss, 1);
      });
    }
    return false;
  }
  const std::string* names = find_setting(speech.plan.trainer, "stage_modules");
  if (names == nullptr && !listed) return false;
  say(speech, {.key = "split",
               .value = "explicit",
               .filling = {.letters = letters_of(stages),
                           .modules = names == nullptr ? "" : modules_of(stages, *names)},
               .why = counts_text(stages)});
  return true;
}

void say_dealing(Speech& speech, const std::vector<Stage>& stages) {
  const Layout& layout = speech.plan.layout;
  constexpr std::int64_t kMany = kMostDegree;
  if (layout.vpp > 1) {
    const std::string number = std::to_string(layout.vpp);
    say(speech, {.key = "vpp",
                 .value = number,
                 .filling = {.number = number,
                             .per_stage = std::to_string(stages.front().count),
                             .usual = number},
                 .why = counts_text(stages),
                 .unsay = [](Layout& near) {
                   near.vpp = 1;
                   near.schedule = usual_schedule(near.pp, 1);
                   near.placement = usual_placement(near.schedule, 1);
                 }});
  }
  say_count(speech, "first_stage_layers", layout.first_layers, kMany,
            [](Layout& near) { near.first_layers = 0; });
  say_count(speech, "last_stage_layers", layout.last_layers, kMany,
            [](Layout& near) { near.last_layers = 0; });
  const Layout usual = usual_layout(speech.plan.trainer);
  if (layout.count_embedding != usual.count_embedding) {
    say_count(speech, "count_embedding", layout.count_embedding, 1,
              [usual](Layout& near) { near.count_embedding = usual.count_embedding; });
  }
  if (layout.count_loss != usual.count_loss) {
    say_count(speech, "count_loss", layout.count_loss, 1,
              [usual](Layout& near) { near.count_loss = usual.count_loss; });
  }
}

}  // namespace

void say_stages(Speech& speech) {
  const Plan& plan = speech.plan;
  const Layout& layout = plan.layout;
  if (layout.pp == 1) {
    if (has_setting(speech, "pp.1")) say(speech, {.key = "pp", .value = "1"});
    return;
  }
  const auto stages = stage_layers(layout, plan.model);
  if (!stages) return cannot_say(speech, "layers", "they cannot be dealt out", {});
  const std::string pp = std::to_string(layout.pp);
  say(speech, {.key = "pp",
               .value = pp,
               .filling = {.number = pp, .usual = pp},
               .why = counts_text(*stages)});
  if (!say_split(speech, *stages)) say_dealing(speech, *stages);
  if (layout.micro_batch_group != 0 && layout.micro_batch_group != layout.pp) {
    const std::string group = std::to_string(layout.micro_batch_group);
    say(speech, {.key = "micro_batch_group",
                 .value = group,
                 .filling = {.number = group, .usual = group},
                 .unsay = [](Layout& near) { near.micro_batch_group = 0; }});
  }
  say_schedule(speech);
}

}  // namespace trainwright::detail
