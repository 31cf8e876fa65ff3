#pragma once
// How a model is spread over a cluster: the decision a plan is made of.
//
// A layout says how many ways what is split (decision.h), and with an order of the ranks also who
// talks to whom over which links (placement.h).
//
//   world = tp * pp * cp * dp = etp * ep * edp * pp      ranks; experts fold into tp * cp * dp
//   micro_batches = gbs / (mbs * dp)                     of one step and one data-parallel rank
//   stages = pp * vpp                                    contiguous pieces of the layers
//
// All ranks of one pipeline rank do the same work, so a layout is at most pp classes of ranks.
// In text a layout is `key=value`, joined by commas, in any order, each at most once:
//
//   tp=8,pp=4,vpp=2,dp=2,sp,zero=1,mbs=1,gbs=1024,seq=8192,recompute=selective
//   tp pp dp cp vpp ep etp mbs gbs seq       whole numbers from 1
//   dp_shard dp_replicate                    whole numbers whose product is dp
//   zero                                     0 to 3
//   sharding                                 ddp zero fsdp hsdp megatron-fsdp; `fsdp` for short
//   recompute                                one, or one per stage with repeats: full*2/none*6
//       none selective feed-forward op-selective modules:norm+moe every-nth:N block:N full full:N
//   first_layers last_layers                 of the first and last pipeline rank
//   layers                                   of each stage: 5/6*14/3
//   count_embedding count_loss               alone, or how many layers they are worth
//   mtp_stage                                from 0
//   sp vocab_parallel                        alone; the latter: embedding, head on all stages
//   schedule placement micro_batch_group     kinds as trainer.h names them; a whole number
//   precision gradients cp_kind dispatcher likewise; flex is the context's `flex`
//   offload                                  optimizer+activations+parameters
//   on off                                   overlap-tp+compile+...
//   loss                                     one of the trainer's
//   max_connections cp_ulysses               CUDA_DEVICE_MAX_CONNECTIONS; a whole number
//   order                                    tp-cp-ep-dp-pp, innermost first; cp, ep may be absent
// Left out: dp fills the world where one is known, etp is tp, schedule and placement are the usual
// ones for pp and vpp, zero and sharding imply each other; all else is as in the context's `usual`.
//
// A job is written likewise, for instance optimizer=muon,frozen=router,frozen_layers=8:
//   optimizer                                kinds as trainer.h names them
//   lora                                     rank, or rank:targets, joined by '+'. A target is our
//       word for a matrix (query, down), Hugging Face's (q_proj, down_proj, c_attn, all-linear) or
//       Megatron's (linear_qkv, linear_fc2); left out, every matrix of every layer but routers
//   qlora                                    the same with base=nf4
//   base prepared                            nf4, int8 or fp8; peft or trl (kinds.h of trainer)
//   lora_dtype                               as-weight or fp32; left out, as the trainer does
//   lora_dropout                             alone
//   frozen                                   parts of the model, joined by '+'
//   frozen_layers                            the first so many, whole, adapters included
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/base/ids.h"
#include "trainwright/base/json.h"
#include "trainwright/base/result.h"
#include "trainwright/base/units.h"
#include "trainwright/cluster/cluster.h"
#include "trainwright/layout/decision.h"
#include "trainwright/layout/placement.h"
#include "trainwright/layout/sharding.h"
#include "trainwright/layout/stored_as.h"
#include "trainwright/model/model.h"
#include "trainwright/schedule/schedule.h"
#include "trainwright/trainer/trainer.h"

namespace trainwright {

// Largest degree and largest batch or sequence that are read; no product below can then overflow.
inline constexpr std::int64_t kMostDegree = kMostAccelerators;
inline constexpr std::int64_t kMostBatch = std::int64_t{1} << 31;

struct ReadLayout {
  Layout layout;
  std::vector<std::string> notes;  // "dp=4: 64 accelerators / (tp 8 x pp 2 x cp 1)"
};
// What a text may leave out is taken from here.
struct LayoutContext {
  std::optional<std::int64_t> world;           // accelerators to fill
  Layout usual;                                // everything that cannot be derived
  DispatcherKind flex = DispatcherKind::Flex;  // the backend that dispatcher=flex stands for
};
// What a trainer does unasked: its order of ranks, and what it counts as layers in an even split.
Layout usual_layout(const Trainer& trainer);
// The backend of the flex dispatcher that a trainer takes there: the first in its file that runs on
// that cluster; Flex where its file names none.
DispatcherKind usual_flex(const Cluster& cluster, const Trainer& trainer);
// All faults at once, misspelt keys and kinds with the nearest.
Result<ReadLayout> parse_layout(std::string_view text, const LayoutContext& context = {});
// The same keys as an object: numbers, strings, true for what stands alone, arrays for lists.
Result<ReadLayout> read_layout(const Json& json, const std::string& origin,
                               const LayoutContext& context = {});
std::string to_text(const Layout& layout);  // parse_layout(to_text(x)) == x, if within the bounds
Json to_json(const Layout& layout);         // read_layout(to_json(x)) == x
std::string to_text(const Recompute& recompute);
std::string to_text(const RankOrder& order);

// A layout's text with entries given anew: those of `change` stand in place of what they name.
std::string amended(std::string_view text, std::string_view change);
// What a text says of a key: "4" for tp in "tp=4,sp", "" for sp.
std::optional<std::string> entry_of(std::string_view text, std::string_view key);
// The fewest entries for which parse_layout(amended(text, change), context) is `to`. The text can
// be read, and has no list or set that `to` lacks.
std::string change_to(std::string_view text, const Layout& to, const LayoutContext& context = {});

Result<Job> parse_job(std::string_view text);
Result<Job> read_job(const Json& json, const std::string& origin);
std::string to_text(const Job& job);
Json to_json(const Job& job);
// What it names and the model or the trainer lacks, whatever the layout: matrices for adapters,
// layers to freeze, anything to train, the optimizer. All of it also speaks against every layout.
Diagnostics job_faults(const Job& job, const Model& model, const Trainer& trainer);

// What is implied where the text is silent.
ScheduleKind usual_schedule(std::int64_t pp, std::int64_t vpp);
StagePlacement usual_placement(ScheduleKind schedule, std::int64_t vpp);
// What runs: without a pipeline no schedule, whatever was asked for; and of schedules that pass
// chunks in groups, the micro-batches of one, at most all of them; 0: as usual.
ScheduleKind running_schedule(const Layout& layout);
std::int64_t running_group(const Layout& layout);
// Which of the trainer's losses: the one asked for (0: has none), that of compile, or its first.
std::size_t running_loss(const Layout& layout, const Trainer& trainer);

std::int64_t world_size(const Layout& layout);   // tp pp cp dp; INT64_MAX when beyond
std::int64_t dp_shard(const Layout& layout);     // dp / dp_replicate; 1 without sharding
std::int64_t expert_dp(const Layout& layout);    // edp = tp cp dp / (etp ep), 0 if etp ep is more
std::int64_t stage_count(const Layout& layout);  // pp vpp
std::int64_t micro_batch_count(const Layout& layout);  // gbs / (mbs dp), rounded down
Tokens tokens_per_step(const Layout& layout);          // gbs seq
bool asks(const Layout& layout, Switch what, const Trainer& trainer);  // on, off, or its default
// The modules that a way to recompute runs again, where a layer has them; none of those that run
// whole layers again. A feed-forward is an mlp or experts.
Flags<RecomputeModule> modules_of(const Recompute& recompute);

// What a stage holds. Layers of a kind that follow each other are one run.
struct LayerRun {
  LayerKindId kind;
  std::int64_t count = 0;
  friend bool operator==(const LayerRun&, const LayerRun&) = default;
};
struct Stage {
  StageId id;              // in the order of the layers
  std::int64_t rank = 0;   // pipeline rank it sits on
  std::int64_t chunk = 0;  // which of that rank's vpp stages, in the order of the layers
  std::int64_t first = 0;  // its first layer
  std::int64_t count = 0;  // of layers
  std::vector<LayerRun> runs;
  bool embedding = false;  // tables and what follows them
  bool head = false;       // final norm, head and loss
  // With vocab_parallel: rows and columns of the two tables, and work beside its rank's passes.
  bool embedding_share = false, head_share = false;
  std::int64_t mtp = 0;  // multi-token-prediction modules
  bool away = false;     // these on another stage, or the head on another rank, than the embedding
  friend bool operator==(const Stage&, const Stage&) = default;
};
// Even: (layers + count_embedding + count_loss) dealt out over the stages, what is over one each to
// the first ones; then the embedding's worth is taken from the first and the loss's from the last.
// With first_layers or last_layers the other ranks share the rest, and a rank's stages share its
// layers. O(layers + stages). Diagnoses what cannot be dealt.
Result<std::vector<Stage>> stage_layers(const Layout& layout, const Model& model);
// The layout as it is and, where its layers do not come out even, with the loss or both ends
// counted as layers if that does, else (one chunk) with what is missing taken from the first and
// last rank: 126 layers on 16 ranks count both ends (7 8 ... 8 7), 61 become 3 4 ... 4 2.
std::vector<Layout> pipeline_splits(const Layout& layout, std::int64_t layers);
std::int64_t stage_rank(const Layout& layout, std::int64_t stage);   // the pipeline's
std::int64_t stage_chunk(const Layout& layout, std::int64_t stage);  // which of that rank's

// Parameters that are trained, those that are only read, and of the trained ones the adapters.
struct TrainedParameters {
  Params trained, frozen, adapters;
  friend bool operator==(const TrainedParameters&, const TrainedParameters&) = default;
};
TrainedParameters trained_parameters(const Job& job, const Model& model);

// Why a layout cannot run (Forbidden) or not as asked (Advice): by arithmetic, for what the trainer
// does not offer, or by one of its rules (whose id it has).
struct LayoutViolation {
  std::string id;  // "heads-tp"
  Severity severity = Severity::Forbidden;
  std::string reason;  // with numbers: "40 heads do not split 16 ways"
  std::string hint;    // the nearest legal change: "tp may be 1, 2, 4, 5, 8, 10, 20, 40"
  std::string source;  // of a trainer's rule
  friend bool operator==(const LayoutViolation&, const LayoutViolation&) = default;
};
// All of them, but whether it fits into memory. `order`, where it is known: what schedule=csv runs.
std::vector<LayoutViolation> violations(const Layout& layout, const Job& job, const Model& model,
                                        const Cluster& cluster, const Trainer& trainer,
                                        const Schedule* order = nullptr);
bool is_legal(const std::vector<LayoutViolation>& violations);  // none is Forbidden
// What rules may ask about, as far as it is known; max_connections often is not.
Facts facts(const Layout& layout, const Job& job, const Model& model, const Cluster& cluster,
            const Trainer& trainer, const Schedule* order = nullptr);

}  // namespace trainwright
