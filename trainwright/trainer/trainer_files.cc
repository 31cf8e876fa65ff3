// From files to trainers: rules.json for everyone, files that build on each other, all faults.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "trainwright/base/text.h"
#include "trainwright/trainer/called.h"
#include "trainwright/trainer/reading.h"

namespace trainwright {
namespace {

constexpr std::string_view kRulesFile = "rules";
constexpr std::size_t kMostFiles = 1000;

// What a trainer is found by.
struct Head {
  std::string name, title, stack;
  std::vector<std::string> aliases;
  Version from, to;
};
constexpr std::string_view kHeadKeys[] = {"based_on", "name",    "title",    "stack",
                                          "aliases",  "version", "versions", "elsewhere"};

// One parsed file, and the trainer it becomes once the one it builds on is known.
struct Draft {
  enum class State { Fresh, Reading, Done };

  std::string origin;
  std::string stem;  // the file's name without folder and .json
  Json json;
  Head head = {};
  State head_state = State::Fresh;
  Draft* base = nullptr;  // what it builds on; known with the head
  Trainer trainer = {};
  bool built = false;
};

// Of trainers and of heads.
template <class Found>
bool before(const Found& a, const Found& b) {
  return std::tie(a.name, a.from) < std::tie(b.name, b.from);
}

std::string stem_of(const std::string& origin) {
  return std::filesystem::path(origin).stem().string();
}

// A later rule of the same id takes the place of an earlier one.
void put_rule(std::vector<Rule>& rules, Rule rule) {
  const auto same = std::find_if(rules.begin(), rules.end(),
                                 [&](const Rule& other) { return other.id == rule.id; });
  if (same != rules.end()) {
    *same = std::move(rule);
  } else {
    rules.push_back(std::move(rule));
  }
}

Version needed_version(JsonFields& fields, std::string_view key) {
  const std::string text = fields.string(key);
  const auto version = parse_version(text);
  if (!version && !text.empty()) {
    fields.fault(key, fmt::format("'{}' is not a version", text), "for instance 0.12");
  }
  return version.value_or(Version{});
}

// Takes "unlearned" out of every object, and its members in where they are asked for. Depth is
// bounded by the parser.
void settle(Json& json, Learned learned) {
  for (Json& item : json.items) settle(item, learned);
  for (JsonMember& member : json.members) settle(member.value, learned);
  const Json* found = json.find("unlearned");
  if (found == nullptr || !found->is_object()) return;
  const std::vector<JsonMember> instead = found->members;
  std::erase_if(json.members, [](const JsonMember& member) { return member.key == "unlearned"; });
  if (learned == Learned::Taken) return;
  for (const JsonMember& member : instead) {
    std::erase_if(json.members, [&](const JsonMember& old) { return old.key == member.key; });
    json.add(member.key, member.value);
  }
}

class Builder {
 public:
  Builder(std::span<const TrainerFile> files, Learned learned) {
    if (files.size() > kMostFiles) {
      faults_.push_back({"", fmt::format("more than {} trainer files", kMostFiles), ""});
      return;
    }
    for (const TrainerFile& file : files) {
      auto json = parse_json(file.text, file.origin);
      if (json) settle(*json, learned);
      if (!json) {
        add(std::move(json).error().diagnostics);
      } else if (stem_of(file.origin) == kRulesFile) {
        JsonFields fields(*json, file.origin, "", faults_);
        shared_ = read_rules(fields, faults_);
        fields.finish();
        shared_origin_ = file.origin;
      } else {
        drafts_.push_back({file.origin, stem_of(file.origin), *std::move(json)});
      }
    }
  }

  Result<std::vector<Trainer>> build(std::string_view called = {}) && {
    for (Draft& draft : drafts_) read_head(draft);
    check_shared_names();
    check_ranges();
    std::vector<Trainer> trainers;
    for (Draft* draft : wanted(lower_case(called))) {
      build(*draft);
      trainers.push_back(draft->trainer);
    }
    if (!faults_.empty()) return fail(std::move(faults_));
    std::stable_sort(trainers.begin(), trainers.end(), before<Trainer>);
    for (Trainer& trainer : trainers) add_rules(trainer);
    return trainers;
  }

 private:
  void add(Diagnostics diagnostics) {
    faults_.insert(faults_.end(), diagnostics.begin(), diagnostics.end());
  }

  std::vector<Draft*> wanted(const std::string& called) {
    std::vector<Draft*> found;
    std::vector<Draft*> all;
    for (Draft& draft : drafts_) {
      all.push_back(&draft);
      if (!called.empty() && goes_by(draft.head.name, draft.head.aliases, called)) {
        found.push_back(&draft);
      }
    }
    return found.empty() ? all : found;
  }

  // Depth is bounded because a file whose head is being read is never entered again.
  void read_head(Draft& draft) {
    if (draft.head_state != Draft::State::Fresh) return;
    draft.head_state = Draft::State::Reading;
    JsonFields fields(draft.json, draft.origin, "", faults_);
    if (draft.json.is_object()) {
      const auto base = fields.optional_string("based_on");
      if (base) lay_on_base(draft, fields, *base);
      read_head(fields, draft.head, base.has_value());
    }
    draft.head_state = Draft::State::Done;
  }

  void lay_on_base(Draft& draft, JsonFields& fields, const std::string& base) {
    const auto found = std::find_if(drafts_.begin(), drafts_.end(),
                                    [&](const Draft& other) { return other.stem == base; });
    if (found == drafts_.end()) {
      std::vector<std::string> stems;
      for (const Draft& other : drafts_) stems.push_back(other.stem);
      fields.fault("based_on", fmt::format("no file '{}.json' beside this one", base),
                   did_you_mean(base, stems, "name a file of the same folder"));
      return;
    }
    if (found->head_state == Draft::State::Reading) {
      fields.fault("based_on", "the file builds on itself", "break the circle");
      return;
    }
    read_head(*found);
    draft.base = &*found;
    draft.head = found->head;
  }

  void read_head(JsonFields& fields, Head& head, bool has_base) {
    const auto text = [&](std::string_view key, std::string& value) {
      if (!has_base) value = fields.string(key);
      if (has_base) value = fields.optional_string(key).value_or(value);
    };
    text("name", head.name);
    text("title", head.title);
    if (fields.raw("name") != nullptr) head.stack = head.name;
    head.stack = fields.optional_string("stack").value_or(head.stack);
    // Titles stand in the texts of rules, where braces hold variables.
    if (head.title.find_first_of("{}") != std::string::npos) {
      fields.fault("title", "a title has no braces");
    }
    if (fields.raw("aliases") != nullptr) head.aliases = fields.optional_strings("aliases");
    const Json* versions = fields.object("versions");
    if (versions == nullptr) return;
    JsonFields range(*versions, fields.origin(), fields.path("versions"), faults_);
    head.from = needed_version(range, "from");
    head.to = needed_version(range, "to");
    range.finish();
    if (head.to < head.from) fields.fault("versions", "the range ends before it begins");
  }

  void build(Draft& draft) {
    if (draft.built || !draft.json.is_object()) return;
    draft.built = true;
    Trainer& trainer = draft.trainer;
    if (draft.base != nullptr) {
      build(*draft.base);
      trainer = draft.base->trainer;
    }
    const auto& [name, title, stack, aliases, from, to] = draft.head;
    trainer.name = name;
    trainer.title = title;
    trainer.stack = stack;
    trainer.aliases = aliases;
    trainer.from = from;
    trainer.to = trainer.version = to;
    JsonFields fields(draft.json, draft.origin, "", faults_);
    // "version" is written by to_json and decided by who asks.
    for (const std::string_view key : kHeadKeys) fields.ignore(key);
    read_elsewhere(fields, trainer);
    trainer.unlisted = fields.optional_bool("unlisted").value_or(false);
    read_facts(fields, trainer, faults_);
    for (auto& entry : read_rules(fields, faults_)) {
      put_rule(trainer.rules, std::move(entry.rule));
    }
    drop_rules(fields, trainer);
    fields.finish();
    check_complete(fields, trainer);
  }

  // Not handed on to the files that build on this one: it is the same for all.
  static void read_elsewhere(JsonFields& fields, Trainer& trainer) {
    trainer.elsewhere.clear();
    const Json* object = fields.raw("elsewhere");
    if (object == nullptr) return;
    if (!object->is_object()) fields.fault("elsewhere", "needs sentences under names");
    for (const auto& [names, what] : object->members) {
      if (!what.is_string()) fields.fault("elsewhere", fmt::format("{} needs a sentence", names));
      trainer.elsewhere.emplace_back(names, what.string);
    }
  }

  void drop_rules(JsonFields& fields, Trainer& trainer) {
    for (const std::string& id : fields.optional_strings("without_rules")) {
      const auto dropped = std::erase_if(trainer.rules, [&](const Rule& r) { return r.id == id; });
      if (dropped > 0) continue;
      std::vector<std::string> ids;
      for (const Rule& rule : trainer.rules) ids.push_back(rule.id);
      fields.fault("without_rules", fmt::format("no rule '{}' to drop", id), did_you_mean(id, ids));
    }
  }

  void check_complete(JsonFields& fields, const Trainer& trainer) {
    const auto needs = [&](bool present, std::string_view what) {
      if (!present) fields.fault("", fmt::format("the trainer has no {}", what), "add it");
    };
    needs(!trainer.rank_order.empty(), "rank_order");
    needs(!trainer.precisions.empty(), "precisions");
    needs(!trainer.optimizers.empty(), "optimizers");
    needs(!trainer.losses.empty(), "losses");
    needs(!trainer.schedules.empty(), "schedules");
    needs(!trainer.shardings.empty(), "shardings");
    needs(!trainer.recomputes.empty(), "recomputes");
    needs(!trainer.pipeline.source.empty(), "pipeline");
    needs(!trainer.allocator.source.empty(), "allocator");
  }

  // Two files of one trainer must not claim the same version.
  void check_ranges() {
    std::vector<Head> heads;
    for (const Draft& draft : drafts_) heads.push_back(draft.head);
    std::stable_sort(heads.begin(), heads.end(), before<Head>);
    for (std::size_t i = 1; i < heads.size(); ++i) {
      const Head& earlier = heads[i - 1];
      const Head& later = heads[i];
      if (earlier.name != later.name || earlier.to < later.from) continue;
      faults_.push_back({earlier.name,
                         fmt::format("two files hold for version {}", to_text(later.from)),
                         "let the version ranges follow each other"});
    }
  }

  void check_shared_names() {
    std::vector<std::string> names;
    for (const Draft& draft : drafts_) names.push_back(draft.head.name);
    for (const RuleEntry& entry : shared_) {
      for (const std::string& name : entry.trainers) {
        if (std::find(names.begin(), names.end(), name) != names.end()) continue;
        faults_.push_back(
            {shared_origin_,
             fmt::format("rule '{}' is for an unknown trainer '{}'", entry.rule.id, name),
             did_you_mean(name, names)});
      }
    }
  }

  // First what holds for many trainers, then the file's own.
  void add_rules(Trainer& trainer) const {
    std::vector<Rule> rules;
    for (const auto& [rule, names] : shared_) {
      if (names.empty() || std::find(names.begin(), names.end(), trainer.stack) != names.end()) {
        put_rule(rules, rule);
      }
    }
    for (Rule& rule : trainer.rules) put_rule(rules, std::move(rule));
    trainer.rules = std::move(rules);
  }

  std::vector<Draft> drafts_;
  std::vector<RuleEntry> shared_;
  std::string shared_origin_;
  Diagnostics faults_;
};

Result<std::vector<TrainerFile>> files_in(const std::string& data_dir) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(data_dir) / "trainers";
  std::error_code fault;
  std::vector<std::string> paths;
  for (fs::directory_iterator at(folder, fault), end; !fault && at != end; at.increment(fault)) {
    if (at->path().extension() == ".json") paths.push_back(at->path().string());
  }
  if (fault || paths.empty()) {
    return fail(folder.string(), "no trainer files here", "point --data at the data folder");
  }
  std::sort(paths.begin(), paths.end());
  std::vector<TrainerFile> files;
  for (const std::string& path : paths) files.push_back({path, TW_TRY(read_file(path))});
  return files;
}

}  // namespace

Result<std::vector<Trainer>> read_trainers(std::span<const TrainerFile> files, Learned learned) {
  return Builder(files, learned).build();
}

Result<std::vector<Trainer>> read_trainers_called(std::string_view name,
                                                  std::span<const TrainerFile> files) {
  return Builder(files, Learned::Taken).build(name);
}

Result<std::vector<Trainer>> load_trainers(const std::string& data_dir, Learned learned) {
  return read_trainers(TW_TRY(files_in(data_dir)), learned);
}

Result<std::vector<Trainer>> load_trainers_called(std::string_view name,
                                                  const std::string& data_dir) {
  return read_trainers_called(name, TW_TRY(files_in(data_dir)));
}

}  // namespace trainwright
