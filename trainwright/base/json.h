#pragma once
// JSON in and out, with places.
//
// `parse_json` reads JSON (comments // and /* */ allowed) into a plain value in which every node
// remembers its line, so that a reader can say "cluster.json:12 /node/nics". `JsonFields` reads one
// object field by field, gathers every fault instead of stopping at the first, and reports fields
// that nobody asked for, with the nearest known name. `to_text` writes JSON in the order in which
// the fields were added, every character that is not printable as \uXXXX.
//
// json.cc is the only file of the project that includes a JSON library.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/base/result.h"

namespace trainwright {

struct JsonMember;

struct Json {
  enum class Kind { Null, Bool, Integer, Number, String, Array, Object };

  Kind kind = Kind::Null;
  bool boolean = false;             // Bool
  std::int64_t integer = 0;         // Integer
  double number = 0;                // Number and Integer
  std::string string;               // String
  std::vector<Json> items;          // Array
  std::vector<JsonMember> members;  // Object, in order, keys unique
  int line = 0;                     // 1-based; 0 when not read from text

  static Json of(bool value);
  static Json of(std::int64_t value);
  static Json of(int value);
  static Json of(double value);  // not finite -> null, as JSON has no such numbers
  static Json of(std::string_view value);
  static Json of(const char* value);
  static Json array();
  static Json object();

  // Object: the member of that name, or nullptr.
  const Json* find(std::string_view key) const;
  // Object: adds a member and returns *this, so that objects can be written in one expression.
  Json& add(std::string key, Json value);
  // Array: appends and returns *this.
  Json& push(Json value);

  bool is_null() const { return kind == Kind::Null; }
  bool is_object() const { return kind == Kind::Object; }
  bool is_array() const { return kind == Kind::Array; }
  bool is_string() const { return kind == Kind::String; }
  bool is_integer() const { return kind == Kind::Integer; }
  bool is_number() const { return kind == Kind::Number || kind == Kind::Integer; }
  bool is_bool() const { return kind == Kind::Bool; }
};

struct JsonMember {
  std::string key;
  Json value;
};

std::string_view name_of(Json::Kind kind);  // "a string", "an object", ...

// Reads one JSON document, in time linear in its length. `origin` (a file name) begins every place
// in the diagnostics; a syntax fault is reported with line and column. Nesting deeper than 200,
// more than 1,048,576 values and repeated keys are faults.
Result<Json> parse_json(std::string_view text, std::string_view origin);

// Two-space indented, with a final newline. Arrays of plain values stay on one line.
std::string to_text(const Json& json);
// All of it on one line, without a line end.
std::string to_line(const Json& json);

// The whole content of a file. Diagnoses a missing file, a directory, anything unreadable and
// anything larger than kLargestFile bytes.
inline constexpr std::int64_t kLargestFile = std::int64_t{1} << 28;
Result<std::string> read_file(const std::string& path);
// Whether there is a file of that name, which may be any text.
bool is_file(const std::string& path);
Result<Json> read_json_file(const std::string& path);

// "llama.json:12 /text_config/rope": the file, the line and the path inside the document.
std::string json_place(std::string_view origin, const Json& at, std::string_view path);

// The whole numbers a field accepts, both ends included.
struct IntegerRange {
  std::int64_t least = INT64_MIN;
  std::int64_t most = INT64_MAX;
};

// So many unknown fields of an object are named and the others counted; after so many repeated ones
// a document is read no further.
inline constexpr std::size_t kMostUnknown = 20;

// Reads the fields of one object. Every call marks its field as known; a fault is added to
// `diagnostics` and the call answers nullopt. `finish` reports the fields nobody asked about.
//
//   JsonFields fields(json, "cluster.json", "", diagnostics);
//   auto nodes = fields.integer("nodes", {.least = 1});
//   fields.finish();
class JsonFields {
 public:
  JsonFields(const Json& object, std::string origin, std::string path, Diagnostics& diagnostics);

  // The raw member, or nullptr when absent or null; marks it as known.
  const Json* raw(std::string_view key);
  // Absent or null is no fault: nullopt.
  std::optional<std::int64_t> optional_integer(std::string_view key, IntegerRange range = {});
  std::optional<double> optional_number(std::string_view key);
  std::optional<bool> optional_bool(std::string_view key);
  // Strings are names and words: what is not printable in one is a fault (printable.h).
  std::optional<std::string> optional_string(std::string_view key);
  std::vector<std::string> optional_strings(std::string_view key);  // absent -> empty
  // Any text, such as a document inside a document.
  std::optional<std::string> optional_text(std::string_view key);
  // Absent is a fault. The returned value is only meaningful when no fault was reported.
  std::int64_t integer(std::string_view key, IntegerRange range = {});
  double number(std::string_view key);
  bool boolean(std::string_view key);
  std::string string(std::string_view key);
  const Json* object(std::string_view key);  // nullptr after a fault
  const Json* array(std::string_view key);   // nullptr after a fault

  // Adds a fault at a field (or at the object itself when the key is empty).
  void fault(std::string_view key, std::string what, std::string hint = {});
  // Where a field is, for diagnostics made elsewhere.
  std::string place(std::string_view key) const;
  // Where a field's value is read from, for a nested JsonFields.
  const std::string& origin() const { return origin_; }
  std::string path(std::string_view key) const;

  // Marks a field as known without reading it.
  void ignore(std::string_view key);
  // Reports every member that was neither read nor ignored.
  void finish();
  // The members neither read nor ignored, for readers that judge them themselves.
  std::vector<std::string> unknown() const;

 private:
  const Json* required(std::string_view key);
  bool is_printable(std::string_view key, std::string_view text);
  const Json* wanted(std::string_view key, bool matches(const Json&), std::string_view kind);

  const Json& object_;
  std::string origin_;
  std::string path_;
  Diagnostics& diagnostics_;
  std::vector<std::string> known_;
};

}  // namespace trainwright
