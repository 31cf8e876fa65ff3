#include "trainwright/work/expert_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "trainwright/base/random.h"
#include "trainwright/base/text.h"

namespace trainwright {
namespace {

constexpr int kDraws = 64;
constexpr double kMostExponent = 10;
constexpr std::size_t kMostExperts = 100'000;  // of all lines of a file

// Shares that sum to 1, none above 1 / per_token: what is too much goes to the others.
std::vector<double> zipf_shares(double exponent, std::int64_t experts, std::int64_t per_token) {
  std::vector<double> shares;
  for (std::int64_t e = 1; e <= experts; ++e) shares.push_back(std::pow(real(e), -exponent));
  const double most = 1 / real(std::min(per_token, experts));
  double left = 1;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const double rest =
        std::accumulate(shares.begin() + static_cast<std::ptrdiff_t>(i), shares.end(), 0.0);
    if (shares[i] / rest * left <= most) {
      for (std::size_t j = i; j < shares.size(); ++j) shares[j] *= left / rest;
      break;
    }
    shares[i] = most;
    left -= most;
  }
  return shares;
}

double normal(Random& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.real()));
  return radius * std::cos(2 * std::numbers::pi * random.real());
}

// Loads of ranks that hold experts in this order.
std::vector<double> loads_of(const std::vector<double>& shares, std::int64_t ep) {
  std::vector<double> loads(static_cast<std::size_t>(ep));
  for (std::size_t e = 0; e < shares.size(); ++e) {
    loads[e * loads.size() / shares.size()] += shares[e] * real(ep);
  }
  return loads;
}

double highest(const std::vector<double>& loads) {
  return *std::max_element(loads.begin(), loads.end());
}

// The mean of the highest load when popular experts sit anywhere.
double highest_by_chance(std::vector<double> shares, const ExpertRanks& ranks) {
  Random random(0x7a697066);
  double sum = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    for (std::size_t i = shares.size() - 1; i > 0; --i) {
      std::swap(shares[i],
                shares[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(i)))]);
    }
    std::vector<double> loads = loads_of(shares, ranks.ep);
    for (double& load : loads) load += normal(random) * std::sqrt(load / ranks.rows);
    sum += highest(loads);
  }
  return sum / kDraws;
}

double normal_below(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }

// The expected highest of n standard normal numbers: the integral of x n phi(x) Phi(x)^(n - 1).
double highest_normal(std::int64_t n) {
  constexpr double kEnd = 9, kStep = 0.02;
  double sum = 0;
  for (double x = -kEnd; x < kEnd; x += kStep) {
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
    sum += x * real(n) * density * std::pow(normal_below(x), real(n - 1)) * kStep;
  }
  return sum;
}

double variance_of_load(const std::vector<double>& shares, const ExpertRanks& ranks) {
  const double experts = real(ranks.experts), held = experts / real(ranks.ep);
  double squares = 0;
  for (const double share : shares) squares += (share - 1 / experts) * (share - 1 / experts);
  const double drawn = experts > 1 ? (experts - held) / (experts - 1) : 0;
  return real(ranks.ep) * real(ranks.ep) * held * (squares / experts) * drawn + 1 / ranks.rows;
}

RankLoad zipf_load(double exponent, const ExpertRanks& ranks) {
  const std::vector<double> shares = zipf_shares(exponent, ranks.experts, ranks.per_token);
  RankLoad load;
  load.in_a_layer = std::max(1.0, highest_by_chance(shares, ranks));
  const double deviation = std::sqrt(variance_of_load(shares, ranks) / real(ranks.layers));
  load.over_layers = std::min(load.in_a_layer, 1 + highest_normal(ranks.ep) * deviation);
  return load;
}

RankLoad counted_load(const std::vector<std::vector<double>>& counts, std::int64_t ep) {
  std::vector<double> sums(static_cast<std::size_t>(ep));
  double in_layers = 0;
  for (const std::vector<double>& layer : counts) {
    const double all = std::accumulate(layer.begin(), layer.end(), 0.0);
    const std::vector<double> loads = loads_of(layer, ep);
    for (std::size_t r = 0; r < sums.size(); ++r) sums[r] += loads[r] / all;
    in_layers += highest(loads) / all;
  }
  const double layers = real(std::ssize(counts));
  return {.in_a_layer = in_layers / layers, .over_layers = highest(sums) / layers};
}

const MixtureOfExperts* first_mixture(const Model& model) {
  for (const LayerKind& kind : model.kinds) {
    if (const auto* experts = std::get_if<MixtureOfExperts>(&kind.feed_forward)) return experts;
  }
  return nullptr;
}

std::int64_t layers_with_experts(const Model& model) {
  return std::count_if(model.layers.begin(), model.layers.end(), [&](const auto id) {
    return std::holds_alternative<MixtureOfExperts>(model.kinds[id.at()].feed_forward);
  });
}

}  // namespace

Result<std::optional<ExpertLoad>> parse_expert_load(std::string_view word) {
  constexpr std::string_view kZipf = "zipf:";
  word = trim(word);
  if (word == "balanced") return ExpertLoad{};
  if (!word.starts_with(kZipf)) return std::nullopt;
  const auto exponent = parse_number(word.substr(kZipf.size()));
  if (!exponent || !(*exponent >= 0 && *exponent <= kMostExponent)) {
    return fail("--expert-load",
                fmt::format("'{}' has no exponent from 0 to {}", word, kMostExponent),
                "for instance zipf:0.5");
  }
  return ExpertLoad{ExpertLoad::Kind::Zipf, *exponent, {}, std::string(word)};
}

Result<ExpertLoad> read_expert_load(std::string_view text, std::string_view origin) {
  constexpr double kMostTokens = 1e18;
  ExpertLoad load{ExpertLoad::Kind::Counted, 0, {}, std::string(origin)};
  Diagnostics faults;
  std::size_t all = 0;
  std::int64_t line = 0;
  for (const std::string_view whole : split(text, '\n')) {
    ++line;
    const auto fault = [&](std::string what) {
      if (faults.size() < 20) {
        faults.push_back({fmt::format("{}:{}", origin, line), std::move(what),
                          "a line holds the tokens that each expert of a layer received"});
      }
    };
    std::string plain(whole.substr(0, whole.find('#')));
    std::replace_if(
        plain.begin(), plain.end(), [](char c) { return c == ',' || c == '\t' || c == '\r'; }, ' ');
    std::vector<double> layer;
    bool good = true;
    for (const std::string_view cell : split(plain, ' ')) {
      if (cell.empty()) continue;
      const auto tokens = parse_number(cell);
      good = tokens && *tokens >= 0 && *tokens <= kMostTokens;
      if (!good) fault(fmt::format("'{}' is no number of tokens", cell.substr(0, 40)));
      if (!good) break;
      layer.push_back(*tokens);
    }
    if (!good) continue;
    if (trim(plain).empty()) continue;
    all += layer.size();
    if (all > kMostExperts) return fail(std::string(origin), "it has too many numbers");
    if (std::all_of(layer.begin(), layer.end(), [](double n) { return n == 0; })) {
      fault("no expert received any token");
    } else {
      load.counts.push_back(std::move(layer));
    }
  }
  if (load.counts.empty() && faults.empty())
    faults.push_back({std::string(origin), "it has no numbers", ""});
  if (!faults.empty()) return fail(std::move(faults));
  return load;
}

Diagnostics contradictions(const ExpertLoad& load, const Model& model) {
  Diagnostics faults;
  const auto fault = [&](std::string what, std::string hint) {
    faults.push_back({"--expert-load", std::move(what), std::move(hint)});
  };
  if (load.kind == ExpertLoad::Kind::Balanced) return faults;
  const MixtureOfExperts* mixture = first_mixture(model);
  if (mixture == nullptr) {
    fault(fmt::format("{} has no experts", model.name), "leave it out");
    return faults;
  }
  const std::int64_t layers = layers_with_experts(model);
  if (std::ssize(load.counts) > 1 && std::ssize(load.counts) != layers) {
    fault(fmt::format("{} has {} lines, the model {} layers with experts", load.name,
                      load.counts.size(), layers),
          "one line for each, or one for all");
  }
  for (const std::vector<double>& layer : load.counts) {
    if (std::ssize(layer) == mixture->experts) continue;
    fault(fmt::format("{} has {} numbers in a line, the model {} experts", load.name, layer.size(),
                      mixture->experts),
          "");
    break;
  }
  return faults;
}

std::optional<ExpertRanks> expert_ranks(const Model& model, const Slice& slice, std::int64_t pp) {
  const MixtureOfExperts* mixture = first_mixture(model);
  if (mixture == nullptr) return std::nullopt;
  // Ranks of tp that hold the same tokens route each a part of them.
  const double tokens = real(slice.mbs) * real(slice.seq) / real(slice.cp) / real(slice.tp);
  return ExpertRanks{
      .experts = mixture->experts,
      .per_token = mixture->experts_per_token,
      .ep = std::clamp<std::int64_t>(slice.ep, 1, mixture->experts),
      .rows = std::max(1.0, tokens * real(mixture->experts_per_token)),
      .layers = std::max<std::int64_t>(1, (layers_with_experts(model) + pp - 1) / pp)};
}

RankLoad busiest_rank(const ExpertLoad& load, const ExpertRanks& ranks) {
  if (ranks.ep <= 1) return {};
  switch (load.kind) {
    case ExpertLoad::Kind::Balanced: return {};
    case ExpertLoad::Kind::Zipf: return zipf_load(load.exponent, ranks);
    case ExpertLoad::Kind::Counted: return counted_load(load.counts, ranks.ep);
  }
  return {};
}

RankLoad busiest_rank(const ExpertLoad& load, const Model& model, const Slice& slice,
                      std::int64_t pp) {
  if (load.kind == ExpertLoad::Kind::Balanced) return {};
  const auto ranks = expert_ranks(model, slice, pp);
  return ranks ? busiest_rank(load, *ranks) : RankLoad{};
}

}  // namespace trainwright
