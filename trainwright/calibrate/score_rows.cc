// From cases to rows that constants can be fitted to: the bytes of every class of ranks.
#include <algorithm>

#include "trainwright/base/parallel.h"
#include "trainwright/calibrate/calibrate.h"
#include "trainwright/calibrate/spread.h"
#include "trainwright/memory/memory.h"

namespace trainwright {
namespace {

// Bytes of one class with every constant at zero, and what each constant is multiplied by.
struct ClassTerms {
  std::int64_t pipeline_rank = 0;
  double standing = 0, coming = 0, communicators = 0;
  std::optional<double> slack = {};  // replayed
  double activations = 0;            // of what comes
  double between_steps = 0;
  double cut_up = 0;    // of what comes: what slack is a share of
  double loss_cut = 0;  // of head and loss: what slack_scores is a share of
};

bool stands(Category category) {
  return category <= Category::OptimizerStates || category == Category::Workspace;
}

ClassTerms terms_of(const RankClass& of) {
  ClassTerms terms;
  terms.pipeline_rank = of.pipeline_rank;
  terms.between_steps = static_cast<double>(of.between_steps.value());
  for (std::size_t i = 0; i < kCategories; ++i) {
    const auto category = static_cast<Category>(i);
    const auto bytes = static_cast<double>(of.bytes[i].value());
    if (stands(category)) terms.standing += bytes;
    if (!stands(category) && is_allocated(category)) terms.coming += bytes;
    if (category == Category::Communicators) terms.communicators += bytes;
    if (category == Category::Activations) terms.activations += bytes;
  }
  return terms;
}

// Constants at zero; a communicator of one byte counts communicators.
MemoryConstants counting() {
  MemoryConstants constants;
  constants.communicator = 1;
  constants.spread = 0.01;
  return constants;
}

// Whether collectives run between the operators of a micro-batch. What they used is given back late
// (torch.Tensor.record_stream), in an order that changes from one micro-batch to the next, so the
// cache is cut up. Without them every micro-batch finds its own blocks again.
bool communicates(const Layout& layout) {
  return layout.tp > 1 || layout.pp > 1 || layout.cp > 1 || layout.ep > 1 || layout.zero >= 3;
}

// Blocks of the loss are the largest there are, and the scores of attention the next: where these
// are made again for each layer between two losses, they take the loss' blocks apart.
double loss_cut_by_scores(const Case& made, const Model& model, const Trainer& trainer,
                          const RankClass& rank) {
  const Layout& layout = made.layout;
  const Recipe recipe = recipe_of(trainer, layout.precision);
  if (!rank.head || layout.recompute.kind != RecomputeKind::Full ||
      recipe.attention == AttentionKernel::Flash) {
    return 0;
  }
  const double logits = static_cast<double>(layout.mbs) * static_cast<double>(layout.seq) *
                        static_cast<double>(model.vocabulary) /
                        static_cast<double>(layout.cp * (recipe.loss.split_by_tp ? layout.tp : 1));
  return logits * (recipe.loss.backward + recipe.loss.left_behind);
}

// The pipeline rank of a rank: its digit on that axis of the order.
std::int64_t pipeline_rank_of(std::int64_t rank, const Layout& layout) {
  std::int64_t stride = 1;
  for (const Axis axis : layout.order) {
    if (axis == Axis::Pp) break;
    if (axis == Axis::Tp) stride *= layout.tp;
    if (axis == Axis::Cp) stride *= layout.cp;
    if (axis == Axis::Dp) stride *= layout.dp;  // ep folds into it
  }
  return rank / stride % layout.pp;
}

// The pipeline rank that is to be replayed, where the only figure is of one rank.
std::optional<std::int64_t> read_rank(const Case& made) {
  if (made.memory.size() != 1 || made.memory.front().at != ReadAt::Rank) return std::nullopt;
  return pipeline_rank_of(made.memory.front().index, made.layout);
}

Result<std::vector<ClassTerms>> classes_of(const Case& made, const Cases& cases, Slack slack) {
  const Trainer& trainer = cases.trainer_of(made);
  const Model model = detail::model_of_one_rank(made, cases.model_of(made));
  const std::optional<Schedule> schedule = TW_TRY(detail::schedule_of(made));
  Layout layout = made.layout;
  if (schedule) layout.schedule = ScheduleKind::Csv;
  const MemoryEstimate estimate =
      TW_TRY(estimate_memory({.model = model,
                              .cluster = cases.cluster_of(made),
                              .trainer = trainer,
                              .layout = layout,
                              .job = made.job,
                              .constants = counting(),
                              .schedule = schedule ? &*schedule : nullptr,
                              .slack = slack,
                              .replayed_rank = read_rank(made)}));
  std::vector<ClassTerms> classes;
  for (const RankClass& rank : estimate.classes) {
    const auto share = TW_TRY(detail::vocabulary_share(made, model, trainer, rank));
    classes.push_back(terms_of(rank));
    classes.back().standing += share.standing;
    classes.back().coming += share.coming;
    if (communicates(layout)) {
      classes.back().cut_up = classes.back().coming;
      classes.back().loss_cut = loss_cut_by_scores(made, model, trainer, rank);
    }
    if (slack == Slack::Quantile ||
        read_rank(made).value_or(rank.pipeline_rank) != rank.pipeline_rank) {
      continue;
    }
    const auto category = static_cast<std::size_t>(Category::AllocatorSlack);
    classes.back().slack = static_cast<double>(rank.bytes[category].value());
  }
  return classes;
}

// What the constants and the rest contribute to a reading of that kind. Where slack is lost was
// learned from the verdicts of a sweep; without them all of what comes and goes has its share.
MemoryTerms reading_of(const ClassTerms& rank, MemoryKind kind, Learned learned) {
  if (kind == MemoryKind::Static) return {rank.between_steps, {}};
  if (kind == MemoryKind::Activations) return {rank.activations, {}};
  MemoryTerms terms{rank.standing + rank.coming, {}};
  of(terms.times, MemoryConstant::Workspace) = 1;
  if (kind == MemoryKind::Allocated) return terms;
  const bool driver = kind == MemoryKind::Driver;
  if (rank.slack && (driver || kind == MemoryKind::Reserved)) {
    terms.fixed += *rank.slack;
    of(terms.times, MemoryConstant::SlackMissed) = rank.coming;
  } else if (learned == Learned::Left) {
    of(terms.times, MemoryConstant::Slack) = rank.coming;
  } else {
    of(terms.times, MemoryConstant::Slack) = rank.cut_up;
    of(terms.times, MemoryConstant::SlackScores) = rank.loss_cut;
  }
  if (driver) {
    of(terms.times, MemoryConstant::Context) = 1;
    of(terms.times, MemoryConstant::Communicator) = rank.communicators;
  }
  return terms;
}

void add_ranks(ScoredRow& row, const std::vector<ClassTerms>& classes, const Layout& layout,
               ReadAt at, std::int64_t index) {
  const std::int64_t wanted = at == ReadAt::Rank ? pipeline_rank_of(index, layout) : index;
  for (const ClassTerms& rank : classes) {
    if (at != ReadAt::WorstRank && rank.pipeline_rank != wanted) continue;
    row.ranks.push_back(reading_of(rank, row.kind, Learned::Taken));
    row.unlearned.push_back(reading_of(rank, row.kind, Learned::Left));
  }
  if (row.unlearned == row.ranks) row.unlearned.clear();
}

ScoredRow row_of(const Case& made) {
  ScoredRow row;
  row.source = made.source;
  row.label = made.label;
  row.fold = made.fold;
  row.run = made.run;
  row.broken = !made.broken.empty();
  row.undetermined = !made.undetermined.empty();
  return row;
}

void add_rows(const Case& made, const std::vector<ClassTerms>& classes, bool judged,
              ScoredRows& scored) {
  for (std::size_t i = 0; i < made.memory.size(); ++i) {
    const MemoryReading& reading = made.memory[i];
    ScoredRow row = row_of(made);
    row.reading = i;
    row.kind = reading.kind;
    row.measured = static_cast<double>(reading.size.value());
    row.rounding = static_cast<double>(reading.rounding.value());
    add_ranks(row, classes, made.layout, reading.at, reading.index);
    if (!row.ranks.empty() && row.measured > 0) scored.rows.push_back(std::move(row));
  }
  if (!judged || made.outcome == Outcome::Other) return;
  ScoredRow row = row_of(made);
  row.reading = made.memory.size();
  row.verdict = true;
  row.crash_likely = made.outcome == Outcome::CrashLikely;
  row.out_of_memory = made.outcome != Outcome::Ok;
  row.measured = static_cast<double>(made.capacity.value());
  // A failure has no figure and is not replayed: what ran must not be judged otherwise.
  std::vector<ClassTerms> judged_by = classes;
  for (ClassTerms& rank : judged_by) rank.slack.reset();
  add_ranks(row, judged_by, made.layout, ReadAt::WorstRank, 0);
  scored.rows.push_back(std::move(row));
}

// Replays take milliseconds each: they are for sources whose reserved bytes were read, and of not
// too many cases; the others make do with a share of what comes and goes.
constexpr std::int64_t kMostReplayedCases = 2000;

bool reads_reserved(const Case& made) {
  return std::any_of(made.memory.begin(), made.memory.end(), [](const MemoryReading& reading) {
    return reading.kind == MemoryKind::Reserved || reading.kind == MemoryKind::Driver;
  });
}

std::map<std::string, Slack> slack_by_source(const Cases& cases) {
  std::map<std::string, std::int64_t> read;
  for (const Case& made : cases.cases) read[made.source] += reads_reserved(made);
  std::map<std::string, Slack> slack;
  for (const auto& [source, count] : read) {
    const bool few = count > 0 && count <= kMostReplayedCases;
    slack.emplace(source, few ? Slack::Replayed : Slack::Quantile);
  }
  return slack;
}

ScoredRows rows_of(const Cases& cases, const std::vector<bool>& wanted) {
  // A source without a single failure has no verdict to get wrong.
  std::map<std::string, bool> judged;
  for (const Case& made : cases.cases) {
    judged[made.source] |= made.outcome == Outcome::Oom || made.outcome == Outcome::OomOrCrash;
  }
  const std::map<std::string, Slack> slack = slack_by_source(cases);
  using Made = std::unique_ptr<Result<std::vector<ClassTerms>>>;
  const auto classes = parallel_map(cases.cases.size(), {}, [&](std::size_t i) {
    if (!wanted[i]) return Made();
    const Case& made = cases.cases[i];
    const Slack how = reads_reserved(made) ? slack.at(made.source) : Slack::Quantile;
    return std::make_unique<Made::element_type>(classes_of(made, cases, how));
  });
  ScoredRows scored;
  scored.skipped = cases.skipped;
  for (std::size_t i = 0; i < cases.cases.size(); ++i) {
    if (!classes[i]) continue;
    const Case& made = cases.cases[i];
    const Result<std::vector<ClassTerms>>& terms = *classes[i];
    if (!terms) {
      scored.skipped.push_back(
          {made.source, made.label, "memory: " + terms.error().diagnostics.front().what});
      continue;
    }
    add_rows(made, *terms, judged[made.source], scored);
  }
  return scored;
}

// Which of the cases left would be counted otherwise than the learned one of the same run.
std::vector<bool> read_otherwise(const Cases& learned, const Cases& left) {
  const auto texts = [](const Cases& cases) {
    std::vector<std::string> all;
    for (const Trainer& trainer : cases.trainers) all.push_back(to_text(to_json(trainer)));
    return all;
  };
  const std::vector<std::string> trainers = texts(learned), trainers_left = texts(left);
  std::map<std::size_t, const Case*> by_run;
  for (const Case& made : learned.cases) by_run.emplace(made.run, &made);
  const auto counted = [](const Case& c) {
    return std::tie(c.layout, c.job, c.memory, c.variant, c.vocabulary_ways, c.more_in_flight);
  };
  std::vector<bool> otherwise;
  for (const Case& made : left.cases) {
    const auto found = by_run.find(made.run);
    otherwise.push_back(
        found != by_run.end() &&
        !(counted(*found->second) == counted(made) &&
          learned.model_of(*found->second) == left.model_of(made) &&
          trainers[found->second->trainer.at()] == trainers_left[made.trainer.at()]));
  }
  return otherwise;
}

}  // namespace

ScoredRows score_rows(const Cases& cases) {
  return rows_of(cases, std::vector<bool>(cases.cases.size(), true));
}

ScoredRows score_rows(const Cases& learned, const Cases& left) {
  ScoredRows scored = score_rows(learned);
  const ScoredRows unlearned = rows_of(left, read_otherwise(learned, left));
  std::map<std::pair<std::size_t, std::size_t>, const ScoredRow*> by_place;
  for (const ScoredRow& row : unlearned.rows) by_place[{row.run, row.reading}] = &row;
  for (ScoredRow& row : scored.rows) {
    const auto found = by_place.find({row.run, row.reading});
    if (found == by_place.end()) continue;
    // Another unit of the printed figure is another share of what is predicted.
    const ScoredRow& other = *found->second;
    const double scale = row.measured / other.measured;
    row.unlearned.clear();
    for (const MemoryTerms& rank : other.unlearned.empty() ? other.ranks : other.unlearned) {
      row.unlearned.push_back({rank.fixed * scale, {}});
      for (std::size_t i = 0; i < kMemoryConstants; ++i) {
        row.unlearned.back().times[i] = rank.times[i] * scale;
      }
    }
    if (row.unlearned == row.ranks) row.unlearned.clear();
  }
  return scored;
}

}  // namespace trainwright
