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

std::optional<std::int64_t> hear_number(Hearing& hearing, std::string_view key) {
  const auto filling = hear(hearing, key);
  if (!filling) return std::nullopt;
  const auto number = parse_integer(filling->number);
  if (!number && !filling->number.empty() && filling->number != "true") {
    const auto at =
        std::find_if(hearing.given.rbegin(), hearing.given.rend(), [&](const Setting& one) {
          return !one.where.empty() && !one.values.empty() && one.values.front() == filling->number;
        });
    const std::string where =
        at == hearing.given.rend() ? std::string(key) : fmt::format("{} {}", at->where, at->key);
    hearing.faults.push_back(
        {where, fmt::format("'{}' is not a number", filling->number),
         fmt::format("write the number into the file, or give --layout {}=...", key)});
  }
  return number;
}

void heard(Hearing& hearing, std::string_view key, std::string_view value) {
  hearing.entries.push_back(fmt::format("{}={}", key, value));
}

namespace {

void hear_degrees(Hearing& hearing) {
  for (const char* key :
       {"tp", "pp", "cp", "ep", "etp", "micro_batch_group", "max_connections", "seq"}) {
    if (const auto number = hear_number(hearing, key)) heard(hearing, key, std::to_string(*number));
  }
  hearing.tp = hear_number(hearing, "tp").value_or(1);
  hearing.pp = hear_number(hearing, "pp").value_or(1);
  hearing.cp = hear_number(hearing, "cp").value_or(1);
  hearing.ep = hear_number(hearing, "ep").value_or(1);
  const auto sp = hear(hearing, "sp");
  if (sp && hearing.tp > 1 && sp->place.value_or(1) == 1) hearing.entries.emplace_back("sp");
  if (const auto dispatcher = hear(hearing, "dispatcher"); dispatcher && dispatcher->place) {
    const auto names = all_names(DispatcherKind{});
    heard(hearing, "dispatcher", names[std::min(*dispatcher->place, names.size() - 1)]);
  }
}

// At most more than any layout may have; nothing overflows.
std::int64_t times(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kMost = kMostBatch;
  a = std::clamp<std::int64_t>(a, 0, kMost);
  b = std::clamp<std::int64_t>(b, 0, kMost);
  return std::min(a * b, kMost);
}

// Of one rank and step, and of all.
void hear_batch(Hearing& hearing) {
  const auto local = hear_number(hearing, "local_batch");
  auto mbs = hear_number(hearing, "mbs");
  if (!mbs) mbs = hearing.pp > 1 ? hear_number(hearing, "pipeline_mbs") : local;
  if (!mbs && hearing.pp > 1 && local) mbs = 1;
  if (mbs) heard(hearing, "mbs", std::to_string(*mbs));
  auto gbs = hear_number(hearing, "gbs");
  const std::int64_t model_ranks =
      std::max<std::int64_t>(times(times(hearing.tp, hearing.pp), hearing.cp), 1);
  if ((!gbs || *gbs < 0) && hearing.world && *hearing.world % model_ranks == 0) {
    const std::int64_t dp = *hearing.world / model_ranks;
    const auto steps = hear_number(hearing, "micro_batches");
    if (local) gbs = times(*local, dp);
    if (mbs && steps) gbs = times(times(*mbs, *steps), dp);
  }
  if (gbs && *gbs > 0) heard(hearing, "gbs", std::to_string(*gbs));
  if (!gbs || *gbs <= 0) hearing.missing.emplace_back("gbs");
  if (!mbs) hearing.missing.emplace_back("mbs");
  if (!hear_number(hearing, "seq")) hearing.missing.emplace_back("seq");
}

// FSDP with copies is HSDP; copies alone are DDP where that can be run.
ShardingKind told_apart(const Hearing& hearing, ShardingKind kind, std::int64_t shards,
                        std::int64_t copies) {
  const bool by_number = find_setting(hearing.trainer, "dp_shard") != nullptr;
  if (!by_number || kind == ShardingKind::Zero || kind == ShardingKind::MegatronFsdp) return kind;
  const auto& rules = hearing.trainer.rules;
  const bool ddp_runs = std::any_of(rules.begin(), rules.end(),
                                    [](const Rule& rule) { return rule.id == "ddp-alone"; });
  if (copies > 1 && shards == 1 && ddp_runs) return ShardingKind::Ddp;
  const bool told = kind != ShardingKind::Ddp ||
                    find_kind(hearing.trainer.shardings, ShardingKind::Fsdp) == nullptr;
  if (copies > 1 && told) return ShardingKind::Hsdp;
  return kind == ShardingKind::Hsdp ? ShardingKind::Fsdp : kind;
}

void hear_sharding(Hearing& hearing) {
  Filling filling;
  const auto kind = best_offer(hearing, "sharding", hearing.trainer.shardings, filling);
  const std::int64_t shards = hear_number(hearing, "dp_shard").value_or(0);
  const std::int64_t copies = hear_number(hearing, "dp_replicate").value_or(1);
  if (!kind) return;
  const ShardingKind sharding = told_apart(hearing, *kind, shards, copies);
  const bool optimizer_says = hearing.zero_by_optimizer && sharding == ShardingKind::Ddp;
  heard(hearing, "sharding", name_of(optimizer_says ? ShardingKind::Zero : sharding));
  if (optimizer_says) heard(hearing, "zero", "1");
  const bool fsdp = sharding == ShardingKind::Fsdp || sharding == ShardingKind::Hsdp;
  // "default" of FSDP stands for two stages alike: what a pipeline makes of it.
  if (filling.place && *filling.place >= (fsdp ? 2U : 1U))
    heard(hearing, "zero", std::to_string(*filling.place));
  if (sharding != ShardingKind::Ddp && copies > 1)
    heard(hearing, "dp_replicate", std::to_string(copies));
}

void hear_precision(Hearing& hearing) {
  Filling filling;
  if (const auto kind = best_offer(hearing, "precision", hearing.trainer.precisions, filling)) {
    heard(hearing, "precision", name_of(*kind));
  }
  filling = {};
  if (const auto kind = best_offer(hearing, "optimizer", hearing.trainer.optimizers, filling)) {
    hearing.job = fmt::format("optimizer={}", name_of(*kind));
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
    if (json.find(name) != nullptr) continue;
    const bool text = name == "moe_layer_freq";
    json.add(name, setting.values.empty() ? Json::of(true)
                   : text                 ? Json::of(setting.values.front())
                                          : value_of(setting.values.front()));
  }
  if (json.find("num_layers") == nullptr) return "";
  // A fault names a few strange fields at a time.
  for (std::size_t left = json.members.size();; left = json.members.size()) {
    const auto model = parse_model(to_line(json), "settings");
    if (model) break;
    std::erase_if(json.members,
                  [&](const JsonMember& one) { return is_strange(model.error(), one.key); });
    if (json.members.size() == left) break;
  }
  return to_line(json);
}

std::string hear_model(const Hearing& hearing, const Target& target) {
  for (const auto& [ours, theirs] : hearing.trainer.settings) {
    if (ours.starts_with("model.") && found_in(theirs, hearing.given)) return ours.substr(6);
  }
  return target.name == "megatron-lm" ? megatron_arguments(hearing.given) : "";
}

constexpr std::string_view kSoundOfMemoryOrTime[] = {"parallel", "recompute", "offload", "fp8",
                                                     "graph",    "precision", "zero_",   "shard",
                                                     "bucket",   "capacity",  "compile", "overlap"};

void count_unknown(const Hearing& hearing, const Target& target, Understood& understood) {
  const auto known = known_keys(hearing.trainer, target);
  for (const Setting& setting : hearing.given) {
    if (std::binary_search(known.begin(), known.end(), setting.key)) continue;
    const std::string key = lower_case(setting.key);
    const auto sounds = [&](std::string_view part) { return key.find(part) != std::string::npos; };
    const bool matters =
        !is_environment(setting) &&
        std::any_of(std::begin(kSoundOfMemoryOrTime), std::end(kSoundOfMemoryOrTime), sounds);
    if (matters)
      understood.not_heeded.push_back(setting.key);
    else
      ++understood.ignored;
  }
}

}  // namespace
}  // namespace detail

Result<Understood> understand(const std::vector<Setting>& settings, const Trainer& trainer,
                              const Target& target, std::optional<std::int64_t> world) {
  detail::Hearing hearing{.trainer = trainer, .given = settings, .world = world};
  Understood understood;
  understood.ranks = detail::hear_number(hearing, "world").value_or(0);
  if (!hearing.world && understood.ranks > 0) hearing.world = understood.ranks;
  detail::hear_degrees(hearing);
  understood.schedule = detail::hear_stages(hearing);
  detail::hear_batch(hearing);
  detail::hear_precision(hearing);
  detail::hear_sharding(hearing);
  detail::hear_recompute(hearing);
  detail::hear_switches(hearing);
  if (!hearing.faults.empty()) return fail(std::move(hearing.faults));
  understood.layout = join(hearing.entries, ",");
  understood.job = hearing.job;
  understood.model = detail::hear_model(hearing, target);
  understood.not_said = hearing.missing;
  detail::count_unknown(hearing, target, understood);
  return understood;
}

}  // namespace trainwright
