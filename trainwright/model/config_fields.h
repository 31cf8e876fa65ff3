#pragma once
// Private: reads the fields of a config.json the way the Hugging Face classes do.
//
// Three cases are kept apart that JsonFields joins: a field may be absent (the class default
// holds), null (None, which often means "derive it"), or set. A field may have several names (an
// attribute map) and may be nested. All faults are gathered; what nobody asked for is reported.
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/model/family.h"

namespace trainwright::detail {

class ConfigFields {
 public:
  ConfigFields(const Json& config, std::string origin, std::string path, Diagnostics& diagnostics);

  // nullopt: None, by default or because it says null, or a fault was reported. Where the config
  // has a list, the element of the layer that is read.
  std::optional<std::int64_t> integer(const IntegerField& field, IntegerRange range);
  // What formulas call `name`.
  void remember(std::string_view name, std::int64_t value);
  void begin_layer(std::int64_t layer) { layer_ = static_cast<std::size_t>(layer); }
  bool has_read_list() const { return has_read_list_; }  // so that layers differ by more than words
  bool holds(const Condition& condition);
  // None counts as false, as Python would.
  bool boolean(const BoolField& field);
  std::string string(const StringField& field);
  // Null: 0.
  double probability(const ProbabilityField& field);
  // Absent and null: false.
  bool is_number(std::string_view names);
  bool is_set(std::string_view names);  // neither absent nor null
  // A number n, or a list of 0 and 1 for the layers, as JSON has lists or as a pattern in a string.
  struct Frequency {
    std::int64_t number = 0;  // 0: the list
    std::vector<std::int64_t> listed;
  };
  std::optional<Frequency> frequency(std::string_view name, std::int64_t layers);
  bool is_list(std::string_view names);
  // nullopt when absent or null.
  std::optional<std::vector<std::int64_t>> integers(std::string_view name, std::size_t most);
  // Two at most, as a list or as Megatron-LM's command line has them: "127,0".
  std::optional<std::vector<std::int64_t>> pair(std::string_view name);
  // Whole numbers as their digits.
  std::optional<std::vector<std::string>> words(std::string_view name, std::size_t most);

  // Compares with what the class assumes: adds a fault, or returns a note.
  std::optional<std::string> assumption(const AssumedField& field);

  void ignore(std::string_view names);
  void fault(std::string_view names, std::string what, std::string hint = {});
  // The same, unless a fault of this field was reported before.
  void fault_unless_reported(std::string_view names, std::string what);
  // Faults for every member that nobody asked about. Null members say nothing and are let pass.
  void finish(const Family& family, const std::string& data_directory);

 private:
  // The value under any of the names: nullptr when absent. Two names with different values are a
  // fault.
  const Json* find(std::string_view names);
  const Json* find_one(std::string_view name);
  const Json* find_of_layer(std::string_view names);
  std::string place(std::string_view name, const Json& at) const;
  // Where a field is, or would be.
  struct Spot {
    const Json* at;
    std::string where;
  };
  Spot spot_of(std::string_view names);
  // Adds a fault, keeping them in the order of their lines.
  void report(const Json& at, Diagnostic diagnostic);
  void finish_object(const Json& object, const std::string& prefix, const Family& family);
  void unknown(const std::string& name, const Json& value, const Family& family);
  std::optional<std::int64_t> derived(const IntegerField& field, IntegerRange range);

  const Json& config_;
  std::string origin_;
  std::string path_;
  Diagnostics& diagnostics_;  // empty at first
  std::vector<int> lines_;    // of the diagnostics
  std::size_t unknown_ = 0;
  std::optional<std::size_t> layer_;  // that is read; none: the model itself
  bool has_read_list_ = false;
  std::vector<std::pair<std::string, std::int64_t>> remembered_;
  std::string data_directory_;
  std::vector<Family> families_;  // read when a field is not known
  std::set<std::string, std::less<>> known_;
  std::set<std::string, std::less<>> containers_;  // objects of which single fields are read
};

}  // namespace trainwright::detail
