// The facts of a trainer's file, entry by entry.
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/printable.h"
#include "trainwright/base/text.h"
#include "trainwright/trainer/reading.h"

namespace trainwright {
namespace {

using Names = std::vector<std::string>;

// A name that must be one of a closed set; the fault sits at `key` of `fields`.
void check_name(JsonFields& fields, std::string_view key, const std::string& name,
                const Names& known) {
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  fields.fault(key, fmt::format("unknown name '{}'", name),
               did_you_mean(name, known, "known: " + enumerate(known)));
}

std::string name_in(JsonFields& fields, std::string_view key, const Names& known) {
  std::string name = fields.string(key);
  if (!name.empty()) check_name(fields, key, name, known);
  return name;
}

double plausible_bytes(JsonFields& fields, std::string_view key, double bytes) {
  if (bytes < 0 || bytes > 1000) fields.fault(key, "not a plausible number of bytes", "0 to 1000");
  return bytes;
}

double bytes_in(JsonFields& fields, std::string_view key) {
  return plausible_bytes(fields, key, fields.optional_number(key).value_or(0));
}

double needed_bytes_in(JsonFields& fields, std::string_view key) {
  return plausible_bytes(fields, key, fields.number(key));
}

std::string setting_in(JsonFields& fields) {
  return fields.optional_string("setting").value_or("");
}

// Of an enumeration.
template <Named E>
E kind_in(JsonFields& fields, std::string_view key) {
  return named<E>(name_in(fields, key, to_strings(all_names(E{})))).value_or(E{});
}

Use use_in(JsonFields& fields) { return kind_in<Use>(fields, "use"); }

// An entry of a file's objects is known by its key.
std::string& key_of(Loss& entry) { return entry.name; }
BucketPurpose& key_of(Bucket& entry) { return entry.purpose; }
std::string& key_of(Workspace& entry) { return entry.library; }
std::string& key_of(Communicator& entry) { return entry.group; }
auto& key_of(auto& entry) { return entry.kind; }

std::string_view text_of(const std::string& key) { return key; }
std::string_view text_of(Named auto key) { return name_of(key); }
// Names were checked against `names_for` before.
void set_key(std::string& key, const std::string& name) { key = name; }
template <Named E>
void set_key(E& key, const std::string& name) {
  key = named<E>(name).value_or(key);
}
Names names_for(const std::string&) { return {}; }  // any
Names names_for(Named auto key) { return to_strings(all_names(key)); }

void read(JsonFields& fields, PrecisionFacts& precision) {
  const Names dtypes = to_strings(dtype_names());
  precision.weight = name_in(fields, "weight", dtypes);
  precision.compute = fields.optional_string("compute").value_or(precision.weight);
  if (precision.compute != precision.weight) {
    check_name(fields, "compute", precision.compute, dtypes);
  }
  precision.master = name_in(fields, "master", dtypes);
  precision.gradients = fields.optional_strings("gradients");
  for (const auto& dtype : precision.gradients) check_name(fields, "gradients", dtype, dtypes);
  if (precision.gradients.empty()) {
    fields.fault("gradients", "at least one gradient dtype is needed", "[\"fp32\"]");
  }
  if (fields.raw("gradient_life") != nullptr) {
    precision.gradient_life = kind_in<GradientLife>(fields, "gradient_life");
  }
  precision.gradient_copied_at_step =
      fields.optional_bool("gradient_copied_at_step").value_or(false);
  precision.frozen = fields.optional_string("frozen").value_or("");
  if (!precision.frozen.empty()) {
    check_name(fields, "frozen", precision.frozen, to_strings(dtype_names()));
  }
  precision.weight_under_fsdp = fields.optional_string("weight_under_fsdp").value_or("");
  if (!precision.weight_under_fsdp.empty()) {
    check_name(fields, "weight_under_fsdp", precision.weight_under_fsdp, dtypes);
  }
  precision.gradient_unsharded = fields.optional_string("gradient_unsharded").value_or("");
  if (!precision.gradient_unsharded.empty()) {
    check_name(fields, "gradient_unsharded", precision.gradient_unsharded, precision.gradients);
  }
  precision.weight_copies = bytes_in(fields, "weight_copies");
  if (fields.raw("weight_copies_either_order") != nullptr) {
    precision.weight_copies_either_order = bytes_in(fields, "weight_copies_either_order");
  }
  if (fields.raw("weight_stored_low") != nullptr) {
    precision.weight_stored_low = bytes_in(fields, "weight_stored_low");
  }
  precision.input_copy = bytes_in(fields, "input_copy");
  precision.rounds = {
      .input = bytes_in(fields, "rounds_input"),
      .after_norm = bytes_in(fields, "rounds_after_norm"),
      .input_again = bytes_in(fields, "rounds_input_again"),
      .gradient = bytes_in(fields, "rounds_gradient"),
      .gradient_again = bytes_in(fields, "rounds_gradient_again"),
      .weight = bytes_in(fields, "rounds_weight"),
      .before_gather = fields.optional_bool("rounds_before_gather").value_or(false)};
  precision.setting = setting_in(fields);
}

void read(JsonFields& fields, OptimizerFacts& optimizer) {
  read_optimizer(fields, optimizer);
  optimizer.setting = setting_in(fields);
}

void read(JsonFields& fields, Kernel& kernel) {
  kernel.use = use_in(fields);
  kernel.kept_per_input = bytes_in(fields, "kept_per_input");
  kernel.kept_per_output = bytes_in(fields, "kept_per_output");
  kernel.kept_per_row = bytes_in(fields, "kept_per_row");
  kernel.least_capability = bytes_in(fields, "least_capability");
  kernel.not_by_default_for = fields.optional_strings("not_by_default_for");
  kernel.setting = setting_in(fields);
}

void read(JsonFields& fields, Loss& loss) {
  loss.use = use_in(fields);
  loss.forward = bytes_in(fields, "forward");
  loss.kept = bytes_in(fields, "kept");
  loss.backward = bytes_in(fields, "backward");
  loss.left_behind = bytes_in(fields, "left_behind");
  loss.split_by_tp = fields.boolean("split_by_tp");
  loss.keeps_logits = fields.optional_bool("keeps_logits").value_or(false);
  loss.by_operators = fields.optional_bool("by_operators").value_or(false);
  const auto moved = loss.by_operators ? bytes_in : needed_bytes_in;
  loss.moved_forward = moved(fields, "moved_forward");
  loss.moved_backward = moved(fields, "moved_backward");
  loss.with_compile = fields.optional_bool("with_compile").value_or(false);
  loss.piece_tokens =
      fields.optional_integer("piece_tokens", {.least = 0, .most = 1 << 20}).value_or(0);
  loss.pieces = fields.optional_integer("pieces", {.least = 1, .most = 1 << 20}).value_or(1);
  loss.piece = bytes_in(fields, "piece");
  loss.chunks = fields.optional_integer("chunks", {.least = 1, .most = 1 << 20}).value_or(1);
  loss.hidden_gradient = bytes_in(fields, "hidden_gradient");
  loss.setting = setting_in(fields);
}

void read(JsonFields& fields, Overlap& overlap) {
  constexpr IntegerRange kCount{.least = 0, .most = 64};
  overlap.use = use_in(fields);
  overlap.gather_buffers = fields.optional_integer("gather_buffers", kCount).value_or(0);
  overlap.reduce_buffers = fields.optional_integer("reduce_buffers", kCount).value_or(0);
  overlap.setting = setting_in(fields);
}

void read(JsonFields& fields, TrainerSchedule& schedule) {
  schedule.name = fields.string("name");
  schedule.placement = kind_in<StagePlacement>(fields, "placement");
}

void read(JsonFields& fields, Bucket& bucket) {
  constexpr IntegerRange kSize{.least = 0, .most = std::int64_t{1} << 40};
  bucket.unit = kind_in<BucketUnit>(fields, "unit");
  bucket.least = fields.integer("least", kSize);
  bucket.per_dp = fields.optional_integer("per_dp", kSize).value_or(0);
  bucket.first_only = fields.optional_bool("first_only").value_or(false);
  bucket.setting = setting_in(fields);
}

void read(JsonFields& fields, Workspace& workspace) {
  constexpr IntegerRange kSize{.least = 0, .most = std::int64_t{1} << 40};
  workspace.count = fields.optional_integer("count", {.least = 1, .most = 1024}).value_or(1);
  workspace.bytes = fields.integer("bytes", kSize);
  workspace.before_hopper =
      fields.optional_integer("before_hopper", kSize).value_or(workspace.bytes);
  workspace.after_hopper = fields.optional_integer("after_hopper", kSize).value_or(workspace.bytes);
  workspace.amd = fields.optional_integer("amd", kSize).value_or(workspace.before_hopper);
  workspace.grouped_gemm = fields.optional_bool("grouped_gemm").value_or(false);
  workspace.own_products = fields.optional_bool("own_products").value_or(false);
  workspace.setting = setting_in(fields);
}

void read(JsonFields& fields, ShardingFacts& sharding) {
  if (fields.raw("gradients") != nullptr) {
    sharding.gradients = kind_in<GradientLife>(fields, "gradients");
  }
  sharding.gradients_as_weight = fields.optional_bool("gradients_as_weight").value_or(false);
  for (const std::string& name : fields.optional_strings("without")) {
    check_name(fields, "without", name, to_strings(all_names(KernelKind{})));
    if (const auto kind = named<KernelKind>(name)) sharding.without.push_back(*kind);
  }
  const double host = fields.optional_number("host_per_module").value_or(0);
  if (!(host >= 0 && host < 1)) fields.fault("host_per_module", "not between 0 and 1 s");
  sharding.host_per_module = Seconds(host);
  sharding.setting = setting_in(fields);
}

void read(JsonFields& fields, Choice& choice) { choice.setting = setting_in(fields); }

template <class Kind>
void read(JsonFields& fields, Offer<Kind>& offer) {
  offer.setting = setting_in(fields);
}

void read(JsonFields& fields, FlexBackend& backend) {
  backend.use = use_in(fields);
  backend.setting = setting_in(fields);
}

void read(JsonFields& fields, Communicator& communicator) {
  read_communicator(fields, communicator);
}

// Each entry is looked for among all.
bool too_many(JsonFields& fields, std::string_view key, const Json& object) {
  constexpr std::size_t kMostEntries = 2000;
  const bool many = object.members.size() > kMostEntries;
  if (many) fields.fault(key, fmt::format("more than {} entries", with_thousands(kMostEntries)));
  return many;
}

// Lays the entries of one object over a list: same key replaces, null removes, new keys append. An
// empty `known` leaves the keys free.
template <class T>
void read_entries(JsonFields& fields, std::string_view key, std::vector<T>& list,
                  Diagnostics& faults, const Names& known) {
  const Json* object = fields.raw(key);
  if (object == nullptr) return;
  if (!object->is_object()) {
    fields.fault(key, fmt::format("expected an object, found {}", name_of(object->kind)));
    return;
  }
  if (too_many(fields, key, *object)) return;
  for (const auto& [name, value] : object->members) {
    const std::string path = fmt::format("{}/{}", fields.path(key), name);
    if (!known.empty() && std::find(known.begin(), known.end(), name) == known.end()) {
      faults.push_back({json_place(fields.origin(), value, path),
                        fmt::format("unknown name '{}'", name),
                        did_you_mean(name, known, "known: " + enumerate(known))});
      continue;
    }
    const auto same = std::find_if(list.begin(), list.end(), [&wanted = name](T& entry) {
      return text_of(key_of(entry)) == wanted;
    });
    if (value.is_null()) {
      if (same != list.end()) list.erase(same);
      continue;
    }
    JsonFields entry_fields(value, fields.origin(), path, faults);
    T entry;
    set_key(key_of(entry), name);
    if (value.is_object()) {
      read(entry_fields, entry);
      entry.source = source_in(entry_fields);
      entry_fields.finish();
    }
    if (same != list.end()) {
      *same = std::move(entry);
    } else {
      list.push_back(std::move(entry));
    }
  }
}

template <class T>
void read_entries(JsonFields& fields, std::string_view key, std::vector<T>& list,
                  Diagnostics& faults) {
  T any;
  read_entries(fields, key, list, faults, names_for(key_of(any)));
}

void read_pipeline(const Json& object, const std::string& origin, const std::string& path,
                   PipelineFacts& pipeline, Diagnostics& faults) {
  JsonFields at(object, origin, path, faults);
  if (!object.is_object()) return;
  constexpr IntegerRange kLayers{.least = 0, .most = 1000};
  pipeline.outputs_freed_early = at.boolean("outputs_freed_early");
  pipeline.buffers_per_micro_batch = at.boolean("buffers_per_micro_batch");
  pipeline.sends_live_until_step_end = at.boolean("sends_live_until_step_end");
  pipeline.outputs_stay_with_ddp = at.optional_bool("outputs_stay_with_ddp").value_or(false);
  pipeline.last_output_stays = at.optional_bool("last_output_stays").value_or(false);
  pipeline.last_gradient_stays = at.optional_bool("last_gradient_stays").value_or(false);
  pipeline.last_input_stays = at.optional_bool("last_input_stays").value_or(false);
  pipeline.vocab_parallel = at.optional_bool("vocab_parallel").value_or(false);
  pipeline.first_stage_less_layers =
      at.optional_integer("first_stage_less_layers", kLayers).value_or(0);
  pipeline.last_stage_less_layers =
      at.optional_integer("last_stage_less_layers", kLayers).value_or(0);
  pipeline.source = source_in(at);
  at.finish();
}

// A file that has its own facts says anew which versions of PyTorch change them.
void read_pipelines(JsonFields& fields, Trainer& trainer, Diagnostics& faults) {
  if (const Json* own = fields.raw("pipeline")) {
    trainer.pipeline_since.clear();
    read_pipeline(*own, fields.origin(), fields.path("pipeline"), trainer.pipeline, faults);
  }
  constexpr std::string_view kSince = "pipeline_since_torch";
  const Json* object = fields.raw(kSince);
  if (object == nullptr) return;
  trainer.pipeline_since = {{Version{}, trainer.pipeline}};
  for (const auto& [text, value] : object->members) {
    const auto version = parse_version(text);
    PipelineSince since{version.value_or(Version{}), {}};
    if (!version || since.torch <= trainer.pipeline_since.back().torch) {
      fields.fault(kSince, fmt::format("'{}' is not a version after the one before", text),
                   "versions of PyTorch, the oldest first: 2.15");
    }
    read_pipeline(value, fields.origin(), fields.path(std::string(kSince) + '/' + text),
                  since.facts, faults);
    trainer.pipeline_since.push_back(std::move(since));
  }
}

// Fields that a file leaves out stay as they were.
void read_adapters(JsonFields& fields, AdapterFacts& adapters, Diagnostics& faults) {
  const Json* object = fields.raw("adapters");
  if (object == nullptr) return;
  JsonFields at(*object, fields.origin(), fields.path("adapters"), faults);
  if (!object->is_object()) return;
  adapters.dtype = at.optional_string("dtype").value_or(adapters.dtype);
  if (!adapters.dtype.empty()) check_name(at, "dtype", adapters.dtype, to_strings(dtype_names()));
  if (at.raw("bases") != nullptr) adapters.bases.clear();
  for (const std::string& base : at.optional_strings("bases")) {
    check_name(at, "bases", base, to_strings(all_names(FrozenBase{})));
    if (const auto kind = named<FrozenBase>(base)) adapters.bases.push_back(*kind);
  }
  if (at.raw("prepared") != nullptr) adapters.prepared.clear();
  for (const std::string& way : at.optional_strings("prepared")) {
    check_name(at, "prepared", way, to_strings(all_names(Prepared{})));
    if (const auto kind = named<Prepared>(way)) adapters.prepared.push_back(*kind);
  }
  if (at.raw("prepares") != nullptr) adapters.prepares = kind_in<Prepared>(at, "prepares");
  adapters.dtype_beside_few_bits =
      at.optional_string("dtype_beside_few_bits").value_or(adapters.dtype_beside_few_bits);
  if (!adapters.dtype_beside_few_bits.empty()) {
    check_name(at, "dtype_beside_few_bits", adapters.dtype_beside_few_bits,
               to_strings(dtype_names()));
  }
  for (const auto& [key, fact] : kAdapterFlags) {
    adapters.*fact = at.optional_bool(key).value_or(adapters.*fact);
  }
  adapters.setting = setting_in(at);
  adapters.source = source_in(at);
  at.finish();
}

void read(JsonFields& fields, std::string_view key, bool CodeFacts::* fact, CodeFacts& code) {
  code.*fact = fields.boolean(key);
}
void read(JsonFields& fields, std::string_view key, const CodeNumber& fact, CodeFacts& code) {
  code.*fact.member = fields.integer(key, {.least = fact.least, .most = fact.most});
}
template <class Kind>
void read(JsonFields& fields, std::string_view key, Kind CodeFacts::* fact, CodeFacts& code) {
  code.*fact = kind_in<Kind>(fields, key);
}

void read_defaults(JsonFields& fields, Defaults& defaults, Diagnostics& faults) {
  const Json* object = fields.raw("defaults");
  if (object == nullptr) return;
  JsonFields at(*object, fields.origin(), fields.path("defaults"), faults);
  if (!object->is_object()) return;
  if (at.raw("recompute") != nullptr) defaults.recompute = kind_in<RecomputeKind>(at, "recompute");
  defaults.source = source_in(at);
  at.finish();
}

// Fields that a file leaves out stay as they were.
void read_code(JsonFields& fields, CodeFacts& code, Diagnostics& faults) {
  const Json* object = fields.raw("code");
  if (object == nullptr) return;
  JsonFields at(*object, fields.origin(), fields.path("code"), faults);
  if (!object->is_object()) return;
  for (const CodeFact& fact : kCodeFacts) {
    if (at.raw(fact.name) != nullptr) {
      std::visit([&](const auto& of) { read(at, fact.name, of, code); }, fact.fact);
    }
  }
  code.source = source_in(at);
  at.finish();
}

void read_allocator(JsonFields& fields, AllocatorFacts& allocator, Diagnostics& faults) {
  const Json* object = fields.raw("allocator");
  if (object == nullptr) return;
  JsonFields at(*object, fields.origin(), fields.path("allocator"), faults);
  if (!object->is_object()) return;
  allocator.expandable_segments = at.boolean("expandable_segments");
  allocator.lead.reset();
  if (const Json* lead = at.raw("lead")) {
    JsonFields of(*lead, at.origin(), at.path("lead"), faults);
    constexpr IntegerRange kLead{.least = 0, .most = 1024};  // the launch queue of CUDA
    allocator.lead = HostLead{of.integer("alone", kLead), of.integer("pipeline", kLead)};
    of.finish();
  }
  constexpr IntegerRange kWorkspace{.least = 0, .most = std::int64_t{1} << 32};
  allocator.product_workspace = at.optional_integer("product_workspace", kWorkspace).value_or(0);
  allocator.setting = setting_in(at);
  allocator.source = source_in(at);
  at.finish();
}

void read_rank_order(JsonFields& fields, Trainer& trainer, Diagnostics& faults) {
  const Json* object = fields.raw("rank_order");
  if (object == nullptr) return;
  JsonFields at(*object, fields.origin(), fields.path("rank_order"), faults);
  if (!object->is_object()) return;
  trainer.rank_order = at.string("order");
  const Names axes = {"tp", "cp", "ep", "dp", "pp"};
  Names seen;
  for (const auto axis : split(trainer.rank_order, '-')) seen.emplace_back(axis);
  for (const auto& axis : seen) {
    check_name(at, "order", axis, axes);
    if (std::count(seen.begin(), seen.end(), axis) > 1) {
      at.fault("order", fmt::format("the axis {} appears twice", axis));
      break;
    }
  }
  trainer.rank_order_source = source_in(at);
  at.finish();
}

// What a layout or a job says that no rule asks about, and what a trainer is told besides: on every
// run, with a pipeline, of a model by its name (see export.h).
constexpr std::string_view kSettingsOnly[] = {
    "always",       "with_pp", "with_ep",        "model",      "modules",      "stage_modules",
    "schedule_csv", "order",   "offload",        "cp_ulysses", "pipeline_mbs", "nodes",
    "local_batch",  "loss",    "pipeline_batch", "attention",  "script",       "unasked",
    "read",         "why",     "vpp_layers",     "uncounted",  "recipes"};

// "recipes.sharding": "sharding != 'fsdp' ; source": what published recipes of the trainer share,
// and the layouts for which they do (search/recipes.h); of a precision, that it is their fp8 there.
void check_recipe(JsonFields& fields, const std::string& name, const std::string& value) {
  if (!name.starts_with("recipes.")) return;
  check_name(fields, "settings", name.substr(name.find('.') + 1),
             {"sharding", "bf16-gradients", "flash-attention", "fp8-tensorwise", "fp8-rowwise",
              "fp8-blockwise", "mxfp8"});
  const auto end = value.find(';');
  const auto when = parse_expression(std::string_view(value).substr(0, end), name);
  if (!when) {
    const Diagnostic& fault = when.error().diagnostics.front();
    fields.fault("settings", fmt::format("{}: {}", name, fault.what), fault.hint);
  }
  if (end == value.npos || trim(std::string_view(value).substr(end + 1)).empty()) {
    fields.fault("settings", fmt::format("{} needs a source", name),
                 "for which layouts ; whose recipes, how many of how many");
  }
}

Names settings_known() {
  Names known(std::begin(kSettingsOnly), std::end(kSettingsOnly));
  for (std::size_t i = 0; i < kVariableCount; ++i) {
    known.emplace_back(name_of(static_cast<Variable>(i)));
  }
  return known;
}

// "settings": {"tp": "--tensor-model-parallel-size", "overlap_p2p.off": ..., "etp": null}: what to
// set for a key, for one value of it, and that a later version has it no more.
void read_settings(JsonFields& fields, Trainer& trainer) {
  const Json* object = fields.raw("settings");
  if (object == nullptr) return;
  if (!object->is_object()) {
    fields.fault("settings", fmt::format("expected an object, found {}", name_of(object->kind)));
    return;
  }
  if (too_many(fields, "settings", *object)) return;
  const Names known = settings_known();
  for (const auto& [name, value] : object->members) {
    check_name(fields, "settings", name.substr(0, name.find('.')), known);
    auto& list = trainer.settings;
    const auto same = std::find_if(list.begin(), list.end(), [&wanted = name](const auto& setting) {
      return setting.first == wanted;
    });
    if (value.is_null()) {
      if (same != list.end()) list.erase(same);
      continue;
    }
    if (!value.is_string()) {
      fields.fault("settings", fmt::format("the setting of {} must be a string", name));
    } else if (const std::string hidden = hidden_fault(name + value.string); !hidden.empty()) {
      fields.fault("settings", fmt::format("the setting of {} {}", name, hidden),
                   std::string(kHiddenHint));
    }
    check_recipe(fields, name, value.string);
    if (same != list.end()) {
      same->second = value.string;
    } else {
      list.emplace_back(name, value.string);
    }
  }
}

}  // namespace

std::string source_in(JsonFields& fields) {
  std::string source = fields.string("source");
  if (fields.raw("source") != nullptr && trim(source).empty()) {
    fields.fault("source", "a fact needs a source", "file, section or page, and version");
  }
  return source;
}

void read_facts(JsonFields& fields, Trainer& trainer, Diagnostics& faults) {
  read_rank_order(fields, trainer, faults);
  const auto read_all = [&](std::string_view key, auto& list) {
    read_entries(fields, key, list, faults);
  };
  read_all("precisions", trainer.precisions);
  read_all("optimizers", trainer.optimizers);
  read_all("kernels", trainer.kernels);
  read_all("losses", trainer.losses);
  std::stable_partition(trainer.losses.begin(), trainer.losses.end(), [](const Loss& loss) {
    return loss.use == Use::Always || (loss.use == Use::ByDefault && !loss.with_compile);
  });
  read_all("overlaps", trainer.overlaps);
  read_all("schedules", trainer.schedules);
  read_all("shardings", trainer.shardings);
  read_all("recomputes", trainer.recomputes);
  read_all("recompute_modules", trainer.recompute_modules);
  read_all("cp_kinds", trainer.cp_kinds);
  read_all("flex_backends", trainer.flex_backends);
  std::stable_partition(trainer.flex_backends.begin(), trainer.flex_backends.end(),
                        [](const FlexBackend& of) { return of.use > Use::OptIn; });
  read_all("offloads", trainer.offloads);
  read_entries(fields, "communicators", trainer.communicators, faults, to_strings(group_names()));
  read_all("buckets", trainer.buckets);
  read_all("workspaces", trainer.workspaces);
  read_pipelines(fields, trainer, faults);
  read_code(fields, trainer.code, faults);
  read_adapters(fields, trainer.adapters, faults);
  read_defaults(fields, trainer.defaults, faults);
  read_allocator(fields, trainer.allocator, faults);
  read_libraries(fields, trainer, faults);
  read_settings(fields, trainer);
}

}  // namespace trainwright
