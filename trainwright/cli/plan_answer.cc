// What `plan` asks the search for: the cluster at hand, clusters of other sizes, what is run today.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <functional>

#include "trainwright/base/text.h"
#include "trainwright/cli/plan.h"

namespace trainwright::cli {
namespace {

constexpr double kDay = 86400;

// "dgx-h100-superpod" of "32xdgx-h100-superpod": what comes after the numbers of a cluster's name,
// with what is told of its machines.
std::string kind_of(const Cluster& cluster, const Hardware& hardware) {
  std::string_view name = std::string_view(cluster.name).substr(0, cluster.name.find(','));
  const std::string_view told = std::string_view(cluster.name).substr(name.size());
  for (std::size_t x = name.find('x'); x != name.npos && parse_integer(name.substr(0, x));
       x = name.find('x')) {
    name.remove_prefix(x + 1);
  }
  return (find_cluster(hardware, name) != nullptr ? std::string(name)
                                                  : cluster.groups.front().accelerator.name) +
         std::string(told);
}

// So many times the accelerators: of the cluster that was named as far as it has them, then of the
// same kinds as usually built.
std::optional<Cluster> larger_cluster(const Cluster& cluster, const Hardware& hardware,
                                      std::int64_t times) {
  if (auto part = sizes_of(cluster, hardware)(accelerator_count(cluster) * times)) return part;
  std::vector<std::string> groups;
  for (const Group& group : cluster.groups) {
    groups.push_back(fmt::format("{}x{}", group.count * times, group.accelerator.name));
  }
  auto other = parse_cluster(join(groups, "+"), hardware);
  return other ? std::optional(*std::move(other)) : std::nullopt;
}

// Twice the accelerators, four times and so on, until the fastest layout there is `enough`.
struct Larger {
  std::optional<Sized> found;
  std::int64_t times = 1;  // as many were tried
};
Result<Larger> first_larger(const SearchQuestion& question, const Hardware& hardware,
                            const std::function<bool(const PlannedLayout&)>& enough) {
  constexpr std::int64_t kMostTimes = 64;
  Larger larger;
  while (larger.times < kMostTimes) {
    auto cluster = larger_cluster(question.cluster, hardware, 2 * larger.times);
    if (!cluster) break;
    SearchQuestion there = with_cluster(question, *cluster);
    there.most = 1;
    there.find_smallest = false;
    SearchResult result = TW_TRY(search(there));
    if (!result.best.empty() && enough(result.best.front())) {
      larger.found = Sized{*std::move(cluster), std::move(result.best.front())};
      break;
    }
    if (result.end == SearchEnd::Stopped) break;
    larger.times *= 2;
  }
  return larger;
}

// Whether anything fits, and where, is asked without overlaps, graphs, dispatchers and rank orders,
// which at most add memory.
SearchQuestion without_what_adds_memory(SearchQuestion question) {
  const Flags<Also> adding{Also::Overlaps, Also::Graphs, Also::Dispatcher, Also::Order};
  question.also.bits &= ~adding.bits;
  question.find_smallest = false;
  return question;
}

// Where nothing fits; the fastest of the size that is found has the whole space.
Result<Larger> smallest_that_fits(const SearchQuestion& question, const Hardware& hardware) {
  Larger larger = TW_TRY(first_larger(without_what_adds_memory(question), hardware,
                                      [](const PlannedLayout&) { return true; }));
  if (!larger.found) return larger;
  SearchQuestion there = with_cluster(question, larger.found->cluster);
  there.most = 1;
  there.find_smallest = false;
  SearchResult result = TW_TRY(search(there));
  if (!result.best.empty()) larger.found->plan = std::move(result.best.front());
  return larger;
}

// The fewest that end in time where all of the cluster are too few.
Result<Larger> fewest_of_more(const SearchQuestion& question, const Hardware& hardware,
                              double rate) {
  if (!sizes_of(question.cluster, hardware)(accelerator_count(question.cluster))) return Larger{};
  const double tokens = static_cast<double>(question.gbs * question.seq);
  Larger larger = TW_TRY(first_larger(question, hardware, [&](const PlannedLayout& plan) {
    return tokens / plan.time.step.value() >= rate;
  }));
  if (!larger.found) return larger;
  const Cluster cluster = larger.found->cluster;
  larger.found = TW_TRY(fewest(with_cluster(question, cluster), sizes_of(cluster, hardware), rate));
  return larger;
}

bool is_over(const SearchQuestion& question) {
  if (!question.stop) return false;
  const SearchStop now = question.stop(0);
  return now == SearchStop::Time || now == SearchStop::Interrupt;
}

Result<std::vector<OrderedFamily>> orders_of(const SearchQuestion& question,
                                             const std::vector<PlannedLayout>& best) {
  std::vector<OrderedFamily> orders;
  std::size_t asked = 0;
  for (std::size_t i = 0; i < best.size() && asked < kOrdered; ++i) {
    if (best[i].layout.pp == 1) continue;
    ++asked;
    if (is_over(question)) break;
    if (auto own = TW_TRY(own_order(question, best[i]))) orders.push_back({i, *std::move(own)});
  }
  return orders;
}

// What offloading would be worth where memory makes the best slow.
Result<std::optional<PlannedLayout>> faster_with_offload(const Plan& plan,
                                                         const SearchQuestion& question) {
  const Limits& limits = plan.wanted.limits;
  const bool limited = std::any_of(limits.begin(), limits.end(),
                                   [](const Limit& one) { return one.key == "offload"; });
  const bool asked = question.offload || question.from || limited;
  if (asked || plan.result.best.empty() || !plan.with_more_memory ||
      question.trainer.offloads.empty()) {
    return std::nullopt;
  }
  const Seconds best = plan.result.best.front().time.step;
  if (plan.with_more_memory->time.step > best * (1 - kWorthLooking)) return std::nullopt;
  SearchQuestion offloading = question;
  offloading.offload = true;
  offloading.most = 1;
  offloading.find_riskier = false;
  offloading.more_memory.reset();
  offloading.remember = false;
  SearchResult other = TW_TRY(search(offloading));
  if (other.best.empty() || other.best.front().time.step > best * (1 - kMargin))
    return std::nullopt;
  return std::move(other.best.front());
}

// Of a layout that does not fit, and is legal.
std::optional<Layout> nearest_to(const Judged& asked, const SearchQuestion& question) {
  if (!asked.memory || fit_of(asked.memory->oom, question.risk) == Fit::Fits) return std::nullopt;
  const auto change =
      smallest_change_that_fits(memory_question(question, asked.layout), question.risk);
  return change ? std::optional(change->layout) : std::nullopt;
}

// Losses, and sums of changes, that no search looks at unasked.
Result<std::optional<PlannedLayout>> nearest_that_fits(const Plan& plan,
                                                       const SearchQuestion& question) {
  const Layout* from = nearly_fits(plan);
  if (from == nullptr || !plan.wanted.limits.empty()) return std::nullopt;
  const auto change = smallest_change_that_fits(memory_question(question, *from), question.risk);
  if (!change) return std::nullopt;
  return TW_TRY(planned(question, change->layout));
}

// Adapters, or those over weights in four bits.
std::vector<Job> jobs_with_less(const Job& job) {
  std::vector<Job> jobs;
  Job less = job;
  if (!job.lora) {
    less.lora = Lora{};
    less.frozen = {};
    jobs.push_back(less);
  }
  if (less.lora->base == FrozenBase::AsWeights) {
    less.lora->base = FrozenBase::Nf4;
    jobs.push_back(less);
  }
  return jobs;
}

// Whether the trainer trains such a job at all: by its settings, if it is told by any.
bool is_sayable(const Wanted& wanted, const Layout& layout) {
  const auto target = find_target("", wanted.trainer);
  return !target || translate({.model = wanted.model,
                               .cluster = wanted.cluster,
                               .trainer = wanted.trainer,
                               .layout = layout,
                               .job = wanted.job},
                              *target)
                        .unsayable.empty();
}

// The fastest layout that fits, if the trainer trains the job.
Result<std::optional<PlannedLayout>> fastest_of(const Wanted& less, const SearchQuestion& asked) {
  if (!job_faults(less.job, less.model, less.trainer).empty()) return std::nullopt;
  SearchQuestion question = question_of(less);
  question.most = 1;
  question.find_smallest = false;
  question.stop = asked.stop;
  SearchResult result = TW_TRY(search(question));
  if (result.best.empty() || !is_sayable(less, result.best.front().layout)) return std::nullopt;
  return std::move(result.best.front());
}

Result<std::optional<Adapters>> adapters_that_fit(const Wanted& wanted, const SearchQuestion& asked,
                                                  const DataDirectory& data) {
  if (accelerator_count(wanted.cluster) > kFewAccelerators) return std::nullopt;
  for (const Job& job : jobs_with_less(wanted.job)) {
    for (const std::string trainer : {"", kAnyAdapter}) {
      Wanted less = wanted;
      less.job = job;
      if (!trainer.empty()) {
        less.trainer = TW_TRY(data.trainer(trainer));
        less.precision = usual_precision(less.cluster, less.trainer);
      }
      if (auto found = TW_TRY(fastest_of(less, asked))) {
        return Adapters{job, trainer, less.precision, *std::move(found)};
      }
    }
  }
  return std::nullopt;
}

// AdamW with states in fewer bits: what it learns differs little, yet nobody gets it unasked.
constexpr std::array kLeanAdamW = {OptimizerKind::AdamWPrecisionAware, OptimizerKind::AdamW8bit};

// What numbers of fewer bits have to beat: where memory makes the best slow, its time by kMargin;
// nothing where nothing fits. None where they are not worth looking for.
struct ToBeat {
  std::optional<Seconds> step;
};
std::optional<ToBeat> to_beat(const Plan& plan) {
  if (plan.wanted.from) return std::nullopt;
  if (plan.result.best.empty() || plan.tight_at) return ToBeat{};
  const Seconds best = plan.result.best.front().time.step;
  const auto& other = plan.with_more_memory;
  if (!other || other->time.step > best * (1 - kWorthLooking)) return std::nullopt;
  return ToBeat{best * (1 - kMargin)};
}

Result<std::optional<PlannedLayout>> found_faster(const Wanted& lean, const ToBeat& enough,
                                                  const SearchQuestion& question) {
  auto found = TW_TRY(fastest_of(lean, question));
  if (found && enough.step && found->time.step > *enough.step) found.reset();
  return found;
}

// Of those that the trainer has, the first that helps.
Result<std::optional<LeanStates>> lean_states(const Plan& plan, const SearchQuestion& question) {
  const auto enough = to_beat(plan);
  if (!enough || plan.wanted.job.optimizer != OptimizerKind::AdamW) return std::nullopt;
  for (const OptimizerKind kind : kLeanAdamW) {
    Wanted lean = plan.wanted;
    lean.job.optimizer = kind;
    if (auto found = TW_TRY(found_faster(lean, *enough, question))) {
      return LeanStates{lean.job, *std::move(found)};
    }
  }
  return std::nullopt;
}

Result<std::optional<LeanGradients>> lean_gradients(const Plan& plan,
                                                    const SearchQuestion& question) {
  const Wanted& wanted = plan.wanted;
  const auto* facts = find_kind(wanted.trainer.precisions, wanted.precision);
  const auto enough = to_beat(plan);
  const bool asked = std::any_of(wanted.limits.begin(), wanted.limits.end(),
                                 [](const Limit& limit) { return limit.key == "gradients"; });
  if (!enough || asked || facts == nullptr || facts->gradients.front() != "fp32") {
    return std::nullopt;
  }
  const std::string kind(name_of(GradientDtype::Bf16));
  const auto& offered = facts->gradients;
  if (std::find(offered.begin(), offered.end(), kind) == offered.end()) return std::nullopt;
  Wanted lean = wanted;
  lean.limits.push_back({.key = "gradients", .kind = kind});
  auto found = TW_TRY(found_faster(lean, *enough, question));
  if (!found) return std::nullopt;
  return LeanGradients{lean.limits.back(), *std::move(found)};
}

std::optional<HostMemory> host_of(const SearchQuestion& question, const PlannedLayout& plan) {
  return host_memory(memory_question(question, plan.layout), plan.memory);
}

// Where nothing fits, but some may: at the least risk that takes any.
Result<bool> take_risk(Plan& plan, const SearchQuestion& question) {
  if (plan.result.end != SearchEnd::NothingFits || !plan.result.riskier) return false;
  for (const double risk : kTightRisks) {
    if (risk <= question.risk) continue;
    SearchQuestion bold = question;
    bold.risk = risk;
    bold.find_smallest = bold.find_riskier = false;
    bold.more_memory.reset();
    SearchResult result = TW_TRY(search(bold));
    if (!result.best.empty()) {
      plan.result = std::move(result);
      plan.result.end = SearchEnd::Tight;
      plan.tight_at = risk;
      return true;
    }
    if (is_over(question)) break;
  }
  return false;
}

// In a limited time what is searched unasked comes first: all that is asked for may come to no good
// answer in it.
Result<SearchResult> limited_search(const Wanted& wanted, const SearchQuestion& question) {
  if (!wanted.time_limit || question.also.empty()) return search(question);
  SearchQuestion plain = question;
  plain.also = {};
  plain.find_smallest = plain.find_riskier = plain.remember = false;
  plain.more_memory.reset();
  const SearchResult first = TW_TRY(search(plain));
  SearchResult result = TW_TRY(search(question));
  if (result.proven || first.best.empty()) return result;
  if (result.best.empty()) result.bound = first.best.front().time.bound;
  for (const PlannedLayout& plan : first.best) {
    const auto same = [&](const PlannedLayout& other) { return other.layout == plan.layout; };
    if (std::none_of(result.best.begin(), result.best.end(), same)) result.best.push_back(plan);
  }
  std::stable_sort(
      result.best.begin(), result.best.end(),
      [](const PlannedLayout& a, const PlannedLayout& b) { return rank_of(a) < rank_of(b); });
  if (result.best.size() > question.most) result.best.resize(question.most);
  result.end = SearchEnd::Found;
  return result;
}

// What is recommended, and of the first rows what `export` cannot write.
Result<bool> choose(Plan& plan, const SearchQuestion& question, const DataDirectory& data) {
  SearchResult& result = plan.result;
  const Wanted& wanted = plan.wanted;
  if (result.best.empty()) return false;
  plan.preferences = TW_TRY(load_preferences(data.path()));
  plan.choice = weighed(question, result.best, plan.preferences);
  const auto target = find_target("", wanted.trainer);
  const auto translated = [&](const Layout& layout) {
    return translate({.model = wanted.model,
                      .cluster = wanted.cluster,
                      .trainer = wanted.trainer,
                      .layout = layout,
                      .job = wanted.job},
                     *target);
  };
  const auto writable = [&](const Weighed& of) {
    return !target || translated(of.layout).unsayable.empty();
  };
  const auto found = std::find_if(plan.choice.begin(), plan.choice.end(), writable);
  OwnRow own = with_own_row(std::move(result.best),
                            found == plan.choice.end() ? plan.choice.front() : *found);
  result.best = std::move(own.best);
  result.recommended = own.row;
  if (!target) return true;
  const std::size_t rows = std::max(kChosenFrom, result.recommended + 1);
  for (std::size_t i = 0; i < std::min(result.best.size(), rows); ++i) {
    plan.unsayable.push_back(translated(result.best[i].layout).unsayable);
  }
  const Layout& chosen = result.best[result.recommended].layout;
  if (plan.unsayable[result.recommended].empty()) return true;
  Layout nearest = translated(chosen).nearest;
  if (nearest == chosen || !translated(nearest).unsayable.empty()) return true;
  Judged judgement = TW_TRY(judged(question, nearest));
  const double risk = plan.tight_at.value_or(question.risk);
  if (judgement.refused.empty() && fit_of(judgement.memory->oom, risk) == Fit::Fits) {
    plan.exportable =
        PlannedLayout{std::move(nearest), *judgement.time, *std::move(judgement.memory)};
  }
  return true;
}

}  // namespace

const Layout* nearly_fits(const Plan& plan) {
  if (plan.tight_at) return &plan.result.best[plan.result.recommended].layout;
  return plan.result.smallest ? &plan.result.smallest->layout : nullptr;
}

constexpr double kFeltGain = 1e-3;  // of a step; less is not worth a file

const OrderedFamily* faster_order(const Plan& plan) {
  const OrderedFamily* found = nullptr;
  for (const OrderedFamily& of : plan.orders) {
    if (gain(of.own) < kFeltGain) continue;
    if (found == nullptr || rank_of(of.own.plan) < rank_of(found->own.plan)) {
      found = &of;
    }
  }
  return found;
}

ClusterOf sizes_of(const Cluster& cluster, const Hardware& hardware) {
  const bool known = parse_cluster(cluster.name, hardware).has_value();
  return [&cluster, &hardware, known](std::int64_t count) -> std::optional<Cluster> {
    if (!known || cluster.groups.size() > 1) return std::nullopt;
    auto other = parse_cluster(fmt::format("{}x{}", count, kind_of(cluster, hardware)), hardware);
    return other ? std::optional(*std::move(other)) : std::nullopt;
  };
}

namespace {

// What else is told, until time is up.
Result<bool> look_beside(Plan& plan, SearchQuestion& question, const DataDirectory& data) {
  const Wanted& wanted = plan.wanted;
  const Hardware& hardware = *TW_TRY(data.hardware());
  const ClusterOf sizes = sizes_of(question.cluster, hardware);
  const bool nothing = plan.result.end == SearchEnd::NothingFits || plan.tight_at;
  if (nothing && !wanted.from) {
    Larger larger = TW_TRY(smallest_that_fits(question, hardware));
    plan.larger = std::move(larger.found);
    plan.tried_times = larger.times;
    if (is_over(question)) return false;
    plan.change = TW_TRY(nearest_that_fits(plan, question));
    if (is_over(question)) return false;
    plan.adapters = TW_TRY(adapters_that_fit(wanted, question, data));
  }
  if (is_over(question)) return false;
  TW_TRY(look_nearby(plan, question, sizes));
  if (is_over(question)) return false;
  if (!plan.tight_at) plan.orders = TW_TRY(orders_of(question, plan.result.best));
  if (is_over(question)) return false;
  if (!plan.result.best.empty()) {
    const Layout& recommended = plan.result.best[plan.result.recommended].layout;
    plan.host = host_of(question, plan.result.best[plan.result.recommended]);
    if (!wanted.times.measured) {
      plan.unspecified =
          unspecified_effects(TW_TRY(step_pieces(step_question(question, recommended))),
                              stack_of(question.time.stacks, question.trainer).constants);
    }
  }
  if (!plan.result.best.empty() && !plan.tight_at) {
    plan.with_more_memory = plan.result.proven ? std::move(plan.result.with_more_memory)
                                               : TW_TRY(fastest_with_memory(question, kMoreMemory));
  }
  if (is_over(question)) return false;
  plan.with_offload = TW_TRY(faster_with_offload(plan, question));
  if (plan.with_offload) plan.host_with_offload = host_of(question, *plan.with_offload);
  if (is_over(question)) return false;
  plan.with_lean_states = TW_TRY(lean_states(plan, question));
  plan.with_lean_gradients = TW_TRY(lean_gradients(plan, question));
  if (is_over(question)) return false;
  plan.with_kernels = TW_TRY(opt_in_kernels(plan, question));
  if (is_over(question)) return false;
  if (wanted.within) {
    const double rate = *wanted.tokens / (*wanted.within * kDay * wanted.goodput);
    plan.fewest = TW_TRY(fewest(question, sizes, rate));
    const bool may_grow = !plan.fewest && !wanted.from && !plan.result.best.empty();
    if (may_grow) {
      Larger larger = TW_TRY(fewest_of_more(question, hardware, rate));
      plan.fewest = std::move(larger.found);
      plan.tried_times = larger.times;
    }
  }
  if (wanted.pareto && !is_over(question)) plan.front = TW_TRY(pareto_front(question, sizes));
  return true;
}

}  // namespace

Result<Plan> plan_for(const Wanted& wanted, const SearchQuestion& asked,
                      const DataDirectory& data) {
  SearchQuestion question = asked;
  StepModel steps = step_model(question);
  question.steps = &steps;
  question.find_riskier = true;
  question.more_memory = kMoreMemory;
  Plan plan{wanted, TW_TRY(limited_search(wanted, question))};
  if (plan.result.end == SearchEnd::NothingFits && !asked.offload) {
    question.offload = true;
    const SearchResult lean = TW_TRY(search(without_what_adds_memory(question)));
    if (!lean.best.empty()) {
      SearchQuestion offloading = question;
      offloading.find_smallest = false;
      SearchResult other = TW_TRY(search(offloading));
      plan.offloads = !other.best.empty();
      if (plan.offloads) plan.result = std::move(other);
    }
    question.offload = plan.offloads;
  }
  if (!is_over(question)) TW_TRY(take_risk(plan, question));
  TW_TRY(choose(plan, question, data));
  for (const std::int64_t gbs : wanted.ramp) {
    if (plan.result.best.empty()) break;
    Layout smaller = plan.result.best[plan.result.recommended].layout;
    smaller.gbs = gbs;
    plan.ramp.push_back(TW_TRY(planned(question, smaller)).time);
  }
  const std::size_t shown = std::max(wanted.top, plan.result.recommended + 1);
  if (plan.result.best.size() > shown) plan.result.best.resize(shown);
  if (wanted.why_not) {
    plan.why_not = TW_TRY(judged(question, *wanted.why_not));
    plan.why_not_fits = nearest_to(*plan.why_not, question);
  }
  if (wanted.from) plan.today = TW_TRY(judged(question, *wanted.from));
  if (plan.result.stopped == SearchStop::Time || plan.result.stopped == SearchStop::Interrupt) {
    return plan;
  }
  TW_TRY(look_beside(plan, question, data));
  plan.cut_short = is_over(question);
  return plan;
}

}  // namespace trainwright::cli
