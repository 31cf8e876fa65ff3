// Which layers are what: a word for each.
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/model/build.h"

namespace trainwright::detail {
namespace {

constexpr auto kMostLayers = static_cast<std::size_t>(kLayersRange.most);

// Words that the family knows in this place.
std::vector<std::string> known_words(const LayerPattern& pattern, const Family& family) {
  std::vector<std::string> known;
  for (const LayerWord& type : family.types) known.push_back(type.word);
  for (const std::string* word : {&pattern.hit, &pattern.miss}) {
    if (!word->empty()) known.push_back(*word);
  }
  known.insert(known.end(), pattern.cycle.begin(), pattern.cycle.end());
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  return known;
}

std::string in_our_words(const LayerPattern& pattern, std::string_view theirs) {
  for (const auto& [word, meant] : pattern.words) {
    if (word == theirs) return meant;
  }
  return std::string(theirs);
}

// "M (mamba), * (attention)".
std::string meant_by_letters(const LayerPattern& pattern) {
  std::vector<std::string> letters;
  for (const auto& [letter, meant] : pattern.words) {
    if (letter.size() == 1) letters.push_back(fmt::format("{} ({})", letter, meant));
  }
  return enumerate(letters, "or");
}

// What the config lists, in our words; empty after a fault.
std::vector<std::string> translated(const LayerPattern& pattern, const Family& family,
                                    std::string_view field, const std::vector<std::string>& theirs,
                                    ConfigFields& fields) {
  const std::vector<std::string> known = known_words(pattern, family);
  std::vector<std::string> ours;
  for (const std::string& word : theirs) {
    ours.push_back(in_our_words(pattern, word));
    if (std::find(known.begin(), known.end(), ours.back()) != known.end()) continue;
    const bool letter = field == pattern.letters;
    fields.fault(field,
                 letter ? fmt::format("letter {} stands for no layer", ours.size())
                        : fmt::format("'{}' is not a known layer type", word.substr(0, 60)),
                 letter ? meant_by_letters(pattern) : enumerate(known, "or"));
    return {};
  }
  return ours;
}

std::vector<std::string> letters_of(const LayerPattern& pattern, ConfigFields& fields) {
  const std::string text = fields.string({pattern.letters, {}});
  std::vector<std::string> letters;
  if (text.size() > kMostLayers) {
    fields.fault(pattern.letters, fmt::format("has {} layers", text.size()),
                 fmt::format("at most {}", kLayersRange.most));
    return letters;
  }
  for (const char letter : text) letters.emplace_back(1, letter);
  return letters;
}

// Indices of layers, sorted; nullopt when absent or null.
std::optional<std::vector<std::int64_t>> indices(ConfigFields& fields, std::string_view field) {
  if (field.empty()) return std::nullopt;
  auto listed = fields.integers(field, kMostLayers);
  if (listed) std::sort(listed->begin(), listed->end());
  return listed;
}

struct Rule {
  std::int64_t every = 1, phase = 0, from = 0, until = 0, flag = 1, first = 0;
  std::optional<std::vector<std::int64_t>> listed, flags, except;

  bool hits(std::int64_t i) const {
    if (listed) return std::binary_search(listed->begin(), listed->end(), i + first);
    if (flags) return ((*flags)[static_cast<std::size_t>(i)] != 0) == (flag != 0);
    if (except && std::binary_search(except->begin(), except->end(), i)) return false;
    return i % every == phase && i >= from && i < until;
  }
};

Rule read_rule(const LayerPattern& pattern, std::int64_t layers, ConfigFields& fields) {
  Rule rule;
  rule.every = std::max<std::int64_t>(1, required(fields, pattern.every, {1, 1 << 20}));
  rule.phase = fields.integer(pattern.phase, {0, 1 << 20}).value_or(rule.every - 1);
  rule.from = fields.integer(pattern.from, {0, kLayersRange.most}).value_or(0);
  const auto until = fields.integer(pattern.until, {-1, 1 << 20});
  rule.until = until && *until >= 0 ? *until : layers;
  rule.flag = pattern.flag;
  rule.first = pattern.one_based ? 1 : 0;
  rule.listed = indices(fields, pattern.listed);
  rule.except = indices(fields, pattern.except);
  if (pattern.flags.empty()) return rule;
  if (!fields.is_list(pattern.flags)) {
    if (const auto number = fields.integer({pattern.flags}, {1, 1 << 20})) {
      rule.every = *number;
      rule.phase = 0;
    }
    return rule;
  }
  auto flags = fields.integers(pattern.flags, kMostLayers);
  if (!flags || flags->empty()) return rule;
  if (static_cast<std::int64_t>(flags->size()) < layers) {
    fields.fault(pattern.flags, fmt::format("{} entries for {} layers", flags->size(), layers));
    flags->resize(static_cast<std::size_t>(layers), 1);
  }
  rule.flags = std::move(flags);
  return rule;
}

// As many as there are layers; empty after a fault.
std::vector<std::string> as_many(std::vector<std::string> words, const LayerPattern& pattern,
                                 std::string_view field, std::int64_t layers,
                                 ConfigFields& fields) {
  if (pattern.longer && layers > 0 && std::ssize(words) > layers) {
    words.resize(static_cast<std::size_t>(layers));
  }
  if (layers == 0 || words.empty() || static_cast<std::int64_t>(words.size()) == layers) {
    return words;
  }
  fields.fault(field, fmt::format("{} layer types for {} layers", words.size(), layers));
  return {};
}

std::vector<std::string> listed_words(const LayerPattern& pattern, const Family& family,
                                      ConfigFields& fields) {
  if (!pattern.names.empty() && fields.is_set(pattern.names)) {
    const auto names = fields.words(pattern.names, kMostLayers);
    return names ? translated(pattern, family, pattern.names, *names, fields)
                 : std::vector<std::string>{};
  }
  return translated(pattern, family, pattern.letters, letters_of(pattern, fields), fields);
}

}  // namespace

std::vector<std::string> words_of(const LayerPattern& pattern, const Family& family,
                                  std::int64_t layers, ConfigFields& fields) {
  if (!pattern.settled.empty()) return pattern.settled;
  const bool named = !pattern.names.empty() && fields.is_set(pattern.names);
  if (named || (!pattern.letters.empty() && fields.is_set(pattern.letters))) {
    const std::string& field = named ? pattern.names : pattern.letters;
    std::vector<std::string> words = listed_words(pattern, family, fields);
    if (words.empty()) fields.fault_unless_reported(field, "names no layer");
    return as_many(std::move(words), pattern, field, layers, fields);
  }
  std::vector<std::string> words;
  const auto count = static_cast<std::int64_t>(layers > 0 ? layers : std::ssize(pattern.cycle));
  if (!pattern.cycle.empty()) {
    for (std::int64_t i = 0; i < count; ++i) {
      words.push_back(pattern.cycle[static_cast<std::size_t>(i) % pattern.cycle.size()]);
    }
    return words;
  }
  if (pattern.hit.empty()) return words;
  const Rule rule = read_rule(pattern, layers, fields);
  for (std::int64_t i = 0; i < count; ++i)
    words.push_back(rule.hits(i) ? pattern.hit : pattern.miss);
  return words;
}

}  // namespace trainwright::detail
