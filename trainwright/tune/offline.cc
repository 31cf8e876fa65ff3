// Tuners on tables of outcomes.
#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

#include "trainwright/base/random.h"
#include "trainwright/tune/tune.h"

namespace trainwright {
namespace {

TrialOutcome outcome_of(const OutcomeTable& table, std::size_t row) {
  const TableRow& of = table.rows[row];
  return {row, of.ran ? TrialEnd::Ok : TrialEnd::OutOfMemory, of.measured};
}

TrialOrder listed(const OutcomeTable& table) {
  TrialOrder order(table.rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

// None below its parts, below everything.
int recompute_level(const Layout& layout) {
  if (layout.recompute.kind == RecomputeKind::None) return 0;
  return layout.recompute.kind == RecomputeKind::Full ? 2 : 1;
}

auto memory_key(const Layout& x) {
  const std::int64_t sharding = x.zero > 0 ? x.dp : 1;
  return std::tuple(-x.tp, -x.pp, -x.vpp, -sharding, -x.zero, x.mbs, -recompute_level(x));
}

enum class Heard : std::uint8_t { No, Ran, OutOfMemory };

// All knobs of two rows are equal but those that a rule compares.
enum class Knob : std::uint8_t { MicroBatch, Recompute, Chunks };
bool alike_but(const TableRow& a, const TableRow& b, Knob knob) {
  const Layout &x = a.layout, &y = b.layout;
  const bool same = a.kernels == b.kernels && x.tp == y.tp && x.pp == y.pp && x.dp == y.dp &&
                    x.zero == y.zero && x.sp == y.sp;
  return same && (knob == Knob::MicroBatch || x.mbs == y.mbs) &&
         (knob == Knob::Recompute || recompute_level(x) == recompute_level(y)) &&
         (knob == Knob::Chunks || x.vpp == y.vpp);
}

// What the history makes of a row, by one that is known.
Heard by_history(const TableRow& row, const TableRow& other, Heard known) {
  const bool ran = known == Heard::Ran;
  const auto verdict = [&](std::int64_t mine, std::int64_t its) {
    if (ran && mine < its) return Heard::Ran;
    if (!ran && mine > its) return Heard::OutOfMemory;
    return Heard::No;
  };
  Heard found = Heard::No;
  const auto hear = [&](Heard said) { found = found == Heard::No ? said : found; };
  if (alike_but(row, other, Knob::MicroBatch)) hear(verdict(row.layout.mbs, other.layout.mbs));
  if (alike_but(row, other, Knob::Recompute)) {
    hear(verdict(-recompute_level(row.layout), -recompute_level(other.layout)));
  }
  if (!ran && alike_but(row, other, Knob::Chunks) && row.layout.vpp < other.layout.vpp) {
    hear(Heard::OutOfMemory);
  }
  return found;
}

}  // namespace

TrialOrder tuned_order(const OutcomeTable& table, const TuneTerms& terms, const Doubt& doubt) {
  TrialOrder order;
  std::vector<TrialOutcome> outcomes;
  Seconds spent;
  for (;;) {
    const std::vector<Belief> beliefs = learn(table.trials, outcomes, doubt);
    const Proposal next = propose(table.trials, outcomes, beliefs, terms, spent);
    if (next.stop != TuneStop::Not) return order;
    order.push_back(next.trial);
    outcomes.push_back(outcome_of(table, next.trial));
    spent += trial_cost(terms, outcomes.back().end, outcomes.back().step);
  }
}

TrialOrder grid_order(const OutcomeTable& table) {
  TrialOrder order = listed(table);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return memory_key(table.rows[a].layout) < memory_key(table.rows[b].layout);
  });
  std::vector<std::pair<std::size_t, Heard>> history;
  TrialOrder tried;
  for (const std::size_t row : order) {
    Heard known = Heard::No;
    for (const auto& [other, what] : history) {
      known = by_history(table.rows[row], table.rows[other], what);
      if (known != Heard::No) break;
    }
    if (known == Heard::No) {
      tried.push_back(row);
      known = table.rows[row].ran ? Heard::Ran : Heard::OutOfMemory;
    }
    history.emplace_back(row, known);
  }
  return tried;
}

TrialOrder roofline_order(const OutcomeTable& table) {
  TrialOrder order = listed(table);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return table.rows[a].roofline < table.rows[b].roofline;
  });
  return order;
}

TrialOrder random_order(const OutcomeTable& table, std::uint64_t seed) {
  TrialOrder order = listed(table);
  Random random(seed);
  for (std::size_t i = order.size(); i > 1; --i) {
    const auto j = static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(i) - 1));
    std::swap(order[i - 1], order[j]);
  }
  return order;
}

OrderScore score_order(const OutcomeTable& table, const TrialOrder& order, const TuneTerms& terms) {
  const auto seconds = [&](const TableRow& row) {
    return row.ran ? row.measured.value() : std::numeric_limits<double>::infinity();
  };
  double best = std::numeric_limits<double>::infinity(), reached = best;
  for (const TableRow& row : table.rows) best = std::min(best, seconds(row));
  OrderScore score;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const TrialOutcome outcome = outcome_of(table, order[i]);
    if (!score.within_1) {
      score.ooms += outcome.end == TrialEnd::Ok ? 0 : 1;
      score.node_minutes += trial_cost(terms, outcome.end, outcome.step).value() / 60 *
                            static_cast<double>(table.nodes);
    }
    reached = std::min(reached, seconds(table.rows[order[i]]));
    const auto trials = static_cast<double>(i + 1);
    if (!score.within_2 && reached <= 1.02 * best) score.within_2 = trials;
    if (!score.within_1 && reached <= 1.01 * best) score.within_1 = trials;
  }
  score.trials = static_cast<double>(order.size());
  score.regret = reached / best - 1;
  return score;
}

OrderScore score_random(const OutcomeTable& table, const TuneTerms& terms, std::int64_t orders) {
  OrderScore mean;
  mean.within_2 = mean.within_1 = 0.0;
  const double each = 1 / static_cast<double>(orders);
  for (std::int64_t seed = 0; seed < orders; ++seed) {
    const OrderScore one =
        score_order(table, random_order(table, static_cast<std::uint64_t>(seed)), terms);
    *mean.within_2 += each * one.within_2.value_or(one.trials);
    *mean.within_1 += each * one.within_1.value_or(one.trials);
    mean.ooms += each * one.ooms;
    mean.node_minutes += each * one.node_minutes;
    mean.trials += each * one.trials;
  }
  return mean;
}

bool reaches_goal(const OrderScore& score) {
  return score.within_2 && *score.within_2 <= 3 && score.within_1 && *score.within_1 <= 5 &&
         score.ooms <= 1;
}

TableScore score_table(const OutcomeTable& table, const TuneTerms& terms) {
  constexpr std::int64_t kOrders = 1000;
  TableScore score;
  score.name = table.name;
  score.rows = std::ssize(table.rows);
  score.ran = std::count_if(table.rows.begin(), table.rows.end(),
                            [](const TableRow& row) { return row.ran; });
  score.tuned = score_order(table, tuned_order(table, terms), terms);
  score.random = score_random(table, terms, kOrders);
  score.grid = score_order(table, grid_order(table), terms);
  score.roofline = score_order(table, roofline_order(table), terms);
  return score;
}

namespace {

Json to_json(const OrderScore& score) {
  // Not finite: null.
  const auto trials = [](const std::optional<double>& of) {
    return Json::of(of.value_or(std::numeric_limits<double>::infinity()));
  };
  return Json::object()
      .add("within_2_percent", trials(score.within_2))
      .add("within_1_percent", trials(score.within_1))
      .add("ooms", Json::of(score.ooms))
      .add("node_minutes", Json::of(score.node_minutes))
      .add("trials", Json::of(score.trials))
      .add("regret", Json::of(score.regret))
      .add("reaches_goal", Json::of(reaches_goal(score)));
}

}  // namespace

Json to_json(std::span<const TableScore> scores) {
  Json sweeps = Json::array();
  for (const TableScore& score : scores) {
    sweeps.push(Json::object()
                    .add("sweep", Json::of(score.name))
                    .add("tried", Json::of(score.rows))
                    .add("ran", Json::of(score.ran))
                    .add("tuned", to_json(score.tuned))
                    .add("random", to_json(score.random))
                    .add("grid", to_json(score.grid))
                    .add("roofline", to_json(score.roofline)));
  }
  return sweeps;
}

}  // namespace trainwright
