#include "trainwright/search/recommend.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <tuple>
#include <utility>

#include "trainwright/search/search.h"

namespace trainwright {
namespace {

using Counts = Preference::Counts;
constexpr std::array<std::pair<std::string_view, Counts>, 4> kWords = {{
    {"oom", Counts::Oom},
    {"domains", Counts::Domains},
    {"sharding", Counts::Sharding},
    {"changes", Counts::Changes},
}};

// "domains", or an expression.
void read_amount(JsonFields& fields, Preference& preference) {
  const std::string text = fields.string("amount");
  for (const auto& [word, counts] : kWords) {
    if (text != word) continue;
    preference.counts = counts;
    return;
  }
  auto read = parse_expression(text, "amount");
  if (read) {
    preference.amount = *std::move(read);
    return;
  }
  const Diagnostic& fault = read.error().diagnostics.front();
  fields.fault("amount", fault.what, fault.hint);
}

Preference read_preference(const Json& json, const std::string& origin, const std::string& path,
                           Diagnostics& faults) {
  JsonFields fields(json, origin, path, faults);
  Preference preference;
  preference.name = fields.string("name");
  read_amount(fields, preference);
  preference.weight = fields.number("weight");
  const double least = fields.number("least"), most = fields.number("most");
  // Written so that NaN fails, too.
  if (!(preference.weight >= least && preference.weight <= most)) {
    fields.fault("weight", "it is not within its bounds");
  }
  preference.better = fields.string("better");
  fields.string("reason");
  fields.string("source");
  fields.finish();
  return preference;
}

std::int64_t doublings(const Layout& layout, GroupKind kind, const Cluster& cluster) {
  const auto domains = place_group(layout, kind, cluster).scale_up.domains;
  const auto others = static_cast<std::uint64_t>(std::max<std::int64_t>(domains, 1) - 1);
  return static_cast<std::int64_t>(std::bit_width(others));
}

double amount_of(const Preference& preference, const SearchQuestion& question,
                 const PlannedLayout& plan, const Facts& facts) {
  const auto whole = [](std::int64_t amount) { return static_cast<double>(amount); };
  const Layout& layout = plan.layout;
  switch (preference.counts) {
    case Counts::Expression: return whole(evaluate(preference.amount, facts).value_or(0));
    case Counts::Oom: return 100 * std::max(plan.memory.oom - kSafe, 0.0);
    case Counts::Domains:
      return whole(doublings(layout, GroupKind::Tp, question.cluster) +
                   (layout.ep > 1 ? doublings(layout, GroupKind::EtpEp, question.cluster) : 0));
    case Counts::Sharding: return recipes_share(question.trainer, layout.sharding) ? 0 : 1;
    case Counts::Changes:
      return question.from ? whole(count_of(changed_knobs(*question.from, layout))) : 0;
  }
  return 0;
}

Weighed weigh(const SearchQuestion& question, const PlannedLayout& plan,
              const Preferences& preferences) {
  const Facts known =
      facts(plan.layout, question.job, question.model, question.cluster, question.trainer);
  Weighed of{.layout = plan.layout, .step = rank_of(plan), .worth = {}, .amounts = {}};
  double against = 0;
  for (const Preference& preference : preferences.list) {
    of.amounts.push_back(amount_of(preference, question, plan, known));
    against += preference.weight / 100 * of.amounts.back();
  }
  of.worth = of.step * (1 + against);
  return of;
}

}  // namespace

bool recipes_share(const Trainer& trainer, ShardingKind kind) {
  Facts known;
  known.set(Variable::Sharding, name_of(kind));
  const auto when = shared_by_recipes(trainer, "sharding");
  return !when || evaluate(*when, known) != 0;
}

std::vector<ShardingKind> foreign_shardings(const Trainer& trainer) {
  std::vector<ShardingKind> foreign;
  bool shards_weights = false;
  for (const ShardingFacts& facts : trainer.shardings) {
    const bool plain = facts.kind == ShardingKind::Ddp || facts.kind == ShardingKind::Zero;
    if (!recipes_share(trainer, facts.kind)) {
      foreign.push_back(facts.kind);
    } else if (!plain) {
      shards_weights = true;
    }
  }
  return shards_weights ? foreign : std::vector<ShardingKind>{};
}

std::vector<ShardingKind> shardings_left_out(const SearchQuestion& question) {
  const bool fixed = std::any_of(question.limits.begin(), question.limits.end(),
                                 [](const Limit& limit) { return limit.key == "sharding"; });
  if (question.foreign || question.from || fixed) return {};
  return foreign_shardings(question.trainer);
}

Result<Preferences> read_preferences(const Json& json, const std::string& origin) {
  Diagnostics faults;
  Preferences preferences;
  JsonFields fields(json, origin, "", faults);
  preferences.doubt = fields.number("doubt");
  fields.string("doubt_source");
  if (!(preferences.doubt >= 0 && preferences.doubt <= 1)) {
    fields.fault("doubt", "it is not a share from 0 to 1");
  }
  if (const Json* list = fields.array("preferences")) {
    for (std::size_t i = 0; i < list->items.size(); ++i) {
      const std::string path = fmt::format("{}/{}", fields.path("preferences"), i);
      preferences.list.push_back(read_preference(list->items[i], origin, path, faults));
    }
  }
  fields.finish();
  if (!faults.empty()) return fail(std::move(faults));
  return preferences;
}

Result<Preferences> load_preferences(const std::string& data_directory) {
  const std::string path = data_directory + "/preferences.json";
  return read_preferences(TW_TRY(read_json_file(path)), path);
}

std::vector<Weighed> weighed(const SearchQuestion& question, const std::vector<PlannedLayout>& best,
                             const Preferences& preferences) {
  std::vector<Weighed> all;
  const std::size_t rows = std::min(best.size(), kChosenFrom);
  for (std::size_t row = 0; row < rows; ++row) {
    const Seconds most = rank_of(best.front()) * (1 + preferences.doubt);
    const auto add = [&](const PlannedLayout& plan, std::optional<std::size_t> member) {
      if (rank_of(plan) > most) return;
      Weighed of = weigh(question, plan, preferences);
      of.row = row;
      of.member = member;
      all.push_back(std::move(of));
    };
    add(best[row], std::nullopt);
    for (std::size_t i = 0; i < best[row].alike.size(); ++i) add(best[row].alike[i], i);
  }
  std::stable_sort(all.begin(), all.end(), [](const Weighed& a, const Weighed& b) {
    return std::tuple(a.worth, a.step) < std::tuple(b.worth, b.step);
  });
  return all;
}

OwnRow with_own_row(std::vector<PlannedLayout> best, const Weighed& of) {
  if (!of.member) return {std::move(best), of.row};
  std::vector<PlannedLayout>& alike = best[of.row].alike;
  const auto member = alike.begin() + static_cast<std::ptrdiff_t>(*of.member);
  PlannedLayout own = std::move(*member);
  alike.erase(member);
  const auto place = std::upper_bound(
      best.begin(), best.end(), own,
      [](const PlannedLayout& a, const PlannedLayout& b) { return rank_of(a) < rank_of(b); });
  const auto row = static_cast<std::size_t>(place - best.begin());
  best.insert(place, std::move(own));
  return {std::move(best), row};
}

}  // namespace trainwright
