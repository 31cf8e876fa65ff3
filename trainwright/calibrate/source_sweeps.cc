// Sweeps of many layouts: Aleph Alpha, nanotron's playbook, BLOOM's prequel, Sailor's plans.
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/calibrate/draft.h"

namespace trainwright::detail {
namespace {

std::string on(const MeasuredRun& run, std::string_view cluster) {
  return fmt::format("{}x{}", run.gpus.value_or(0), cluster);
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Three rows of the source are printed with sequence parallelism off, but their times continue the
// series with it on, and the sheet has no such rows with it on.
bool mislabelled(const MeasuredRun& run) {
  return run.layers == 80 && run.gpus == 64 && run.tp == 8 && run.micro_batch == 4 &&
         run.sequence_parallel == 0 && contains(run.source_ref, "sequence_parallelism");
}

TrainerChoice aleph_alpha_trainer(const MeasuredRun& run) {
  const std::string& kernel = run.attention_kernel;
  const bool flash = kernel.starts_with("flash");
  return {.name = "aa-scaling@2023",
          .kernels = {{KernelKind::FlashAttention, flash},
                      {KernelKind::FusedSoftmax, kernel == "fused"},
                      {KernelKind::FusedNorm, run.notes == "fused RMSNorm kernel"}},
          .loss = {}};
}

}  // namespace

DraftOrReason aleph_alpha(const MeasuredRun& run, const Knowledge& knowledge) {
  if (run.outcome == Outcome::KernelUnavailable) {
    return skip("never ran: the kernel did not exist for that case");
  }
  if (run.outcome == Outcome::Other) return skip("failed for another reason than memory");
  DraftOrReason draft = start(run, knowledge, aleph_alpha_trainer(run), on(run, "aleph-alpha"),
                              llama_model(shape_of(run)));
  if (!draft) return draft;
  Case& made = draft->made;
  if (run.attention_kernel == "flash1") made.variant = "flash1";
  if (mislabelled(run)) {
    made.layout.sp = true;
    made.corrections.emplace_back(
        "learned: sequence parallelism read as on; its times continue the series of the rows with "
        "it "
        "on (198, 180, then 166 s), and the sheet has no such rows with it on");
  }
  return draft;
}

namespace {

// How nanotron cuts a model (src/nanotron/models/base.py build_model): its blocks are embedding,
// layers, final norm, head, cast and loss; a layer costs 4 h^2 + 3 h f, the head V h, the others
// nothing; a rank takes blocks until the running cost reaches its share of the total. (The released
// file has "exceeds". The sweep's own table gives a first rank of the 1B model 940M parameters at
// pp 2 and 604M at pp 4: 10 and 5 layers, of which the costs are equal to the share.)
struct Cut {
  std::vector<std::int64_t> layers;  // of each pipeline rank
  std::int64_t head = 0;             // the rank that holds it
  std::int64_t last = 0;             // the last rank that holds anything
};

Cut nanotron_cut(const Shape& shape, std::int64_t pp) {
  const auto h = static_cast<double>(*shape.hidden);
  const double layer = 4 * h * h + 3 * h * static_cast<double>(*shape.ffn);
  const double head = h * static_cast<double>(*shape.vocabulary);
  const double total = layer * static_cast<double>(*shape.layers) + head;
  Cut cut;
  cut.layers.assign(static_cast<std::size_t>(pp), 0);
  std::int64_t rank = 0;
  double cost = 0;
  const auto place = [&](double block) {
    const std::int64_t at = rank;
    cost += block;
    if (cost >= total * (static_cast<double>(rank + 1) / static_cast<double>(pp))) {
      rank = std::min(rank + 1, pp - 1);
    }
    cut.last = at;
    return at;
  };
  place(0);  // the embedding
  for (std::int64_t i = 0; i < *shape.layers; ++i)
    ++cut.layers[static_cast<std::size_t>(place(layer))];
  place(0);  // the final norm
  cut.head = place(head);
  place(0);  // the cast to fp32
  place(0);  // the loss
  return cut;
}

void cut_nanotron(const Shape& shape, Case& made) {
  const std::int64_t pp = made.layout.pp;
  if (pp == 1 || pp > kMostListedStages) return;
  const Cut cut = nanotron_cut(shape, pp);
  made.layout.layers = cut.layers;
  if (cut.head != pp - 1) {
    made.notes.push_back(fmt::format("the head is on pipeline rank {} of {}", cut.head, pp));
  }
  if (cut.last == pp - 1) return;
  made.notes.push_back(fmt::format("pipeline ranks from {} on hold nothing", cut.last + 1));
  if (made.outcome != Outcome::OomOrCrash) return;
  made.outcome = Outcome::CrashLikely;
  made.corrections.emplace_back(
      "learned: read as a crash; nanotron's cut leaves pipeline ranks without any block, and 175 "
      "of "
      "177 such rows failed whatever their size");
}

}  // namespace

DraftOrReason nanotron(const MeasuredRun& run, const Knowledge& knowledge) {
  Shape shape = shape_of(run);
  // huggingface/nanotron, scripts/scaling_benchmarks.py: models below 4B tie their embeddings.
  shape.tied = run.ffn_hidden.value_or(0) < 10'000;
  DraftOrReason draft = start(run, knowledge, {.name = "nanotron@0.4", .kernels = {}, .loss = {}},
                              on(run, "nanotron-h100"), llama_model(shape));
  if (!draft) return draft;
  Case& made = draft->made;
  cut_nanotron(shape, made);
  if (!run.kv_heads) {
    made.notes.emplace_back("kv_heads undecided in the source (64 or 8): 64 assumed");
    made.undetermined = "kv_heads";
  }
  if (contains(run.notes, "WARNING") || contains(run.notes, "!=")) {
    made.broken = "the printed batch is not micro-batch x accumulation x dp";
  }
  if (made.layout.tp > 1) made.layout.on.insert(Switch::OverlapTp);
  // The figure is the column "Mem Res (GB)" of the sweep's own table (bench_final2_mfu2.csv):
  // torch.cuda.max_memory_reserved of rank 0 at the end of the third step, in GiB (huggingface/
  // nanotron, helpers.py log_throughput).
  if (run.peak_mem_gb && run.outcome == Outcome::Ok) {
    made.memory.push_back(
        printed(*run.peak_mem_gb, PrintedUnit::GiB, 1, MemoryKind::Reserved, ReadAt::Rank, 0));
  }
  return draft;
}

DraftOrReason bloom_prequel(const MeasuredRun& run, const Knowledge& knowledge) {
  Shape shape = shape_of(run);
  if (shape.hidden) shape.ffn = 4 * *shape.hidden;
  // The chronicles print 250k; Megatron-LM ties embedding and head.
  shape.tied = true;
  TrainerChoice trainer{.name = "megatron-deepspeed@0.6", .kernels = {}, .loss = {}};
  DraftOrReason draft =
      start(run, knowledge, std::move(trainer), on(run, "jean-zay-a100"), gpt_model(shape));
  if (!draft) return draft;
  Case& made = draft->made;
  made.notes.emplace_back("vocabulary printed as 250k; ffn 4 x hidden");
  if (contains(run.notes, "type:transformer|embedding")) {
    made.layout.count_embedding = made.layout.count_loss = 1;
  }
  if (contains(run.notes, "WARNING")) made.broken = "the printed degrees do not make the GPUs";
  if (run.peak_mem_gb && run.outcome == Outcome::Ok) {
    made.memory.push_back(
        printed(*run.peak_mem_gb, PrintedUnit::GiB, 0, MemoryKind::Driver, ReadAt::WorstRank));
  }
  return draft;
}

namespace {

// Embedding and head are items of the first and the last stage beside their layers.
std::optional<std::vector<std::int64_t>> layers_of(const std::vector<std::int64_t>& items,
                                                   std::int64_t layers) {
  std::vector<std::int64_t> counts = items;
  if (counts.empty()) return std::nullopt;
  --counts.front();
  --counts.back();
  std::int64_t sum = 0;
  for (const std::int64_t count : counts) {
    if (count < 0 || count > layers) return std::nullopt;
    sum += count;
  }
  if (sum != layers) return std::nullopt;
  return counts;
}

ModelOrReason sailor_model(const MeasuredRun& run) {
  const bool opt = run.model_name == "OPT-350M";
  if (!opt && run.model_name != "GPT-Neo-2.7B") return skip("no such model in Sailor's table");
  // GPT-2's tokens. OPT has a head of its own; GPT-Neo has none at all, its loss is made of the
  // last hidden states (gpt_neo_model.py), which is not followed here: its first stages are the
  // largest.
  auto model = gpt_model({.name = run.model_name,
                          .layers = opt ? 24 : 32,
                          .hidden = opt ? 1024 : 2560,
                          .ffn = opt ? 4096 : 10240,
                          .heads = opt ? 16 : 20,
                          .kv_heads = {},
                          .head_dim = {},
                          .vocabulary = 50257,
                          .positions = 2048,
                          .tied = false});
  if (!model) return model;
  if (auto* mlp = std::get_if<Mlp>(&model->kinds.front().feed_forward)) {
    mlp->activation = opt ? Activation::Relu : Activation::Gelu;
  }
  if (!opt)
    model->dropout_hidden = 0.1;  // the default of --residual-dropout; OPT's is commented out
  return model;
}

}  // namespace

DraftOrReason sailor(const MeasuredRun& run, const Knowledge& knowledge) {
  if (run.accelerator != "GH-96") {
    return skip(
        "accelerators of different kinds in one job; the table does not say which is where");
  }
  MeasuredRun filled = run;
  filled.precision = "fp32";
  TrainerChoice trainer{.name = "sailor@1", .kernels = {}, .loss = {}};
  if (run.model_name != "OPT-350M") trainer.kernels.emplace_back(KernelKind::FusedNorm, false);
  DraftOrReason draft =
      start(filled, knowledge, std::move(trainer), on(run, "GH200"), sailor_model(run));
  if (!draft) return draft;
  Case& made = draft->made;
  const auto layers =
      layers_of(run.stage_items, static_cast<std::int64_t>(draft->model.layers.size()));
  if (layers) {
    if (made.layout.pp > 1) made.layout.layers = *layers;
  } else {
    made.broken = "the printed layers of the stages are not those of the model";
  }
  if (run.model_name != "OPT-350M" && run.source_ref.ends_with("plan_config_N8_D2.json")) {
    made.broken =
        "8 GiB less than the runs on twice to eight times as many nodes, whose ranks hold the same";
  }
  if (run.step_time && made.broken.empty() && run.step_time->value() <= 0) {
    made.broken = "no time was printed";
  }
  made.notes.emplace_back(
      "eth-easl/sailor: clariden_scripts ask for neither 16 bit nor ZeRO; deepspeed/pipe_engine.py "
      "get_total_used_mem reads nvidia-smi, process_results.py takes the largest of all ranks");
  made.memory.push_back(printed(run.peak_mem_gb.value_or(0), PrintedUnit::GB, 9, MemoryKind::Driver,
                                ReadAt::WorstRank));
  return draft;
}

}  // namespace trainwright::detail
