// A job as text and JSON, and what of a model it trains.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainwright/base/check.h"
#include "trainwright/base/four_bits.h"
#include "trainwright/base/text.h"
#include "trainwright/layout/entries.h"
#include "trainwright/layout/kinds.h"
#include "trainwright/layout/layout.h"

namespace trainwright {
namespace {

using detail::Entry;
using detail::EntryReader;

constexpr std::int64_t kMostRank = std::int64_t{1} << 20;

// "16", or "16:query+value". Names of weights have underscores, values hyphens.
std::optional<Lora> rank_and_targets(EntryReader& reader, std::string_view key) {
  const Entry* entry = reader.with_value(key);
  if (entry == nullptr) return std::nullopt;
  const std::string_view text = *entry->value;
  const std::size_t colon = text.find(':');
  const auto rank = reader.number_in(*entry, trim(text.substr(0, colon)), {1, kMostRank});
  if (!rank) return std::nullopt;
  Lora lora{.rank = *rank, .targets = {}};
  if (colon == std::string_view::npos) return lora;
  for (const std::string_view part : split(text.substr(colon + 1), '+')) {
    std::string name(trim(part));
    std::replace(name.begin(), name.end(), '-', '_');
    if (name.empty()) {
      reader.fault(*entry, "a target without a name", "for example lora=16:query+value");
      return std::nullopt;
    }
    if (name != "all_linear") lora.targets.push_back(std::move(name));
  }
  return lora;
}

void read_lora(EntryReader& reader, Job& job) {
  job.lora = rank_and_targets(reader, "lora");
  if (auto quantised = rank_and_targets(reader, "qlora")) {
    if (reader.has("lora")) {
      reader.fault(*reader.raw("qlora"), "lora and qlora are both there", "leave one out");
    }
    job.lora = std::move(quantised);
    job.lora->base = FrozenBase::Nf4;
  }
  const auto dtype = reader.kind<AdapterDtype>("lora_dtype");
  const auto base = reader.kind<FrozenBase>("base");
  const auto prepared = reader.kind<Prepared>("prepared");
  const bool dropout = reader.flag("lora_dropout");
  const bool experts = reader.flag("quantised_experts");
  const auto trained = reader.set<Part>("trained");
  if (job.lora) {
    job.lora->dtype = dtype.value_or(AdapterDtype::AsTrainer);
    job.lora->base = base.value_or(job.lora->base);
    job.lora->prepared = prepared.value_or(Prepared::AsTrainer);
    job.lora->quantised_experts = experts;
    if (trained) job.lora->trained = *trained;
    job.lora->dropout = dropout;
    return;
  }
  if (reader.has("lora") || reader.has("qlora")) return;  // which has a fault of its own
  for (const char* key :
       {"lora_dtype", "lora_dropout", "base", "prepared", "quantised_experts", "trained"}) {
    if (const Entry* entry = reader.raw(key)) {
      reader.fault(*entry, fmt::format("{} without lora", key), "for example lora=16");
    }
  }
}

Result<Job> job_of(std::vector<Entry> entries, Diagnostics diagnostics) {
  EntryReader reader(std::move(entries), "job", job_keys(), diagnostics);
  Job job;
  if (const auto kind = reader.kind<OptimizerKind>("optimizer")) job.optimizer = *kind;
  if (const auto parts = reader.set<Part>("frozen")) job.frozen = *parts;
  if (const auto layers = reader.integer("frozen_layers")) job.frozen_layers = *layers;
  if (const auto loaded = reader.kind<LoadedAs>("loaded")) job.loaded = *loaded;
  read_lora(reader, job);
  reader.finish();
  if (!diagnostics.empty()) return fail(std::move(diagnostics));
  return job;
}

bool is_target(const Job& job, const Weight& weight) {
  const auto matrix = layer_matrix(weight.name);
  return matrix && target_matrices(*job.lora).has(*matrix);
}

Params adapter_size(const Job& job, const Weight& weight) {
  const std::int64_t one = checked_mul(job.lora->rank, checked_add(weight.in, weight.out));
  return Params(one) * weight.copies;
}

// Of tied tables each has a copy of its own (peft 0.21.2 utils/other.py
// ModulesToSaveWrapper.update).
Params copy_size(Weight weight) {
  weight.tied = false;
  return size_of(weight);
}

enum class Frozen { Yes, No };

// Adds `copies` times these weights to the sums.
void add(TrainedParameters& sum, const Job& job, const std::vector<Weight>& weights,
         std::int64_t copies, Frozen frozen) {
  for (const Weight& weight : weights) {
    const Params size = size_of(weight) * copies;
    const bool trained = frozen == Frozen::No && !job.lora && !job.frozen.has(weight.part);
    (trained ? sum.trained : sum.frozen) += size;
    if (job.lora && job.lora->trained.has(weight.part)) sum.trained += copy_size(weight);
    if (job.lora && frozen == Frozen::No && is_target(job, weight)) {
      const Params adapters = adapter_size(job, weight) * copies;
      sum.adapters += adapters;
      sum.trained += adapters;
    }
  }
}

// How many layers of each kind lie in [first, end).
std::vector<std::int64_t> kinds_between(const Model& model, std::size_t first, std::size_t end) {
  std::vector<std::int64_t> counts(model.kinds.size());
  for (std::size_t i = first; i < std::min(end, model.layers.size()); ++i) {
    ++counts[model.layers[i].at()];
  }
  return counts;
}

}  // namespace

Result<Job> parse_job(std::string_view text) {
  Diagnostics diagnostics;
  auto entries = detail::entries_of_text(text, "job", diagnostics);
  return job_of(std::move(entries), std::move(diagnostics));
}

Result<Job> read_job(const Json& json, const std::string& origin) {
  Diagnostics diagnostics;
  auto entries = detail::entries_of_json(json, origin, {}, diagnostics);
  return job_of(std::move(entries), std::move(diagnostics));
}

Json to_json(const Job& job) {
  Json json = Json::object();
  json.add("optimizer", Json::of(name_of(job.optimizer)));
  if (!job.frozen.empty()) {
    Json parts = Json::array();
    for (const std::string& name : detail::names_in(job.frozen)) parts.push(Json::of(name));
    json.add("frozen", std::move(parts));
  }
  if (job.frozen_layers != 0) json.add("frozen_layers", Json::of(job.frozen_layers));
  if (job.lora) {
    const std::string targets = join(job.lora->targets, "+");
    json.add("lora",
             Json::of(fmt::format("{}{}{}", job.lora->rank, targets.empty() ? "" : ":", targets)));
    if (job.lora->base != FrozenBase::AsWeights) {
      json.add("base", Json::of(name_of(job.lora->base)));
    }
    if (job.lora->quantised_experts) json.add("quantised_experts", Json::of(true));
    if (job.lora->prepared != Prepared::AsTrainer) {
      json.add("prepared", Json::of(name_of(job.lora->prepared)));
    }
    if (!job.lora->trained.empty()) {
      Json parts = Json::array();
      for (const std::string& name : detail::names_in(job.lora->trained)) {
        parts.push(Json::of(name));
      }
      json.add("trained", std::move(parts));
    }
    if (job.lora->dtype != AdapterDtype::AsTrainer) {
      json.add("lora_dtype", Json::of(name_of(job.lora->dtype)));
    }
    if (job.lora->dropout) json.add("lora_dropout", Json::of(true));
  }
  if (job.loaded != LoadedAs::AsTrainer) json.add("loaded", Json::of(name_of(job.loaded)));
  return json;
}

std::string to_text(const Job& job) { return detail::text_of_entries(to_json(job), {}); }

namespace {

bool is_bitsandbytes(FrozenBase base) {
  return base == FrozenBase::Nf4 || base == FrozenBase::Int8;
}

// The dtype of what is frozen beside adapters.
std::string_view frozen_dtype(const Job& job, const PrecisionFacts& facts) {
  if (job.loaded != LoadedAs::AsTrainer) return name_of(job.loaded);
  return facts.frozen.empty() ? facts.weight : facts.frozen;
}

// Of what is trained of the model itself.
std::string_view trained_dtype(const Job& job, const StoredAs& storage,
                               const PrecisionFacts& facts) {
  if (storage.under_fsdp && !facts.weight_under_fsdp.empty()) return facts.weight_under_fsdp;
  return job.loaded == LoadedAs::AsTrainer ? std::string_view(facts.weight) : name_of(job.loaded);
}

}  // namespace

StoredAs::StoredAs(const Layout& layout)
    : precision(layout.precision),
      under_fsdp(layout.sharding == ShardingKind::Fsdp || layout.sharding == ShardingKind::Hsdp) {}

std::string_view weight_dtype(const Job& job, const StoredAs& storage, const Trainer& trainer) {
  const PrecisionFacts* facts = find_kind(trainer.precisions, storage.precision);
  if (facts == nullptr) return {};
  return job.lora ? frozen_dtype(job, *facts) : trained_dtype(job, storage, *facts);
}

Prepared prepared_as(const Job& job, const StoredAs& storage, const Trainer& trainer) {
  if (!job.lora) return Prepared::No;
  if (job.lora->prepared != Prepared::AsTrainer) return job.lora->prepared;
  const PrecisionFacts* facts = find_kind(trainer.precisions, storage.precision);
  if (storage.under_fsdp || facts == nullptr) return Prepared::No;
  const bool wide = facts->compute != "fp32" && frozen_dtype(job, *facts) == "fp32";
  if (wide && trainer.adapters.autocast) return Prepared::Peft;
  return is_bitsandbytes(job.lora->base) ? trainer.adapters.prepares : Prepared::No;
}

std::string_view adapter_dtype(const Job& job, const Trainer& trainer) {
  if (!job.lora) return {};
  switch (job.lora->dtype) {
    case AdapterDtype::AsTrainer: {
      const std::string& beside = trainer.adapters.dtype_beside_few_bits;
      return is_bitsandbytes(job.lora->base) && !beside.empty() ? beside : trainer.adapters.dtype;
    }
    case AdapterDtype::AsWeight: return {};
    case AdapterDtype::Fp32: return "fp32";
  }
  TW_CHECK(false, "no such dtype of adapters");
}

Bytes stored_bytes(FrozenBase base, std::int64_t in, std::int64_t out) {
  const std::int64_t numbers = checked_mul(in, out);
  const auto per = [](std::int64_t count, std::int64_t size) { return ceil_div(count, size); };
  switch (base) {
    case FrozenBase::AsWeights: break;
    case FrozenBase::Nf4: {
      constexpr std::int64_t kMean = 4, kTables = 4 * (std::int64_t{16} + 256);
      return bytes_of(FourBits::Nf4, numbers) + Bytes(kMean + kTables);
    }
    case FrozenBase::Mxfp4: return bytes_of(FourBits::Mxfp4, in) * out;
    case FrozenBase::Nvfp4: return bytes_of(FourBits::Nvfp4, in) * out + Bytes(4);
    case FrozenBase::Int8: return Bytes(numbers + 4 * out);
    case FrozenBase::Fp8: return Bytes(numbers + 4 * per(in, 128) * per(out, 128));
  }
  TW_CHECK(false, "what is not quantised has no bytes of its own");
}

Bytes unsharded_bytes(FrozenBase base, std::int64_t in, std::int64_t out) {
  const std::int64_t numbers = checked_mul(in, out);
  switch (base) {
    case FrozenBase::Nf4: return stored_bytes(base, in, out) - half_bytes(numbers);
    case FrozenBase::Int8: return stored_bytes(base, in, out) - Bytes(numbers);
    case FrozenBase::AsWeights:
    case FrozenBase::Fp8:
    case FrozenBase::Mxfp4:
    case FrozenBase::Nvfp4: break;
  }
  return Bytes(0);
}

Result<TrainedBytes> trained_bytes(const Job& job, const StoredAs& storage,
                                   const Trainer& trainer) {
  const PrecisionKind precision = storage.precision;
  ParameterBytes model = TW_TRY(parameter_bytes(trainer, precision, job.optimizer));
  const PrecisionFacts& facts = *find_kind(trainer.precisions, precision);
  const auto in = [&](std::string_view dtype) {
    return parameter_bytes_in(dtype, trainer, precision, job.optimizer);
  };
  const std::string_view weight = weight_dtype(job, storage, trainer);
  if (weight != facts.weight) model = TW_TRY(in(weight));
  const std::string_view dtype = adapter_dtype(job, trainer);
  if (dtype.empty()) return TrainedBytes{model, std::move(model)};
  return TrainedBytes{std::move(model), TW_TRY(in(dtype))};
}

std::string gradient_dtype(const Layout& layout, const Trainer& trainer) {
  if (layout.gradients != GradientDtype::AsTrainer) return std::string(name_of(layout.gradients));
  const PrecisionFacts* facts = find_kind(trainer.precisions, layout.precision);
  if (facts == nullptr) return {};
  if (layout.zero == 0 && !facts->gradient_unsharded.empty()) return facts->gradient_unsharded;
  const ShardingFacts* sharding = find_kind(trainer.shardings, layout.sharding);
  const auto& offered = facts->gradients;
  const bool as_weight = sharding != nullptr && sharding->gradients_as_weight &&
                         std::find(offered.begin(), offered.end(), facts->weight) != offered.end();
  if (as_weight) return facts->weight;
  return offered.empty() ? std::string() : offered.front();
}

namespace {

// Compute capability 10.0 to 11.x, and 13.0 on.
bool take_either_order(const Cluster& cluster) {
  return std::all_of(cluster.groups.begin(), cluster.groups.end(), [](const Group& group) {
    const double capability = group.accelerator.compute_capability;
    return (capability >= 10 && capability < 12) || capability >= 13;
  });
}

}  // namespace

Result<TrainedBytes> trained_bytes(const Job& job, const Layout& layout, const Cluster& cluster,
                                   const Trainer& trainer) {
  TrainedBytes bytes = TW_TRY(trained_bytes(job, StoredAs(layout), trainer));
  const PrecisionFacts& facts = *find_kind(trainer.precisions, layout.precision);
  const bool adapters = !adapter_dtype(job, trainer).empty();
  const std::string gradients = gradient_dtype(layout, trainer);
  if (gradients != facts.gradients.front()) {
    // Weights that are loaded in another dtype have gradients in it.
    const bool frozen = (job.lora && !facts.frozen.empty()) ||
                        weight_dtype(job, StoredAs(layout), trainer) != facts.weight;
    ParameterBytes model =
        TW_TRY(parameter_bytes(trainer, layout.precision, job.optimizer, gradients));
    if (!frozen) bytes.model = std::move(model);
    if (!adapters) bytes.adapter = bytes.model;
  }
  if (facts.weight_copies_either_order && take_either_order(cluster)) {
    bytes.model.weight_copies = *facts.weight_copies_either_order;
    if (!adapters) bytes.adapter.weight_copies = bytes.model.weight_copies;
  }
  return bytes;
}

TrainedParameters trained_parameters(const Job& job, const Model& model) {
  TrainedParameters sum;
  add(sum, job, embedding_weights(model), 1, Frozen::No);
  add(sum, job, head_weights(model), 1, Frozen::No);
  const auto border = static_cast<std::size_t>(std::max<std::int64_t>(0, job.frozen_layers));
  const auto frozen = kinds_between(model, 0, border);
  const auto others = kinds_between(model, border, model.layers.size());
  for (std::size_t k = 0; k < model.kinds.size(); ++k) {
    const auto weights = layer_weights(model, model.kinds[k]);
    add(sum, job, weights, frozen[k], Frozen::Yes);
    add(sum, job, weights, others[k], Frozen::No);
  }
  for (const LayerKindId kind : model.mtp) {
    add(sum, job, layer_weights(model, model.kinds[kind.at()]), 1, Frozen::No);
    add(sum, job, mtp_weights(model), 1, Frozen::No);
  }
  return sum;
}

}  // namespace trainwright
