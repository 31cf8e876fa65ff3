// Picks among what others tried.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "trainwright/base/parallel.h"
#include "trainwright/base/text.h"
#include "trainwright/calibrate/calibrate.h"

namespace trainwright {
namespace {

constexpr std::int64_t kFewest = 3;  // runs that make a sweep

bool belongs(const Case& made) {
  const bool sound = made.broken.empty() && made.time_broken.empty() && made.undetermined.empty();
  const bool ran = made.outcome == Outcome::Ok && made.step_time.has_value();
  return sound && (ran || made.outcome == Outcome::Oom);
}

// Everything that is asked of one run: its time by two sets of constants, its chance of OOM.
std::optional<TriedRun> answered(const Case& made, const Cases& cases,
                                 const ChoiceConstants& constants) {
  const auto found =
      constants.left.find({made.source, stack_name_of(made, cases, constants.stacks)});
  if (found == constants.left.end()) return std::nullopt;
  const WithoutSource& left = found->second;
  auto pieces = pieces_of(made, cases, constants.kernels);
  const auto memory = estimate_memory({.model = cases.model_of(made),
                                       .cluster = cases.cluster_of(made),
                                       .trainer = cases.trainer_of(made),
                                       .layout = made.layout,
                                       .job = made.job,
                                       .constants = constants.memory,
                                       .schedule = made.order ? &*made.order : nullptr});
  if (!pieces || !memory) return std::nullopt;
  TriedRun run{.made = &made, .pieces = *std::move(pieces), .chance = memory->oom};
  run.as_shipped = step_time(run.pieces, left.constants).step.value();
  run.held_out = step_time(run.pieces, left.without(made.time_fold)).step.value();
  return run;
}

using Key = std::tuple<std::string, std::size_t, std::int64_t, std::int64_t, std::int64_t>;
Key key_of(const Case& made) {
  return {made.source, made.model.at(), world_size(made.layout), made.layout.seq, made.layout.gbs};
}

double best_measured(const std::vector<TriedRun>& tried) {
  double best = std::numeric_limits<double>::infinity();
  for (const TriedRun& one : tried) {
    if (one.ran()) best = std::min(best, one.measured());
  }
  return best;
}

// `before`: whether one candidate is preferred to another.
template <class Before>
Sweep::Pick pick(std::vector<TriedRun> tried, Before before) {
  std::stable_sort(tried.begin(), tried.end(), before);
  Sweep::Pick made;
  made.out_of_memory = !tried.front().ran();
  const auto first =
      std::find_if(tried.begin(), tried.end(), [](const TriedRun& one) { return one.ran(); });
  made.layout = to_text(first->made->layout);
  made.regret = first->measured() / best_measured(tried) - 1;
  return made;
}

std::string name_of_sweep(const Case& any, const Cases& cases) {
  return fmt::format("{} on {}, {} x {} tokens", cases.model_of(any).name,
                     with_thousands(world_size(any.layout)), with_thousands(any.layout.gbs),
                     with_thousands(any.layout.seq));
}

Sweep sweep_of(const TriedSweep& of) {
  const std::vector<TriedRun>& tried = of.tried;
  Sweep sweep;
  sweep.source = of.source;
  sweep.name = of.name;
  sweep.tried = std::ssize(tried);
  double sum = 0;
  for (const TriedRun& one : tried) {
    if (!one.ran()) continue;
    ++sweep.ran;
    sum += one.measured();
  }
  sweep.random = sum / static_cast<double>(sweep.ran) / best_measured(tried) - 1;
  // What does not fit comes after all that does.
  const auto by = [](double TriedRun::* seconds) {
    return [seconds](const TriedRun& a, const TriedRun& b) {
      const bool a_fits = a.chance <= kUsualRisk, b_fits = b.chance <= kUsualRisk;
      return std::tuple(!a_fits, a.*seconds) < std::tuple(!b_fits, b.*seconds);
    };
  };
  sweep.as_shipped = pick(tried, by(&TriedRun::as_shipped));
  sweep.held_out = pick(tried, by(&TriedRun::held_out));
  sweep.simple = pick(tried, [](const TriedRun& a, const TriedRun& b) {
    const Layout &x = a.made->layout, &y = b.made->layout;
    return std::tuple(-x.dp, x.tp, -x.mbs) < std::tuple(-y.dp, y.tp, -y.mbs);
  });
  return sweep;
}

}  // namespace

std::vector<TriedSweep> tried_sweeps(const Cases& cases, const ChoiceConstants& constants,
                                     const std::vector<std::string>& sources) {
  std::vector<const Case*> asked;
  for (const Case& made : cases.cases) {
    const bool wanted = std::find(sources.begin(), sources.end(), made.source) != sources.end();
    if (wanted && belongs(made)) asked.push_back(&made);
  }
  std::vector<std::optional<TriedRun>> all = parallel_map(
      asked.size(), {}, [&](std::size_t i) { return answered(*asked[i], cases, constants); });
  std::map<Key, std::vector<TriedRun>> groups;
  for (std::optional<TriedRun>& one : all) {
    if (one) groups[key_of(*one->made)].push_back(*std::move(one));
  }
  std::vector<TriedSweep> sweeps;
  for (auto& [key, tried] : groups) {
    const auto ran =
        std::count_if(tried.begin(), tried.end(), [](const TriedRun& one) { return one.ran(); });
    if (ran < kFewest) continue;
    const Case& any = *tried.front().made;
    sweeps.push_back({any.source, name_of_sweep(any, cases), std::move(tried)});
  }
  return sweeps;
}

std::vector<Sweep> sweeps_of(const Cases& cases, const ChoiceConstants& constants,
                             const std::vector<std::string>& sources) {
  std::vector<Sweep> sweeps;
  for (const TriedSweep& tried : tried_sweeps(cases, constants, sources)) {
    sweeps.push_back(sweep_of(tried));
  }
  return sweeps;
}

ChoiceScore score_choice(const std::vector<Sweep>& sweeps, Sweep::Pick Sweep::* which) {
  ChoiceScore score;
  std::vector<double> regrets;
  for (const Sweep& sweep : sweeps) {
    regrets.push_back((sweep.*which).regret);
    score.first_picks_oom += (sweep.*which).out_of_memory ? 1 : 0;
  }
  if (regrets.empty()) return score;
  std::sort(regrets.begin(), regrets.end());
  for (const double regret : regrets) score.mean += regret;
  score.mean /= static_cast<double>(regrets.size());
  score.median = regrets[regrets.size() / 2];
  score.most = regrets.back();
  return score;
}

namespace {

Json to_json(const ChoiceScore& score) {
  return Json::object()
      .add("regret_mean", Json::of(score.mean))
      .add("regret_median", Json::of(score.median))
      .add("regret_max", Json::of(score.most))
      .add("first_picks_oom", Json::of(score.first_picks_oom));
}

Json to_json(const Sweep::Pick& pick) {
  return Json::object()
      .add("layout", Json::of(pick.layout))
      .add("regret", Json::of(pick.regret))
      .add("out_of_memory", Json::of(pick.out_of_memory));
}

Json to_json(const Sweep& sweep) {
  return Json::object()
      .add("sweep", Json::of(sweep.name))
      .add("tried", Json::of(sweep.tried))
      .add("ran", Json::of(sweep.ran))
      .add("as_shipped", to_json(sweep.as_shipped))
      .add("held_out", to_json(sweep.held_out))
      .add("simple", to_json(sweep.simple))
      .add("random", Json::object().add("regret", Json::of(sweep.random)));
}

}  // namespace

Json choice_json(const std::vector<Sweep>& sweeps) {
  std::map<std::string, std::vector<Sweep>> by_source;
  for (const Sweep& sweep : sweeps) by_source[sweep.source].push_back(sweep);
  Json sources = Json::array();
  for (const auto& [source, own] : by_source) {
    Json list = Json::array();
    for (const Sweep& sweep : own) list.push(to_json(sweep));
    sources.push(Json::object()
                     .add("source", Json::of(source))
                     .add("held_out", to_json(score_choice(own, &Sweep::held_out)))
                     .add("as_shipped", to_json(score_choice(own, &Sweep::as_shipped)))
                     .add("simple", to_json(score_choice(own, &Sweep::simple)))
                     .add("sweeps", std::move(list)));
  }
  return Json::object().add("sources", std::move(sources));
}

}  // namespace trainwright
