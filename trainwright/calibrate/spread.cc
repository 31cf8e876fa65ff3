#include "trainwright/calibrate/spread.h"

#include <algorithm>

namespace trainwright::detail {

Schedule with_more_in_flight(const Schedule& schedule, const std::vector<std::int64_t>& more) {
  Schedule shifted = schedule;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const std::vector<Action>& list = schedule.ranks[rank];
    std::vector<Action> forwards;
    for (const Action& action : list) {
      if (action.kind == ActionKind::Forward) forwards.push_back(action);
    }
    const auto chunks = static_cast<std::size_t>(schedule.placement.stages()) /
                        std::max<std::size_t>(1, schedule.ranks.size());
    const std::size_t ahead =
        std::min(forwards.size(), chunks * static_cast<std::size_t>(std::max<std::int64_t>(
                                               0, rank < more.size() ? more[rank] : 0)));
    std::vector<Action>& made = shifted.ranks[rank];
    made.assign(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(ahead));
    std::size_t next = ahead;
    for (const Action& action : list) {
      if (action.kind != ActionKind::Forward) {
        made.push_back(action);
      } else if (next < forwards.size()) {
        made.push_back(forwards[next++]);
      }
    }
  }
  return shifted;
}

Schedule first_weights_last(const Schedule& one_f_one_b) {
  Schedule made = one_f_one_b;
  const auto ranks = static_cast<int>(made.ranks.size());
  const int last = made.microbatches - 1;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Action>& list = made.ranks[static_cast<std::size_t>(rank)];
    list.clear();
    int forward = 0;
    const auto add = [&](ActionKind kind, int microbatch) {
      list.push_back(make_action(kind, rank, microbatch));
    };
    while (forward < std::min(ranks - rank, made.microbatches)) add(ActionKind::Forward, forward++);
    for (int backward = 0; backward < made.microbatches; ++backward) {
      const bool split = backward < rank || (backward == last && rank > 0);
      add(split ? ActionKind::BackwardInput : ActionKind::Backward, backward);
      if (forward < made.microbatches) add(ActionKind::Forward, forward++);
    }
    if (rank > 0 && last >= rank) add(ActionKind::BackwardWeight, last);
    for (int i = 0; i < std::min(rank, made.microbatches); ++i) add(ActionKind::BackwardWeight, i);
  }
  return made;
}

Result<std::optional<Schedule>> schedule_of(const Case& made) {
  const bool first_last = made.variant == "first-weights-last";
  if (made.more_in_flight.empty() && !first_last) return std::optional<Schedule>();
  const Layout& layout = made.layout;
  const std::int64_t microbatches = micro_batch_count(layout);
  if (layout.pp > kMaxRanks || microbatches < 1 || microbatches > kMaxMicroBatches) {
    return fail("pp", "more ranks or micro-batches than a schedule has");
  }
  const ScheduleKind kind =
      layout.schedule == ScheduleKind::VHalf ? ScheduleKind::VHalf : ScheduleKind::OneFOneB;
  const Shape shape{static_cast<int>(layout.pp), static_cast<int>(microbatches),
                    static_cast<int>(layout.vpp)};
  const Schedule schedule = TW_TRY(make(kind, shape));
  if (first_last) return std::optional(first_weights_last(schedule));
  return std::optional(with_more_in_flight(schedule, made.more_in_flight));
}

Model model_of_one_rank(const Case& made, const Model& model) {
  Model of_one = model;
  const std::int64_t ways = std::max<std::int64_t>(1, made.vocabulary_ways);
  of_one.vocabulary = (model.vocabulary + ways - 1) / ways;
  return of_one;
}

Result<VocabularyShare> vocabulary_share(const Case& made, const Model& of_one_rank,
                                         const Trainer& trainer, const RankClass& rank) {
  VocabularyShare share;
  if (made.vocabulary_ways <= 1) return share;
  const Layout& layout = made.layout;
  const ParameterBytes bytes =
      TW_TRY(parameter_bytes(trainer, layout.precision, made.job.optimizer));
  const double ways = layout.zero >= 1 ? static_cast<double>(layout.dp * layout.cp) : 1;
  const double each = bytes.weight + bytes.gradient + (bytes.master + bytes.states) / ways;
  const Slice slice = slice_of(layout, trainer);
  const Recipe recipe = recipe_of(trainer, layout.precision);
  if (!rank.embedding) {
    const Weight table = embedding_weights(of_one_rank).front();
    share.standing +=
        each * static_cast<double>(held_parameters(table, nullptr, slice, recipe).dense.value());
  }
  if (!rank.head) {
    const Weight table = head_weights(of_one_rank).back();
    share.standing +=
        each * static_cast<double>(held_parameters(table, nullptr, slice, recipe).dense.value());
    share.coming +=
        static_cast<double>(totals(head_work(of_one_rank, slice, recipe)).forward.bytes.value());
  }
  // megatron/core/tensor_parallel/vocab_input.py: what the ranks summed up is copied before the
  // first stage reads it, and the copy stays with the micro-batch.
  if (rank.embedding) {
    share.coming += static_cast<double>(rank.moment.in_flight) *
                    static_cast<double>(boundary_bytes(of_one_rank, slice, recipe).value());
  }
  return share;
}

}  // namespace trainwright::detail
