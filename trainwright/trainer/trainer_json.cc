// A trainer as JSON, in the form of its data file with everything it builds on laid in.
#include "trainwright/trainer/trainer.h"

namespace trainwright {
namespace {

Json strings(const std::vector<std::string>& texts) {
  Json json = Json::array();
  for (const std::string& text : texts) json.push(Json::of(text));
  return json;
}

// Every entry ends with its setting, if it has one, and its source.
Json& finish(Json& json, const std::string& setting, const std::string& source) {
  if (!setting.empty()) json.add("setting", Json::of(setting));
  return json.add("source", Json::of(source));
}

void add_rounding(Json& json, const Rounding& rounds) {
  if (rounds == Rounding{}) return;
  json.add("rounds_input", Json::of(rounds.input))
      .add("rounds_after_norm", Json::of(rounds.after_norm))
      .add("rounds_input_again", Json::of(rounds.input_again))
      .add("rounds_gradient", Json::of(rounds.gradient))
      .add("rounds_gradient_again", Json::of(rounds.gradient_again))
      .add("rounds_weight", Json::of(rounds.weight))
      .add("rounds_before_gather", Json::of(rounds.before_gather));
}

Json precisions(const Trainer& trainer) {
  Json all = Json::object();
  for (const auto& entry : trainer.precisions) {
    Json json = Json::object();
    json.add("weight", Json::of(entry.weight))
        .add("compute", Json::of(entry.compute))
        .add("master", Json::of(entry.master))
        .add("gradients", strings(entry.gradients));
    if (entry.gradient_life) json.add("gradient_life", Json::of(name_of(*entry.gradient_life)));
    if (!entry.frozen.empty()) json.add("frozen", Json::of(entry.frozen));
    if (!entry.weight_under_fsdp.empty()) {
      json.add("weight_under_fsdp", Json::of(entry.weight_under_fsdp));
    }
    if (!entry.gradient_unsharded.empty()) {
      json.add("gradient_unsharded", Json::of(entry.gradient_unsharded));
    }
    json.add("gradient_copied_at_step", Json::of(entry.gradient_copied_at_step))
        .add("weight_copies", Json::of(entry.weight_copies));
    if (entry.weight_copies_either_order) {
      json.add("weight_copies_either_order", Json::of(*entry.weight_copies_either_order));
    }
    if (entry.weight_stored_low) {
      json.add("weight_stored_low", Json::of(*entry.weight_stored_low));
    }
    json.add("input_copy", Json::of(entry.input_copy));
    add_rounding(json, entry.rounds);
    all.add(std::string(name_of(entry.kind)), finish(json, entry.setting, entry.source));
  }
  return all;
}

Json tensors(const std::vector<StateFacts>& list) {
  Json json = Json::array();
  for (const StateFacts& tensor : list) json.push(Json::of(to_text(tensor)));
  return json;
}

Json optimizers(const Trainer& trainer) {
  Json all = Json::object();
  for (const auto& entry : trainer.optimizers) {
    Json json = Json::object();
    json.add("states", tensors(entry.states));
    if (!entry.temporaries.empty()) json.add("temporaries", tensors(entry.temporaries));
    if (entry.block > 0) json.add("block", Json::of(entry.block));
    if (entry.least > 0) json.add("least", Json::of(entry.least));
    if (entry.tables > 0) json.add("tables", Json::of(entry.tables));
    if (!entry.master.empty()) json.add("master", Json::of(entry.master));
    if (!entry.reads_gradients.empty()) {
      Json names = Json::array();
      for (const PrecisionKind kind : entry.reads_gradients) names.push(Json::of(name_of(kind)));
      json.add("reads_gradients", std::move(names));
    }
    all.add(std::string(name_of(entry.kind)), finish(json, entry.setting, entry.source));
  }
  return all;
}

Json kernels(const Trainer& trainer) {
  Json all = Json::object();
  for (const auto& entry : trainer.kernels) {
    Json json = Json::object();
    json.add("use", Json::of(name_of(entry.use)))
        .add("kept_per_input", Json::of(entry.kept_per_input))
        .add("kept_per_output", Json::of(entry.kept_per_output))
        .add("kept_per_row", Json::of(entry.kept_per_row));
    if (entry.least_capability > 0) json.add("least_capability", Json::of(entry.least_capability));
    if (!entry.not_by_default_for.empty()) {
      json.add("not_by_default_for", strings(entry.not_by_default_for));
    }
    all.add(std::string(name_of(entry.kind)), finish(json, entry.setting, entry.source));
  }
  return all;
}

Json losses(const Trainer& trainer) {
  Json all = Json::object();
  for (const auto& entry : trainer.losses) {
    Json json = Json::object();
    json.add("use", Json::of(name_of(entry.use)))
        .add("forward", Json::of(entry.forward))
        .add("kept", Json::of(entry.kept))
        .add("backward", Json::of(entry.backward))
        .add("left_behind", Json::of(entry.left_behind))
        .add("moved_forward", Json::of(entry.moved_forward))
        .add("moved_backward", Json::of(entry.moved_backward))
        .add("split_by_tp", Json::of(entry.split_by_tp))
        .add("keeps_logits", Json::of(entry.keeps_logits))
        .add("by_operators", Json::of(entry.by_operators))
        .add("with_compile", Json::of(entry.with_compile))
        .add("piece_tokens", Json::of(entry.piece_tokens))
        .add("pieces", Json::of(entry.pieces))
        .add("piece", Json::of(entry.piece))
        .add("chunks", Json::of(entry.chunks))
        .add("hidden_gradient", Json::of(entry.hidden_gradient));
    all.add(entry.name, finish(json, entry.setting, entry.source));
  }
  return all;
}

Json overlaps(const Trainer& trainer) {
  Json all = Json::object();
  for (const auto& entry : trainer.overlaps) {
    Json json = Json::object();
    json.add("use", Json::of(name_of(entry.use)));
    if (entry.gather_buffers > 0) json.add("gather_buffers", Json::of(entry.gather_buffers));
    if (entry.reduce_buffers > 0) json.add("reduce_buffers", Json::of(entry.reduce_buffers));
    all.add(std::string(name_of(entry.kind)), finish(json, entry.setting, entry.source));
  }
  return all;
}

Json schedules(const Trainer& trainer) {
  Json all = Json::object();
  for (const auto& entry : trainer.schedules) {
    Json json = Json::object();
    json.add("name", Json::of(entry.name)).add("placement", Json::of(name_of(entry.placement)));
    all.add(std::string(name_of(entry.kind)), finish(json, "", entry.source));
  }
  return all;
}

Json shardings(const Trainer& trainer) {
  Json all = Json::object();
  for (const auto& entry : trainer.shardings) {
    Json json = Json::object();
    json.add("gradients", Json::of(name_of(entry.gradients)));
    if (entry.gradients_as_weight) json.add("gradients_as_weight", Json::of(true));
    if (!entry.without.empty()) {
      Json names = Json::array();
      for (const KernelKind kind : entry.without) names.push(Json::of(name_of(kind)));
      json.add("without", std::move(names));
    }
    if (entry.host_per_module > Seconds(0)) {
      json.add("host_per_module", Json::of(entry.host_per_module.value()));
    }
    all.add(std::string(name_of(entry.kind)), finish(json, entry.setting, entry.source));
  }
  return all;
}

std::string text_of(const std::string& kind) { return kind; }
std::string text_of(Named auto kind) { return std::string(name_of(kind)); }

template <class Entry>
Json choices(const std::vector<Entry>& list) {
  Json all = Json::object();
  for (const Entry& entry : list) {
    Json json = Json::object();
    all.add(text_of(entry.kind), finish(json, entry.setting, entry.source));
  }
  return all;
}

Json flex_backends(const Trainer& trainer) {
  Json all = Json::object();
  for (const FlexBackend& entry : trainer.flex_backends) {
    Json json = Json::object();
    json.add("use", Json::of(name_of(entry.use)));
    all.add(std::string(name_of(entry.kind)), finish(json, entry.setting, entry.source));
  }
  return all;
}

Json communicators(const Trainer& trainer) {
  Json all = Json::object();
  for (const auto& entry : trainer.communicators) {
    Json json = Json::object(), uses = Json::array();
    for (const Connection use : entry.uses) uses.push(Json::of(name_of(use)));
    json.add("uses", std::move(uses)).add("count", Json::of(entry.count));
    all.add(entry.group, finish(json, "", entry.source));
  }
  return all;
}

Json libraries(const LibraryFacts& facts) {
  Json json = Json::object();
  const auto add = [&](const char* name, Version version) {
    if (version != Version{}) json.add(name, Json::of(to_text(version)));
  };
  if (facts.torch_is_trainer) {
    json.add("torch_is_trainer", Json::of(true));
  } else {
    add("torch", facts.torch);
  }
  add("nccl", facts.nccl);
  add("cuda", facts.cuda);
  add("transformer_engine", facts.transformer_engine);
  if (facts.flash > 0) json.add("flash", Json::of(facts.flash));
  if (facts.best_attention_from > 0) {
    json.add("best_attention_from", Json::of(facts.best_attention_from));
  }
  if (facts.attention_takes != 1) json.add("attention_takes", Json::of(facts.attention_takes));
  if (facts.avoids_record_streams) json.add("avoids_record_streams", Json::of(true));
  return finish(json, "", facts.source);
}

Json buckets(const Trainer& trainer) {
  Json all = Json::object();
  for (const auto& entry : trainer.buckets) {
    Json json = Json::object();
    json.add("unit", Json::of(name_of(entry.unit)))
        .add("least", Json::of(entry.least))
        .add("per_dp", Json::of(entry.per_dp));
    if (entry.first_only) json.add("first_only", Json::of(true));
    all.add(std::string(name_of(entry.purpose)), finish(json, entry.setting, entry.source));
  }
  return all;
}

Json workspaces(const Trainer& trainer) {
  Json all = Json::object();
  for (const auto& entry : trainer.workspaces) {
    Json json = Json::object();
    json.add("count", Json::of(entry.count))
        .add("bytes", Json::of(entry.bytes))
        .add("before_hopper", Json::of(entry.before_hopper))
        .add("after_hopper", Json::of(entry.after_hopper))
        .add("amd", Json::of(entry.amd))
        .add("grouped_gemm", Json::of(entry.grouped_gemm))
        .add("own_products", Json::of(entry.own_products));
    all.add(entry.library, finish(json, entry.setting, entry.source));
  }
  return all;
}

Json pipeline(const PipelineFacts& facts) {
  Json json = Json::object();
  json.add("outputs_freed_early", Json::of(facts.outputs_freed_early))
      .add("buffers_per_micro_batch", Json::of(facts.buffers_per_micro_batch))
      .add("sends_live_until_step_end", Json::of(facts.sends_live_until_step_end))
      .add("outputs_stay_with_ddp", Json::of(facts.outputs_stay_with_ddp))
      .add("last_output_stays", Json::of(facts.last_output_stays))
      .add("last_gradient_stays", Json::of(facts.last_gradient_stays))
      .add("last_input_stays", Json::of(facts.last_input_stays))
      .add("vocab_parallel", Json::of(facts.vocab_parallel))
      .add("first_stage_less_layers", Json::of(facts.first_stage_less_layers))
      .add("last_stage_less_layers", Json::of(facts.last_stage_less_layers));
  return finish(json, "", facts.source);
}

Json value_of(const CodeFacts& code, bool CodeFacts::* fact) { return Json::of(code.*fact); }
Json value_of(const CodeFacts& code, const CodeNumber& fact) { return Json::of(code.*fact.member); }
template <class Kind>
Json value_of(const CodeFacts& code, Kind CodeFacts::* fact) {
  return Json::of(name_of(code.*fact));
}

Json code(const CodeFacts& facts) {
  Json json = Json::object();
  for (const CodeFact& fact : kCodeFacts) {
    std::visit([&](const auto& of) { json.add(std::string(fact.name), value_of(facts, of)); },
               fact.fact);
  }
  return finish(json, "", facts.source);
}

Json adapters(const AdapterFacts& facts) {
  Json json = Json::object();
  if (!facts.dtype.empty()) json.add("dtype", Json::of(facts.dtype));
  for (const auto& [key, fact] : kAdapterFlags) {
    if (facts.*fact) json.add(std::string(key), Json::of(true));
  }
  if (facts.prepares != Prepared::No) json.add("prepares", Json::of(name_of(facts.prepares)));
  if (!facts.dtype_beside_few_bits.empty()) {
    json.add("dtype_beside_few_bits", Json::of(facts.dtype_beside_few_bits));
  }
  Json bases = Json::array();
  for (const FrozenBase base : facts.bases) bases.push(Json::of(name_of(base)));
  json.add("bases", std::move(bases));
  Json prepared = Json::array();
  for (const Prepared way : facts.prepared) prepared.push(Json::of(name_of(way)));
  json.add("prepared", std::move(prepared));
  return finish(json, facts.setting, facts.source);
}

Json allocator(const AllocatorFacts& facts) {
  Json json = Json::object();
  json.add("expandable_segments", Json::of(facts.expandable_segments));
  if (facts.lead) {
    Json lead = Json::object();
    lead.add("alone", Json::of(facts.lead->alone)).add("pipeline", Json::of(facts.lead->pipeline));
    json.add("lead", std::move(lead));
  }
  if (facts.product_workspace > 0) {
    json.add("product_workspace", Json::of(facts.product_workspace));
  }
  return finish(json, facts.setting, facts.source);
}

Json rules(const Trainer& trainer) {
  Json all = Json::array();
  for (const Rule& rule : trainer.rules) {
    Json json = Json::object();
    json.add("id", Json::of(rule.id));
    if (!rule.when.text.empty()) json.add("when", Json::of(rule.when.text));
    json.add("require", Json::of(rule.require.text))
        .add("severity", Json::of(rule.severity == Severity::Advice ? "advice" : "forbidden"))
        .add("reason", Json::of(rule.reason))
        .add("hint", Json::of(rule.hint))
        .add("source", Json::of(rule.source));
    if (rule.since) json.add("since", Json::of(to_text(*rule.since)));
    if (rule.until) json.add("until", Json::of(to_text(*rule.until)));
    all.push(std::move(json));
  }
  return all;
}

}  // namespace

Json to_json(const Trainer& trainer) {
  Json versions = Json::object();
  versions.add("from", Json::of(to_text(trainer.from))).add("to", Json::of(to_text(trainer.to)));
  Json rank_order = Json::object();
  rank_order.add("order", Json::of(trainer.rank_order));
  finish(rank_order, "", trainer.rank_order_source);
  Json settings = Json::object();
  for (const auto& [ours, theirs] : trainer.settings) settings.add(ours, Json::of(theirs));

  Json json = Json::object();
  json.add("name", Json::of(trainer.name))
      .add("title", Json::of(trainer.title))
      .add("stack", Json::of(trainer.stack))
      .add("version", Json::of(to_text(trainer.version)))
      .add("aliases", strings(trainer.aliases))
      .add("versions", std::move(versions))
      .add("rank_order", std::move(rank_order))
      .add("precisions", precisions(trainer))
      .add("optimizers", optimizers(trainer))
      .add("kernels", kernels(trainer))
      .add("losses", losses(trainer))
      .add("overlaps", overlaps(trainer))
      .add("schedules", schedules(trainer))
      .add("shardings", shardings(trainer))
      .add("recomputes", choices(trainer.recomputes))
      .add("recompute_modules", choices(trainer.recompute_modules))
      .add("cp_kinds", choices(trainer.cp_kinds))
      .add("flex_backends", flex_backends(trainer))
      .add("offloads", choices(trainer.offloads))
      .add("communicators", communicators(trainer))
      .add("buckets", buckets(trainer))
      .add("workspaces", workspaces(trainer))
      .add("pipeline", pipeline(trainer.pipeline));
  if (!trainer.code.source.empty()) json.add("code", code(trainer.code));
  if (!trainer.adapters.source.empty()) json.add("adapters", adapters(trainer.adapters));
  if (!trainer.defaults.source.empty()) {
    Json defaults = Json::object();
    defaults.add("recompute", Json::of(name_of(trainer.defaults.recompute)));
    json.add("defaults", finish(defaults, "", trainer.defaults.source));
  }
  if (!trainer.libraries.source.empty()) json.add("libraries", libraries(trainer.libraries));
  Json elsewhere = Json::object();
  for (const auto& [names, instead] : trainer.elsewhere) elsewhere.add(names, Json::of(instead));
  if (!trainer.elsewhere.empty()) json.add("elsewhere", std::move(elsewhere));
  json.add("allocator", allocator(trainer.allocator))
      .add("settings", std::move(settings))
      .add("rules", rules(trainer));
  return json;
}

}  // namespace trainwright
