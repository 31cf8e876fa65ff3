#include "trainwright/work/formula.h"

#include <fmt/core.h>

#include <algorithm>

#include "trainwright/base/text.h"

namespace trainwright {
namespace {

// Widths that have names, in numbers of one token; 0: there is none.
struct NamedWidths {
  std::int64_t hidden = 0, feed_forward = 0, queries = 0, keys = 0, heads = 0;
};
NamedWidths named_widths(const Model& model, const LayerKind& kind) {
  NamedWidths of{.hidden = model.hidden};
  if (const auto* attention = std::get_if<SoftmaxAttention>(&kind.attention)) {
    of.heads = attention->heads;
    of.queries = attention->heads * attention->head_dim;
    of.keys = attention->kv_heads * attention->head_dim;
  }
  if (const auto* mlp = std::get_if<Mlp>(&kind.feed_forward)) {
    if (mlp->width != 4 * model.hidden) of.feed_forward = mlp->width;
  }
  return of;
}

// Of `numbers` for each token, or for each pair of tokens of a sequence.
TermWidth width_of(const NamedWidths& of, const Tensor& tensor, int power, double numbers) {
  const auto is = [&](std::int64_t width, double times = 1) {
    return width > 0 && numbers == times * real(width);
  };
  constexpr double kStatistics = 8;  // of a row
  if (power == 2) return is(of.heads) ? TermWidth::Scores : TermWidth::Fixed;
  if (power != 1) return TermWidth::Fixed;
  if (is(of.hidden)) return TermWidth::Hidden;
  if (is(of.feed_forward) || is(of.feed_forward, 2)) return TermWidth::Intermediate;
  if (is(of.queries)) return TermWidth::Queries;
  if (tensor.has_gradient) return is(of.keys) ? TermWidth::Keys : TermWidth::Hidden;
  if (is(of.heads)) return TermWidth::Heads;
  return numbers <= kStatistics ? TermWidth::Token : TermWidth::Hidden;
}

double numbers_of(const NamedWidths& of, TermWidth width) {
  switch (width) {
    case TermWidth::Hidden: return real(of.hidden);
    case TermWidth::Intermediate: return real(of.feed_forward);
    case TermWidth::Queries: return real(of.queries);
    case TermWidth::Keys: return real(of.keys);
    case TermWidth::Scores:
    case TermWidth::Heads: return real(of.heads);
    case TermWidth::Token:
    case TermWidth::Fixed: break;
  }
  return 1;
}

// A term's letters in absolute words and over s b h.
struct Letters {
  std::string_view absolute, above, below;
};
Letters letters_of(const NamedWidths& of, TermWidth width) {
  switch (width) {
    case TermWidth::Hidden: return {"sbh", "", ""};
    case TermWidth::Intermediate: return {"sbf", "f", "h"};
    case TermWidth::Queries: return {"sbad", "ad", "h"};
    case TermWidth::Keys:
      return of.queries == of.hidden ? Letters{"sbkd", "k", "a"} : Letters{"sbkd", "kd", "h"};
    case TermWidth::Scores: return {"as^2b", "as", "h"};
    case TermWidth::Heads: return {"asb", "", ""};
    case TermWidth::Token: return {"sb", "", ""};
    case TermWidth::Fixed: break;
  }
  return {};
}

// "24/t", "5as/(ht)", "sbh".
std::string fraction(double coefficient, std::string_view above, const std::string& below) {
  std::string text = coefficient == 1 && !above.empty() ? "" : significant(coefficient, 6);
  text += above;
  if (below.empty()) return text;
  return text + (below.size() > 1 ? "/(" + below + ")" : "/" + below);
}

std::string divisor(const KeptTerm& term) {
  return std::string(term.over_tp ? "t" : "") + (term.over_cp ? "c" : "");
}

// The power of s of every kept tensor; none: a longer sequence keeps others.
std::vector<int> powers_of_sequence(const Model& model, const Recipe& recipe, const ListOf& of,
                                    const OperatorList& list, const std::vector<Kept>& kept) {
  ListOf other = of;
  other.slice.seq *= 2;
  const bool shorter = too_large(model, other.slice).has_value();
  if (shorter) other.slice.seq = std::max<std::int64_t>(of.slice.seq / 2, 1);
  const OperatorList scaled = make_list(model, recipe, other);
  const std::vector<Kept> there = kept_tensors(scaled);
  if (there.size() != kept.size()) return {};
  std::vector<int> powers;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    std::int64_t less = list.at(kept[i].tensor).elements;
    std::int64_t more = scaled.at(there[i].tensor).elements;
    if (shorter) std::swap(less, more);
    powers.push_back(more == less ? 0 : more == 2 * less ? 1 : more == 4 * less ? 2 : -1);
  }
  return powers;
}

// The first operator whose backward pass needs it, or which is run again from it: where the papers
// count it. Behind the last one: nobody.
std::size_t first_need(const OperatorList& list, TensorId tensor) {
  const auto needs = [&](const Operator& op) {
    const auto saves = [&](const Save& save) { return save.tensor == tensor; };
    if (std::any_of(op.saves.begin(), op.saves.end(), saves)) return true;
    return op.again != Again::No &&
           std::find(op.inputs.begin(), op.inputs.end(), tensor) != op.inputs.end();
  };
  const auto found = std::find_if(list.operators.begin(), list.operators.end(), needs);
  return static_cast<std::size_t>(found - list.operators.begin());
}

struct Maker {
  NamedWidths widths;
  const Slice& slice;

  KeptTerm term(const OperatorList& list, TensorId id, int power) const {
    const Tensor& tensor = list.at(id);
    KeptTerm term;
    term.tensor = tensor.name;
    term.bytes = tensor.bytes();
    term.need = first_need(list, id);
    if (term.need < list.operators.size()) term.saved_for = list.operators[term.need].name;
    const std::int64_t tp = slice.tp, cp = slice.cp;
    term.over_tp = tp > 1 && tensor.copies % tp != 0;
    const std::int64_t rest = term.over_tp ? tensor.copies : tensor.copies / tp;
    term.over_cp = cp > 1 && rest % cp != 0;
    const double ways = real(term.over_tp ? tp : 1) * real(term.over_cp ? cp : 1);
    double tokens = real(slice.seq) * real(slice.mbs);
    if (power == 2) tokens *= real(slice.seq);
    const double whole = real(tensor.elements) * real(tp * cp) / real(tensor.copies);
    term.width = width_of(widths, tensor, power, whole / tokens);
    if (term.width == TermWidth::Fixed) return term;
    term.coefficient = real(term.bytes.value()) * ways / tokens / numbers_of(widths, term.width);
    term.text = fraction(term.coefficient, letters_of(widths, term.width).absolute, divisor(term));
    return term;
  }
};

// Terms of one width and divisor, added up.
std::vector<KeptTerm> added(const std::vector<KeptTerm>& terms, TermWidth first, TermWidth last) {
  std::vector<KeptTerm> sums;
  for (const KeptTerm& term : terms) {
    if (term.width < first || term.width > last) continue;
    const auto same = std::find_if(sums.begin(), sums.end(), [&](const KeptTerm& sum) {
      return sum.width == term.width && divisor(sum) == divisor(term);
    });
    if (same == sums.end()) {
      sums.push_back(term);
    } else {
      same->coefficient += term.coefficient;
    }
  }
  std::stable_sort(sums.begin(), sums.end(), [](const KeptTerm& a, const KeptTerm& b) {
    return a.width != b.width ? a.width < b.width : divisor(a).size() < divisor(b).size();
  });
  return sums;
}

std::string absolute_text(const NamedWidths& widths, const std::vector<KeptTerm>& sums) {
  std::vector<std::string> parts;
  for (const KeptTerm& sum : sums) {
    parts.push_back(
        fraction(sum.coefficient, letters_of(widths, sum.width).absolute, divisor(sum)));
  }
  return join(parts, " + ");
}

// "sbh/t(34 + 5as/h)": a divisor that all terms have stands before them.
std::string relative_text(const NamedWidths& widths, const std::vector<KeptTerm>& sums) {
  if (sums.empty()) return "0";
  if (sums.size() == 1) return absolute_text(widths, sums);
  const std::string shared = divisor(sums.front());
  const bool all = std::all_of(sums.begin(), sums.end(),
                               [&](const KeptTerm& sum) { return divisor(sum) == shared; });
  std::vector<std::string> parts;
  for (const KeptTerm& sum : sums) {
    const Letters letters = letters_of(widths, sum.width);
    const std::string below = std::string(letters.below) + (all ? "" : divisor(sum));
    parts.push_back(fraction(sum.coefficient, letters.above, below));
  }
  return fmt::format("{}({})", fraction(1, "sbh", all ? shared : ""), join(parts, " + "));
}

std::vector<std::pair<std::string, double>> letters_here(const NamedWidths& widths,
                                                         const Slice& slice,
                                                         const std::vector<KeptTerm>& terms) {
  const auto any = [&](auto holds) { return std::any_of(terms.begin(), terms.end(), holds); };
  const auto has = [&](TermWidth width) {
    return any([&](const KeptTerm& term) { return term.width == width; });
  };
  const double hidden = real(widths.hidden), heads = real(widths.heads);
  std::vector<std::pair<std::string, double>> all = {
      {"s", real(slice.seq)}, {"b", real(slice.mbs)}, {"h", hidden}};
  const auto add = [&](bool used, std::string letter, double value) {
    if (used) all.emplace_back(std::move(letter), value);
  };
  const bool keys = has(TermWidth::Keys), queries = has(TermWidth::Queries);
  add(keys || queries || has(TermWidth::Scores) || has(TermWidth::Heads), "a", heads);
  add(has(TermWidth::Intermediate), "f", real(widths.feed_forward));
  add(keys, "k", real(widths.keys) * heads / real(widths.queries));
  add(keys || queries, "d", real(widths.queries) / heads);
  add(any([](const KeptTerm& term) { return term.over_tp; }), "t", real(slice.tp));
  add(any([](const KeptTerm& term) { return term.over_cp; }), "c", real(slice.cp));
  for (const TermWidth width :
       {TermWidth::Intermediate, TermWidth::Queries, TermWidth::Keys, TermWidth::Scores}) {
    const Letters letters = letters_of(widths, width);
    double value = numbers_of(widths, width) / hidden;
    if (width == TermWidth::Scores) value *= real(slice.seq);
    add(has(width), fmt::format("{}/{}", letters.above, letters.below), value);
  }
  return all;
}

}  // namespace

KeptFormula kept_formula(const Model& model, const Recipe& recipe, const ListOf& layer) {
  const OperatorList list = make_list(model, recipe, layer);
  const std::vector<Kept> kept = kept_tensors(list);
  const std::vector<int> powers = powers_of_sequence(model, recipe, layer, list, kept);
  const Maker maker{named_widths(model, model.kinds[layer.kind.at()]), layer.slice};
  KeptFormula formula;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    formula.terms.push_back(maker.term(list, kept[i].tensor, powers.empty() ? -1 : powers[i]));
    const KeptTerm& term = formula.terms.back();
    formula.bytes += term.bytes;
    if (term.width >= TermWidth::Heads) formula.smaller_bytes += term.bytes;
    if (term.width == TermWidth::Fixed) formula.fixed_bytes += term.bytes;
  }
  std::stable_sort(formula.terms.begin(), formula.terms.end(),
                   [](const KeptTerm& a, const KeptTerm& b) { return a.need < b.need; });
  const auto main = added(formula.terms, TermWidth::Hidden, TermWidth::Scores);
  formula.text = relative_text(maker.widths, main);
  formula.smaller =
      absolute_text(maker.widths, added(formula.terms, TermWidth::Heads, TermWidth::Token));
  formula.letters = letters_here(maker.widths, layer.slice, formula.terms);
  return formula;
}

}  // namespace trainwright
