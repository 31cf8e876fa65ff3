// From settings to our words: the pipeline and its switches.
#include <fmt/format.h>

#include "trainwright/base/text.h"
#include "trainwright/export/hear.h"
#include "trainwright/export/say.h"

namespace trainwright::detail {
namespace {

constexpr std::size_t kMostStages = 4096;

// Layers of each stage from lists of modules, of which `pattern` (layers.N) is a layer's.
std::vector<std::int64_t> layers_of_modules(const std::string& modules, std::string_view names) {
  const auto words = split(names, ' ');
  const std::string_view layer = words.size() > 1 ? words[1].substr(0, words[1].find('N')) : "";
  std::vector<std::int64_t> counts;
  for (const std::string& stage : list_items(modules).value_or(std::vector<std::string>{})) {
    const auto items = list_items(stage).value_or(std::vector<std::string>{});
    counts.push_back(std::count_if(items.begin(), items.end(),
                                   [&](const std::string& one) { return one.starts_with(layer); }));
  }
  return counts;
}

// A part of a text repeated as the *N behind it says, N being 1 without; where it ends, or nothing
// for what is too long.
std::optional<std::size_t> repeat(std::string_view part, std::string_view text, std::size_t end,
                                  std::string& out) {
  constexpr std::size_t kLongest = 1 << 20;
  std::int64_t times = 1;
  if (text.substr(end).starts_with('*')) {
    const std::size_t last = std::min(text.find_first_not_of("0123456789", end + 1), text.size());
    const auto number = parse_integer(text.substr(end + 1, last - end - 1));
    if (!number || *number > kMostDegree) return std::nullopt;
    times = *number;
    end = last;
  }
  if (out.size() + part.size() * static_cast<std::size_t>(times) > kLongest) return std::nullopt;
  for (std::int64_t k = 0; k < times; ++k) out += part;
  return end;
}

// (tt|)*3 and then t*3 written out, commas left out
// (megatron/core/transformer/pipeline_parallel_layer_layout.py parse_str_to_list).
std::optional<std::string> written_out(std::string text) {
  std::erase(text, ',');
  std::string flat, plain;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t close = text[i] == '(' ? text.find(')', i) : i;
    if (close == std::string::npos) return std::nullopt;
    const bool group = close > i;
    if (!group) {
      flat += text[i++];
      continue;
    }
    const auto end =
        repeat(std::string_view(text).substr(i + 1, close - i - 1), text, close + 1, flat);
    if (!end) return std::nullopt;
    i = *end;
  }
  for (std::size_t i = 0; i < flat.size();) {
    const auto end = repeat(std::string_view(flat).substr(i, 1), flat, i + 1, plain);
    if (!end) return std::nullopt;
    i = *end;
  }
  return plain;
}

// Of Megatron's letters: Et*15|t*17L. Nothing for what is none.
struct Letters {
  std::vector<std::int64_t> layers;
  std::optional<std::size_t> mtp_stage;
};
std::optional<Letters> layers_of_letters(std::string_view text) {
  const auto plain = written_out(std::string(text));
  if (!plain) return std::nullopt;
  Letters letters;
  for (const std::string_view stage : split(*plain, '|')) {
    if (stage.find_first_not_of("EtmL") != std::string_view::npos) return std::nullopt;
    if (stage.find('m') != std::string_view::npos) letters.mtp_stage = letters.layers.size();
    letters.layers.push_back(std::count(stage.begin(), stage.end(), 't'));
  }
  return letters;
}

void hear_layers(Hearing& hearing, const std::vector<std::int64_t>& layers) {
  const auto stages = static_cast<std::int64_t>(layers.size());
  if (hearing.pp < 1 || stages % hearing.pp != 0 || layers.size() > kMostStages || stages == 0) {
    hearing.faults.push_back(
        {"layers",
         fmt::format("{} stages are no multiple of {} pipeline ranks", stages, hearing.pp), ""});
    return;
  }
  if (stages > hearing.pp) heard(hearing, "vpp", std::to_string(stages / hearing.pp));
  std::vector<std::string> texts;
  for (const std::int64_t count : layers) texts.push_back(std::to_string(count));
  heard(hearing, "layers", join(texts, "/"));
}

bool hear_split(Hearing& hearing) {
  const auto split_said = hear(hearing, "split");
  if (!split_said) return false;
  if (!split_said->modules.empty()) {
    const std::string* names = find_setting(hearing.trainer, "stage_modules");
    hear_layers(hearing, layers_of_modules(split_said->modules, names == nullptr ? "" : *names));
    return true;
  }
  const auto letters = layers_of_letters(split_said->letters);
  if (!letters) {
    not_read(hearing, "layers", split_said->letters);
    return true;
  }
  hear_layers(hearing, letters->layers);
  if (letters->mtp_stage && *letters->mtp_stage + 1 != letters->layers.size()) {
    heard(hearing, "mtp_stage", std::to_string(*letters->mtp_stage));
  }
  return true;
}

// Chunks of a rank: by their number, or by the layers of one.
void hear_chunks(Hearing& hearing) {
  const auto chunks = hear(hearing, "vpp");
  if (chunks && chunks->per_stage.empty()) {
    if (const auto number = hear_number(hearing, "vpp"); number && *number > 1)
      heard(hearing, "vpp", std::to_string(*number));
    return;
  }
  const auto by_layers = chunks ? chunks : hear(hearing, "vpp_layers");
  if (!by_layers) return;
  const auto each = parse_integer(by_layers->per_stage);
  // Embedding and loss are counted before the layers are divided (megatron-core 0.19.2
  // megatron/training/arguments.py, "Uneven virtual pipeline parallelism").
  const std::int64_t counted = hearing.layers.value_or(0) +
                               (hear(hearing, "count_embedding") ? 1 : 0) +
                               (hear(hearing, "count_loss") ? 1 : 0);
  const std::int64_t whole = counted / std::max<std::int64_t>(hearing.pp, 1);
  if (!each || *each < 1 || whole < 1) {
    not_read(hearing, "vpp", by_layers->per_stage);
  } else if (whole / *each > 1) {
    heard(hearing, "vpp", std::to_string(whole / *each));
  }
}

void hear_dealing(Hearing& hearing) {
  hear_chunks(hearing);
  for (const auto& [theirs, ours] :
       {std::pair{"first_stage_layers", "first_layers"}, {"last_stage_layers", "last_layers"}}) {
    if (const auto number = hear_number(hearing, theirs))
      heard(hearing, ours, std::to_string(*number));
  }
  for (const char* key : {"count_embedding", "count_loss"}) {
    if (hear(hearing, key)) hearing.entries.emplace_back(key);
  }
}

}  // namespace

std::string hear_stages(Hearing& hearing) {
  if (hearing.pp == 1) return "";
  if (!hear_split(hearing)) hear_dealing(hearing);
  const auto csv = hear(hearing, "schedule_csv");
  const auto name = hear(hearing, "schedule");
  for (const TrainerSchedule& one : hearing.trainer.schedules) {
    if (!name || one.name != name->number) continue;
    if (!csv) heard(hearing, "schedule", name_of(one.kind));
    if (csv && one.placement == StagePlacement::V) heard(hearing, "placement", "v");
    // torchtitan and AutoModel: without a number two stages a rank where one is too few
    // (distributed/pipeline_parallel.py).
    const int least = facts_of(one.kind).chunks_least;
    if (least > 1 && !is_heard(hearing, "vpp")) heard(hearing, "vpp", std::to_string(least));
    break;
  }
  if (!csv || csv->number.empty()) return "";
  heard(hearing, "schedule", "csv");
  return csv->number;
}

namespace {

// What CUDA graphs hold, where any are made: whole layers or steps unless parts are named.
std::optional<Switch> hear_graphs(const Hearing& hearing) {
  const auto way = hear(hearing, "graphs.way");
  const bool made = (way && way->number != "none") || hear(hearing, "graphs.local") ||
                    hear(hearing, "graphs.external");
  if (!made) return std::nullopt;
  for (const char* key : {"graphs.scope", "graphs.modules"}) {
    const auto parts = hear(hearing, key);
    if (!parts || parts->list.empty() || parts->list.front().starts_with("full")) continue;
    return Switch::PartGraphs;
  }
  return Switch::Graphs;
}

// Whether it is on without a word.
bool is_usual(const Hearing& hearing, Switch what) {
  Layout silent;
  silent.pp = hearing.pp;
  silent.ep = hearing.ep;
  return asks(silent, what, hearing.trainer);
}

// Graphs of parts are counted as holding attention.
void note_graphs(Hearing& hearing) {
  for (const char* key : {"graphs.scope", "graphs.modules"}) {
    const auto parts = hear(hearing, key);
    if (!parts || parts->list.empty()) continue;
    const auto& held = parts->list;
    if (std::find(held.begin(), held.end(), "attn") != held.end()) return;
    hearing.notes.push_back(
        fmt::format("CUDA graphs hold {} here, which gains less than attention and routers, as "
                    "they are counted.",
                    join(held, ", ")));
    return;
  }
}

}  // namespace

void hear_switches(Hearing& hearing) {
  std::vector<std::string> on, off, offloaded;
  const auto graphs = hear_graphs(hearing);
  if (graphs == Switch::PartGraphs) note_graphs(hearing);
  for (const Switch what : all_of<Switch>()) {
    const std::string key = switch_key(what);
    const std::string* offer = switch_offer(hearing.trainer, what);
    const bool own = find_setting(hearing.trainer, key) != nullptr;
    const bool is_on =
        own ? hear(hearing, key).has_value()
            : offer != nullptr && *offer != "-" && found_in(*offer, hearing.given).has_value();
    const bool graph = what == Switch::Graphs || what == Switch::PartGraphs;
    if (graph ? graphs == what : is_on)
      on.emplace_back(name_of(what));
    else if (hear(hearing, key + ".off") && is_usual(hearing, what))
      off.emplace_back(name_of(what));
  }
  for (const auto& offer : hearing.trainer.offloads) {
    const std::string* own =
        find_setting(hearing.trainer, "offload." + std::string(name_of(offer.kind)));
    const std::string& text = own != nullptr ? *own : offer.setting;
    if (!text.empty() && text != "-" && found_in(text, hearing.given))
      offloaded.emplace_back(name_of(offer.kind));
  }
  if (!on.empty()) heard(hearing, "on", join(on, "+"));
  if (!off.empty()) heard(hearing, "off", join(off, "+"));
  if (!offloaded.empty()) heard(hearing, "offload", join(offloaded, "+"));
  for (const auto& [ours, theirs] : hearing.trainer.settings) {
    if (ours.starts_with("order.") && found_in(theirs, hearing.given))
      heard(hearing, "order", ours.substr(6));
  }
}

}  // namespace trainwright::detail
