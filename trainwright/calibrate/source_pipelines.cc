// Comparisons of pipeline schedules: Zero Bubble, Vocabulary Parallelism, and Paddle's runs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainwright/base/text.h"
#include "trainwright/calibrate/draft.h"

namespace trainwright::detail {
namespace {

std::string a100s(const MeasuredRun& run) {
  return fmt::format("{}xA100-80GB", run.gpus.value_or(0));
}

bool set_schedule(Layout& layout, ScheduleKind kind) {
  layout.schedule = kind;
  layout.placement = usual_placement(kind, layout.vpp);
  return true;
}

// The schedules of the two papers by their printed names.
bool read_schedule(Layout& layout, std::string_view name) {
  if (name == "1f1b") return set_schedule(layout, ScheduleKind::OneFOneB);
  if (name == "interleaved") return set_schedule(layout, ScheduleKind::InterleavedOneFOneB);
  if (name == "zb-1p") return set_schedule(layout, ScheduleKind::ZbH1);
  if (name == "zb-2p") return set_schedule(layout, ScheduleKind::ZbH2);
  if (name == "zb-v") return set_schedule(layout, ScheduleKind::ZbV);
  if (name == "v-half") return set_schedule(layout, ScheduleKind::VHalf);
  return false;
}

}  // namespace

namespace {

// The orders that the authors' search finds fill their limit of p or 2 p micro-batches on every
// rank, where rank r of 1F1B holds p - r.
std::vector<std::int64_t> up_to(std::int64_t limit, std::int64_t pp) {
  std::vector<std::int64_t> more;
  for (std::int64_t rank = 0; rank < std::min(pp, kMostListedStages); ++rank) {
    more.push_back(limit - (pp - rank));
  }
  return more;
}

}  // namespace

DraftOrReason zero_bubble(const MeasuredRun& run, const Knowledge& knowledge) {
  Shape shape = shape_of(run);
  // arXiv:2401.10241 prints no vocabulary; with 32,000 its printed sizes come out.
  if (!shape.vocabulary) shape.vocabulary = 32000;
  const bool taken = knowledge.learned == Learned::Taken;
  TrainerChoice trainer{.name = "zero-bubble-megatron@1.0",
                        .kernels = {{KernelKind::FlashAttention, !taken}},
                        .loss = {}};
  DraftOrReason draft = start(run, knowledge, std::move(trainer), a100s(run), gpt_model(shape));
  if (!draft) return draft;
  draft->model.dropout_hidden = draft->model.dropout_attention = 0.1;
  Case& made = draft->made;
  if (!read_schedule(made.layout, run.schedule))
    return skip("an unknown schedule: " + run.schedule);
  const std::int64_t pp = made.layout.pp;
  if (taken && run.schedule == "zb-1p") made.more_in_flight = up_to(pp, pp);
  if (taken && run.schedule == "zb-2p") made.more_in_flight = up_to(2 * pp, pp);
  if (!made.more_in_flight.empty()) {
    made.notes.emplace_back("learned: the order found fills its limit on every rank");
  }
  // "First and last stage have one layer less."
  made.layout.count_embedding = made.layout.count_loss = 1;
  made.layout.zero = 1;
  made.layout.sharding = ShardingKind::Zero;
  made.layout.off.insert(Switch::OverlapP2p);
  made.notes.emplace_back(
      "learned: unfused attention, whose scores and masks alone explain what a micro-batch adds "
      "(the script of a later date has --use-flash-attn); vocabulary not printed: 32,000 as in "
      "data/models; allocated on the worst rank, in 10^9 bytes (1F1B comes out without a constant; "
      "in GiB it would lack 2 GiB and more with larger micro-batches)");
  if (run.peak_mem_gb) {
    made.memory.push_back(printed(*run.peak_mem_gb, taken ? PrintedUnit::GB : PrintedUnit::GiB, 0,
                                  taken ? MemoryKind::Allocated : MemoryKind::Unstated,
                                  ReadAt::WorstRank));
  }
  return draft;
}

namespace {

// How many layers the head is worth in FLOPs: 2 h V over 24 h^2 + 4 s h per token. The artifact of
// the paper prints the same figure (6.25 for h 3072, V 256,000, s 2048).
double head_in_layers(const Model& model, std::int64_t sequence) {
  const auto h = static_cast<double>(model.hidden);
  return 2 * static_cast<double>(model.vocabulary) / (24 * h + 4 * static_cast<double>(sequence));
}

// Layers moved away from the last stage, to the later ones of the others. Reproduces the FLOPs of
// the stages in artifact/exp_one_host.csv (8 ranks, 32k to 256k).
std::vector<std::int64_t> redistributed(const Model& model, const Layout& layout) {
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  const double head = head_in_layers(model, layout.seq);
  const double mean = (static_cast<double>(layers) + head) / static_cast<double>(layout.pp);
  const double wanted = std::clamp(std::ceil(mean - head), 0.0, static_cast<double>(layers));
  const auto last = static_cast<std::int64_t>(wanted);
  const std::int64_t others = layout.pp - 1;
  std::vector<std::int64_t> counts;
  for (std::int64_t i = 0; i < others; ++i) {
    const std::int64_t rest = layers - last;
    counts.push_back(rest / others + (i >= others - rest % others ? 1 : 0));
  }
  counts.push_back(last);
  return counts;
}

// README.md of sail-sg/VocabularyParallelism, "Activation Memory": p + 2, p + 1 and 1.5 p
// micro-batches, where 1F1B has p.
void spread_vocabulary(Case& made) {
  const std::int64_t pp = made.layout.pp;
  std::int64_t more = 0;
  if (made.variant == "vocab-1") more = 2;
  if (made.variant == "vocab-2") more = 1;
  if (made.variant == "interlaced") more = pp / 2;
  if (more == 0 || pp > kMostListedStages) return;
  made.layout.vocab_parallel = true;
  made.more_in_flight.assign(static_cast<std::size_t>(pp), more);
}

}  // namespace

DraftOrReason vocabulary_parallel(const MeasuredRun& run, const Knowledge& knowledge) {
  DraftOrReason draft =
      start(run, knowledge, {.name = "zero-bubble-megatron@1.2", .kernels = {}, .loss = {}},
            a100s(run), gpt_model(shape_of(run)));
  if (!draft) return draft;
  Case& made = draft->made;
  const std::size_t plus = run.schedule.find('+');
  if (!read_schedule(made.layout, run.schedule.substr(0, plus))) {
    return skip("an unknown schedule: " + run.schedule);
  }
  if (plus != std::string::npos) made.variant = run.schedule.substr(plus + 1);
  if (made.variant == "redis" && made.layout.pp > 1 && made.layout.pp <= kMostListedStages) {
    made.layout.layers = redistributed(draft->model, made.layout);
  }
  spread_vocabulary(made);
  const bool artifact = run.source == "vocab_parallel_artifact";
  // The script of the artifact has --attention-dropout 0 --hidden-dropout 0.
  const bool taken = knowledge.learned == Learned::Taken;
  if (!artifact && taken) {
    draft->model.dropout_hidden = 0.1;
    made.notes.emplace_back(
        "learned: dropout as Megatron-LM's default; tokens add two masks a layer");
  }
  made.layout.zero = 1;
  made.layout.sharding = ShardingKind::Zero;
  made.layout.off.insert(Switch::OverlapP2p);
  made.notes.emplace_back(
      artifact ? "read as reserved: artifact/README.md prints whole segments, 33.7227 GB is 34,532 "
                 "MiB, and likewise an even number of MiB for every method"
               : "read as allocated, GiB: 25.64 is 26256.8 MiB in artifact/exp_one_host.csv, whose "
                 "reserved column says 30156");
  if (artifact && run.schedule == "1f1b" && run.vocab == 256000 && run.seq_len == 2048) {
    made.broken = "more memory than with twice the tokens, at half the speed of its neighbours";
  }
  if (run.peak_mem_gb && run.outcome == Outcome::Ok) {
    made.memory.push_back(printed(*run.peak_mem_gb, PrintedUnit::GiB, 2,
                                  artifact ? MemoryKind::Reserved : MemoryKind::Allocated,
                                  ReadAt::WorstRank));
  }
  return draft;
}

namespace {

// "printed memory per GPU group: 46.77\*2 + 36.59\*2 + ...": one figure for each pipeline rank, or
// one for all.
std::vector<double> stage_memories(std::string_view notes) {
  std::vector<double> figures;
  for (const std::string_view part : split(noted(notes, "printed memory per GPU group"), '+')) {
    const std::string_view text = trim(part);
    const auto figure = parse_number(trim(text.substr(0, text.find_first_of("\\* "))));
    if (!figure || *figure <= 0) return {};
    figures.push_back(*figure);
  }
  return figures;
}

ModelOrReason flagperf_model(const MeasuredRun& run) {
  Shape shape = shape_of(run);
  if (run.model_name.starts_with("LLaMA")) return llama_model(shape);
  // PaddleNLP's gpt3 configs: 4 x hidden, vocabulary 50,304, tied.
  if (shape.hidden) shape.ffn = 4 * *shape.hidden;
  shape.vocabulary = 50304;
  shape.tied = true;
  auto model = gpt_model(shape);
  if (!model) return model;
  if (auto* mlp = std::get_if<Mlp>(&model->kinds.front().feed_forward)) {
    mlp->activation = Activation::Gelu;  // one kernel, which keeps its argument
  }
  model->dropout_hidden = 0.1;  // of flash attention's call there is none
  return model;
}

}  // namespace

DraftOrReason flagperf(const MeasuredRun& run, const Knowledge& knowledge) {
  if (!run.framework.starts_with("PaddleNLP")) return skip("only the Paddle rows are scored");
  const bool small = run.accelerator == "A100-40GB-SXM";
  // training/nvidia/llama1_7B-paddle/README.md: no fused RMSNorm on the 40 GB cards.
  TrainerChoice trainer{
      .name = "paddlenlp@2.6",
      .kernels = {{KernelKind::FlashAttention, true}, {KernelKind::FusedNorm, !small}},
      .loss = {}};
  // benchmarks/gpt3_6.7B/paddle/run_pretraining.py: GPT is built before the type is set, LLaMA
  // after.
  trainer.made_wide = !run.model_name.starts_with("LLaMA");
  DraftOrReason draft = start(run, knowledge, std::move(trainer),
                              fmt::format("{}xA100-{}GB", run.gpus.value_or(0), small ? 40 : 80),
                              flagperf_model(run));
  if (!draft) return draft;
  Case& made = draft->made;
  const std::vector<double> figures = stage_memories(run.notes);
  const MemoryKind kind =
      knowledge.learned == Learned::Taken ? MemoryKind::Driver : MemoryKind::Unstated;
  for (std::size_t i = 0; i < figures.size(); ++i) {
    const bool one_for_all = figures.size() == 1 && made.layout.pp > 1;
    made.memory.push_back(printed(figures[i], PrintedUnit::GiB, 2, kind,
                                  one_for_all ? ReadAt::WorstRank : ReadAt::PipelineRank,
                                  static_cast<std::int64_t>(i)));
  }
  made.notes.emplace_back(
      "learned: memory as printed by the README, which calls it GiB, read as the driver's: about 6 "
      "GiB "
      "beyond what the allocator holds, whatever the layout");
  if (run.model_name == "LLaMA-13B" && made.layout.pp > 1) {
    made.layout.recompute.kind = RecomputeKind::None;
    made.corrections.emplace_back(
        "read without recompute, as config_TP2PP4SH1SP1A10080Gx1x8.py of llama1_13B-paddle has it");
    made.broken =
        "the last stage prints 25.59 GiB, of which weights and states of its eighth alone need 24 "
        "GiB "
        "and one micro-batch 11 GiB";
  }
  return draft;
}

DraftOrReason zbh1_3090(const MeasuredRun& run, const Knowledge& knowledge) {
  // PFCCLab/Camp, weekly report of 2024-03-23 to 04-05: Llama-7B's shape with 4 layers, pp 4,
  // micro-batch 1, 16 accumulated, 2048 tokens, fp32, no flash attention, no recompute.
  MeasuredRun filled = run;
  filled.gpus = filled.pp = 4;
  filled.global_batch = 16;
  filled.micro_batch = 1;
  filled.seq_len = 2048;
  filled.precision = "fp32";
  TrainerChoice trainer{.name = "paddlenlp-auto@2.8",
                        .kernels = {{KernelKind::FlashAttention, false},
                                    {KernelKind::FusedNorm, false},
                                    {KernelKind::FusedProductGradient, run.schedule != "ZBH1"}},
                        .loss = "vocabulary-parallel-fp32"};
  DraftOrReason draft = start(filled, knowledge, std::move(trainer), "4xRTX-3090",
                              trimmed(knowledge, "llama-7b", 4, 0));
  if (!draft) return draft;
  Case& made = draft->made;
  set_schedule(made.layout, run.schedule == "ZBH1" ? ScheduleKind::ZbH1 : ScheduleKind::OneFOneB);
  if (run.schedule == "ZBH1") made.variant = "first-weights-last";
  made.notes.emplace_back("MB as printed are taken as MiB; only increases per card are scored");
  for (const RankMemory& rank : run.ranks) {
    made.memory.push_back(
        {MemoryKind::Allocated, ReadAt::Rank, rank.rank, rank.allocated, Bytes(5243)});
    made.memory.push_back(
        {MemoryKind::Reserved, ReadAt::Rank, rank.rank, rank.reserved, Bytes(5243)});
  }
  return draft;
}

}  // namespace trainwright::detail
