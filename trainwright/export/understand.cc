// From settings to our words: degrees, batch, sharding, precision, recompute, and what is missing.
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/export/form.h"
#include "trainwright/export/hear.h"

namespace trainwright {
namespace detail {

std::optional<Filling> hear(const Hearing& hearing, std::string_view key) {
  const std::string* text = find_setting(hearing.trainer, key);
  return text == nullptr || *text == "-" ? std::nullopt : found_in(*text, hearing.given);
}

void not_read(Hearing& hearing, std::string_view key, const std::string& value) {
  const auto known = [&](const Unreadable& one) { return one.key == key; };
  if (std::any_of(hearing.unreadable.begin(), hearing.unreadable.end(), known)) return;
  const auto at = std::find_if(
      hearing.given.rbegin(), hearing.given.rend(),
      [&](const Setting& one) { return !one.values.empty() && one.values.front() == value; });
  std::string where = at == hearing.given.rend() ? std::string(key) : at->key;
  if (at != hearing.given.rend() && !at->where.empty()) where = at->where + ' ' + where;
  hearing.unreadable.push_back({std::string(key), std::move(where), value});
}

std::optional<std::int64_t> hear_number(Hearing& hearing, std::string_view key) {
  const auto filling = hear(hearing, key);
  if (!filling) return std::nullopt;
  const auto number = whole_number(filling->number);
  if (!number && !filling->number.empty() && filling->number != "true")
    not_read(hearing, key, filling->number);
  return number;
}

bool is_heard(const Hearing& hearing, std::string_view key) {
  return std::any_of(hearing.entries.begin(), hearing.entries.end(),
                     [&](std::string_view one) { return one.substr(0, one.find('=')) == key; });
}

void heard(Hearing& hearing, std::string_view key, std::string_view value) {
  if (!is_heard(hearing, key)) hearing.entries.push_back(fmt::format("{}={}", key, value));
}

namespace {

// What only experts have is heard unasked where there are any.
bool concerns(const Hearing& hearing, std::string_view key) {
  const auto said = hear(hearing, key);
  return said && (said->said > 0 || hearing.ep > 1);
}

void hear_degrees(Hearing& hearing) {
  hearing.tp = hear_number(hearing, "tp").value_or(1);
  hearing.pp = hear_number(hearing, "pp").value_or(1);
  hearing.cp = hear_number(hearing, "cp").value_or(1);
  hearing.ep = hear_number(hearing, "ep").value_or(1);
  for (const char* key :
       {"tp", "pp", "cp", "ep", "etp", "micro_batch_group", "max_connections", "seq"}) {
    if (std::string_view(key) == "etp" && !concerns(hearing, key)) continue;
    if (const auto number = hear_number(hearing, key)) heard(hearing, key, std::to_string(*number));
  }
  const auto sp = hear(hearing, "sp");
  // A trainer that always has it has no word for it (torchtitan 0.2).
  const bool on =
      has_rule(hearing.trainer, "sp-goes-with-tp") || (sp && sp->place.value_or(1) == 1);
  if (on && hearing.tp > 1) hearing.entries.emplace_back("sp");
}

// A backend, as it is written or in another spelling, goes before flex alone.
void hear_dispatcher(Hearing& hearing) {
  Filling filling;
  const auto backend = best_offer(hearing, "dispatcher", hearing.trainer.flex_backends, filling);
  if (backend && (filling.said > 0 || hearing.ep > 1)) {
    heard(hearing, "dispatcher", name_of(*backend));
  }
  hear_readings(hearing, "dispatcher=");
  const auto dispatcher = hear(hearing, "dispatcher");
  if (dispatcher && dispatcher->place && concerns(hearing, "dispatcher")) {
    const auto names = all_names(DispatcherKind{});
    heard(hearing, "dispatcher", names[std::min(*dispatcher->place, names.size() - 1)]);
  }
}

// Launchers may be told otherwise than the file.
void compare_ranks(Hearing& hearing, std::int64_t ranks) {
  if (!hearing.world || ranks <= 0 || ranks == *hearing.world) return;
  hearing.notes.push_back(fmt::format("{} {} is left aside: {} accelerators are asked about.",
                                      *find_setting(hearing.trainer, "world"), ranks,
                                      *hearing.world));
}

// "bf16", where a setting says so and the precision that was heard has it.
std::string hear_gradients(const Hearing& hearing) {
  constexpr std::string_view kKey = "gradients.";
  const auto offered = [&](const PrecisionFacts& precision, const std::string& dtype) {
    const bool said =
        std::find(hearing.entries.begin(), hearing.entries.end(),
                  fmt::format("precision={}", name_of(precision.kind))) != hearing.entries.end();
    return said && std::find(precision.gradients.begin(), precision.gradients.end(), dtype) !=
                       precision.gradients.end();
  };
  for (const auto& [ours, theirs] : hearing.trainer.settings) {
    if (!ours.starts_with(kKey)) continue;
    const std::string dtype(split(std::string_view(ours).substr(kKey.size()), '.').front());
    const auto& precisions = hearing.trainer.precisions;
    const auto has_it = [&](const PrecisionFacts& one) { return offered(one, dtype); };
    if (!std::any_of(precisions.begin(), precisions.end(), has_it)) continue;
    const auto found = theirs == "-" ? std::nullopt : found_in(theirs, hearing.given);
    if (found && found->said > 0) return dtype;
  }
  return "";
}

void hear_precision(Hearing& hearing) {
  Filling filling;
  if (const auto kind = best_offer(hearing, "precision", hearing.trainer.precisions, filling)) {
    heard(hearing, "precision", name_of(*kind));
  }
  if (const std::string dtype = hear_gradients(hearing); !dtype.empty()) {
    heard(hearing, "gradients", dtype);
  }
  filling = {};
  const auto optimizer = best_offer(hearing, "optimizer", hearing.trainer.optimizers, filling);
  if (optimizer && filling.said > 0) {
    hearing.job = fmt::format("optimizer={}", name_of(*optimizer));
    hearing.zero_by_optimizer = filling.place == 1U;
  }
  filling = {};
  if (hearing.cp > 1) {
    const auto kind = best_offer(hearing, "cp_kind", hearing.trainer.cp_kinds, filling);
    if (kind) heard(hearing, "cp_kind", name_of(*kind));
    const auto inner = hear(hearing, "cp_ulysses");
    if (inner && !inner->list.empty()) heard(hearing, "cp_ulysses", inner->list.front());
  }
}

std::string modules_heard(const Trainer& trainer, const std::vector<std::string>& theirs) {
  const std::string* names = find_setting(trainer, "modules");
  std::vector<std::string> ours;
  if (names == nullptr) return "";
  const auto all = split(*names, '|');
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (std::find(theirs.begin(), theirs.end(), all[i]) != theirs.end()) {
      ours.emplace_back(name_of(static_cast<RecomputeModule>(i)));
    }
  }
  return join(ours, "+");
}

bool says_none(const Trainer& trainer) {
  const auto* none = find_kind(trainer.recomputes, RecomputeKind::None);
  const std::string* own = find_setting(trainer, "recompute.none");
  return own != nullptr || (none != nullptr && !none->setting.empty());
}

void hear_recompute(Hearing& hearing) {
  Filling filling;
  const auto kind = best_offer(hearing, "recompute", hearing.trainer.recomputes, filling);
  // Silence is not a word: the script may recompute all the same.
  if (!kind || (*kind == RecomputeKind::None && !says_none(hearing.trainer))) return;
  std::string text(name_of(*kind));
  const std::string modules = modules_heard(hearing.trainer, filling.list);
  if (*kind == RecomputeKind::Modules) text += ':' + modules;
  const bool counted = *kind == RecomputeKind::Full || *kind == RecomputeKind::Block ||
                       *kind == RecomputeKind::EveryNth;
  if (counted && parse_integer(filling.number)) text += ':' + filling.number;
  heard(hearing, "recompute", text);
}

// Whether the reader of models refused a field of that name as strange to it.
bool is_strange(const Error& faults, const std::string& name) {
  const std::string words = fmt::format("has no field '{}'", name);
  return std::any_of(
      faults.diagnostics.begin(), faults.diagnostics.end(),
      [&](const Diagnostic& fault) { return fault.what.find(words) != std::string::npos; });
}

// The arguments of Megatron-LM that describe a model: those that the reader of models knows.
std::string megatron_arguments(const std::vector<Setting>& given) {
  Json json = Json::object();
  json.add("model_type", Json::of("megatron"));
  for (const Setting& setting : given) {
    if (!setting.key.starts_with("--") || setting.values.size() > 1) continue;
    std::string name = setting.key.substr(2);
    std::replace(name.begin(), name.end(), '-', '_');
    // The last one counts, as it does for argparse.
    std::erase_if(json.members, [&](const JsonMember& one) { return one.key == name; });
    const bool text = name == "moe_layer_freq";
    json.add(name, setting.values.empty() ? Json::of(true)
                   : text                 ? Json::of(setting.values.front())
                                          : value_of(setting.values.front()));
  }
  if (json.find("num_layers") == nullptr) return "";
  // A fault names a few strange fields at a time.
  for (std::size_t left = json.members.size();; left = json.members.size()) {
    const auto model = parse_model(to_line(json), "settings", "");
    if (model) break;
    std::erase_if(json.members,
                  [&](const JsonMember& one) { return is_strange(model.error(), one.key); });
    if (json.members.size() == left) break;
  }
  return to_line(json);
}

std::string hear_model(const Trainer& trainer, const std::vector<Setting>& given,
                       const Target& target) {
  for (const auto& [ours, theirs] : trainer.settings) {
    if (ours.starts_with("model.") && found_in(theirs, given)) return ours.substr(6);
  }
  return target.launcher == Launcher::Megatron ? megatron_arguments(given) : "";
}

// Of a model that the settings describe.
std::optional<std::int64_t> layer_count(const std::vector<Setting>& given) {
  const auto found = found_in("--num-layers N", given);
  return found ? parse_integer(found->number) : std::nullopt;
}

// Settings that hold where none is given: for all models, then for this one.
std::vector<Setting> with_unasked(const std::vector<Setting>& given, const Trainer& trainer,
                                  const std::string& model) {
  std::vector<Setting> all;
  for (const std::string& key : {std::string("unasked"), "unasked." + model}) {
    const std::string* text = find_setting(trainer, key);
    if (text == nullptr) continue;
    for (Setting& setting : parse_settings(*text)) {
      // Of section:choice the last is the only one.
      const std::size_t colon = setting.key.find(':');
      if (colon != std::string::npos)
        std::erase_if(all, [head = setting.key.substr(0, colon + 1)](const Setting& one) {
          return one.key.starts_with(head);
        });
      setting.of = kUnasked;
      all.push_back(std::move(setting));
    }
  }
  all.insert(all.end(), given.begin(), given.end());
  return all;
}

// The options that a model was read from.
std::vector<std::string> model_options(const std::string& model) {
  std::vector<std::string> keys;
  const auto json = parse_json(model, "model");
  if (!json) return keys;
  for (const JsonMember& member : json->members) {
    std::string key = "--" + member.key;
    std::replace(key.begin(), key.end(), '_', '-');
    keys.push_back(std::move(key));
  }
  return keys;
}

}  // namespace
}  // namespace detail

Result<Understood> understand(const std::vector<Setting>& settings, const Trainer& trainer,
                              const Target& target, std::optional<std::int64_t> world,
                              std::optional<std::int64_t> layers, std::string_view beside) {
  Understood understood;
  understood.model = detail::hear_model(trainer, settings, target);
  if (!layers) layers = detail::layer_count(settings);
  detail::Hearing hearing{.trainer = trainer,
                          .given = detail::with_unasked(settings, trainer, understood.model),
                          .world = world,
                          .layers = layers,
                          .beside = beside};
  understood.ranks = detail::hear_number(hearing, "world").value_or(0);
  if (!hearing.world && understood.ranks > 0) hearing.world = understood.ranks;
  detail::compare_ranks(hearing, understood.ranks);
  detail::hear_degrees(hearing);
  detail::hear_dispatcher(hearing);
  detail::hear_readings(hearing);
  understood.schedule = detail::hear_stages(hearing);
  detail::hear_batch(hearing);
  detail::hear_precision(hearing);
  detail::hear_sharding(hearing);
  detail::hear_recompute(hearing);
  detail::hear_switches(hearing);
  if (!hearing.faults.empty()) return fail(std::move(hearing.faults));
  understood.layout = join(hearing.entries, ",");
  understood.job = hearing.job;
  understood.attention = hearing.attention;
  understood.not_said = hearing.missing;
  understood.unreadable = hearing.unreadable;
  understood.notes = hearing.notes;
  detail::hear_unknown(hearing, target, detail::model_options(understood.model), understood);
  return understood;
}

}  // namespace trainwright
