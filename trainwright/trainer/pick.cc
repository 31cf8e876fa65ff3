// "megatron@0.12": the trainer and the version a person means.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainwright/base/text.h"
#include "trainwright/trainer/reading.h"

namespace trainwright {
namespace {

// Version 0.12 stands for 0.12 and all its patch releases; so does the end of a range.
bool not_after(Version version, Version last) {
  return std::pair(version.major_part, version.minor_part) <=
             std::pair(last.major_part, last.minor_part) &&
         (version <= last || last.patch_part == 0);
}

std::string range_text(const Trainer& trainer) {
  if (trainer.from == trainer.to) return to_text(trainer.from);
  return fmt::format("{} to {}", to_text(trainer.from), to_text(trainer.to));
}

tl::unexpected<Error> unknown_name(std::string_view text, std::string_view name,
                                   std::span<const Trainer> trainers) {
  std::vector<std::string> names;
  std::vector<std::string> main_names;
  std::string_view last;
  for (const Trainer& trainer : trainers) {
    for (const auto& [others, instead] : trainer.elsewhere) {
      for (const std::string_view other : split(others, '|')) {
        if (other != name) continue;
        return fail(std::string(text), fmt::format("'{}' is no trainer that is known here", name),
                    instead);
      }
    }
    if (trainer.name == std::exchange(last, trainer.name)) continue;
    if (!trainer.unlisted) main_names.push_back(trainer.name);
    names.push_back(trainer.name);
    names.insert(names.end(), trainer.aliases.begin(), trainer.aliases.end());
  }
  return fail(std::string(text), fmt::format("unknown trainer '{}'", name),
              did_you_mean(name, names, "known trainers: " + enumerate(main_names)));
}

Trainer at_version(const Trainer& trainer, Version version) {
  Trainer picked = trainer;
  picked.version = version;
  set_torch(picked, picked.libraries.torch_is_trainer ? version : picked.libraries.torch);
  std::erase_if(picked.rules, [&](const Rule& rule) {
    return (rule.since && version < *rule.since) ||
           (rule.until && !not_after(version, *rule.until));
  });
  return picked;
}

// "torch=2.15" behind a name.
Result<Trainer> on_torch(Trainer trainer, std::string_view words) {
  for (const std::string_view word : split(words, ',')) {
    const auto equals = std::min(word.find('='), word.size());
    const bool torch = lower_case(trim(word.substr(0, equals))) == "torch";
    const auto version = torch ? parse_version(trim(word.substr(std::min(equals + 1, word.size()))))
                               : std::optional<Version>();
    if (!version) {
      return fail(
          std::string(word), "not a version of PyTorch",
          fmt::format("for instance {}@{},torch=2.15", trainer.name, to_text(trainer.version)));
    }
    if (trainer.libraries.torch_is_trainer || trainer.libraries.torch == Version{}) {
      const bool itself = trainer.libraries.torch_is_trainer;
      return fail(std::string(word),
                  itself ? fmt::format("{} is PyTorch itself", trainer.title)
                         : fmt::format("{} does not run on PyTorch", trainer.title),
                  itself ? fmt::format("{}@{}", trainer.name, to_text(*version)) : "leave it out");
    }
    set_torch(trainer, *version);
  }
  return trainer;
}

}  // namespace

void set_torch(Trainer& trainer, Version torch) {
  trainer.libraries.torch = torch;
  for (const PipelineSince& since : trainer.pipeline_since) {
    if (since.torch <= torch) trainer.pipeline = since.facts;
  }
}

bool goes_by(const std::string& name, const std::vector<std::string>& aliases,
             const std::string& called) {
  if (lower_case(name) == called) return true;
  return std::any_of(aliases.begin(), aliases.end(),
                     [&](const std::string& alias) { return lower_case(alias) == called; });
}

Result<Trainer> pick_trainer(std::string_view text, std::span<const Trainer> trainers) {
  if (const auto comma = text.find(','); comma != std::string_view::npos) {
    return on_torch(TW_TRY(pick_trainer(text.substr(0, comma), trainers)), text.substr(comma + 1));
  }
  const auto mark = text.find('@');
  const std::string name = lower_case(trim(text.substr(0, mark)));
  std::vector<const Trainer*> known;
  for (const Trainer& trainer : trainers) {
    if (goes_by(trainer.name, trainer.aliases, name)) known.push_back(&trainer);
  }
  if (known.empty()) return unknown_name(text, name, trainers);
  const auto newest =
      std::max_element(known.begin(), known.end(), [](auto* a, auto* b) { return a->to < b->to; });
  if (mark == std::string_view::npos) return at_version(**newest, (*newest)->to);
  const auto version = parse_version(trim(text.substr(mark + 1)));
  if (!version) {
    return fail(std::string(text), fmt::format("'{}' is not a version", text.substr(mark + 1)),
                fmt::format("for instance {}@{}", name, to_text((*newest)->to)));
  }
  // Of the files that begin by then the last one: 0.2.1 is no longer that of 0.2.
  const Trainer* found = nullptr;
  std::vector<std::string> ranges;
  for (const Trainer* trainer : known) {
    if (trainer->from <= *version && (found == nullptr || found->from < trainer->from)) {
      found = trainer;
    }
    ranges.push_back(range_text(*trainer));
  }
  if (found != nullptr && not_after(*version, found->to)) return at_version(*found, *version);
  return fail(std::string(text),
              fmt::format("{} {} is not known", (*newest)->title, to_text(*version)),
              fmt::format("known versions: {}", join(ranges, ", ")));
}

}  // namespace trainwright
