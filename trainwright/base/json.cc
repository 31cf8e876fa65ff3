#include "trainwright/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "trainwright/base/printable.h"
#include "trainwright/base/text.h"

namespace trainwright {

Json Json::of(bool value) {
  Json json;
  json.kind = Kind::Bool;
  json.boolean = value;
  return json;
}
Json Json::of(std::int64_t value) {
  Json json;
  json.kind = Kind::Integer;
  json.integer = value;
  json.number = static_cast<double>(value);
  return json;
}
Json Json::of(int value) { return of(std::int64_t{value}); }
Json Json::of(double value) {
  Json json;
  if (!std::isfinite(value)) return json;
  json.kind = Kind::Number;
  json.number = value;
  return json;
}
Json Json::of(std::string_view value) {
  Json json;
  json.kind = Kind::String;
  json.string = value;
  return json;
}
Json Json::of(const char* value) { return of(std::string_view(value)); }
Json Json::array() {
  Json json;
  json.kind = Kind::Array;
  return json;
}
Json Json::object() {
  Json json;
  json.kind = Kind::Object;
  return json;
}

const Json* Json::find(std::string_view key) const {
  for (const auto& [name, value] : members) {
    if (name == key) return &value;
  }
  return nullptr;
}

Json& Json::add(std::string key, Json value) {
  members.push_back({std::move(key), std::move(value)});
  return *this;
}

Json& Json::push(Json value) {
  items.push_back(std::move(value));
  return *this;
}

std::string_view name_of(Json::Kind kind) {
  switch (kind) {
    case Json::Kind::Null: return "null";
    case Json::Kind::Bool: return "true or false";
    case Json::Kind::Integer: return "a whole number";
    case Json::Kind::Number: return "a number";
    case Json::Kind::String: return "a string";
    case Json::Kind::Array: return "an array";
    case Json::Kind::Object: return "an object";
  }
  return "";
}

namespace {

constexpr std::size_t kDeepest = 200;
// A value takes about a hundred bytes in memory, in text as few as two.
constexpr std::int64_t kMostValues = std::int64_t{1} << 20;
// Looking through so many keys is quicker than hashing them.
constexpr std::size_t kFewKeys = 16;

// The line of the character read last. The parser reads one character past the end of a number, and
// that character, if it is a line break, still belongs to the number's line.
struct LineCount {
  int current = 1;
  int next = 1;
};

// Walks over the text and counts lines as the parser reads, so that each value knows its line.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, LineCount* line) : at_(at), line_(line) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    line_->current = line_->next;
    if (*at_ == '\n') ++line_->next;
    ++at_;
    return *this;
  }
  friend bool operator==(CountingIterator a, CountingIterator b) { return a.at_ == b.at_; }

 private:
  const char* at_;
  LineCount* line_;
};

// An object or array whose end is not read yet.
struct Open {
  Json json;
  std::string key;                       // of the member whose value comes next
  bool repeated = false;                 // that key: its value is dropped
  std::unordered_set<std::string> keys;  // of a long object, so that reading it is not quadratic

  // Takes the next key.
  void begin(std::string next) {
    if (json.members.size() < kFewKeys) {
      repeated = json.find(next) != nullptr;
    } else {
      if (keys.empty()) {
        for (const JsonMember& member : json.members) keys.insert(member.key);
      }
      repeated = !keys.insert(next).second;
    }
    key = std::move(next);
  }
};

// Builds the tree from the parser's events.
class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  TreeBuilder(std::string_view text, std::string_view origin, const LineCount* line)
      : text_(text), origin_(origin), line_(line) {}

  bool null() override { return place(Json{}); }
  bool boolean(bool value) override { return place(Json::of(value)); }
  bool number_integer(number_integer_t value) override {
    return place(Json::of(std::int64_t{value}));
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(INT64_MAX)) {
      return place(Json::of(static_cast<double>(value)));
    }
    return place(Json::of(static_cast<std::int64_t>(value)));
  }
  bool number_float(number_float_t value, const string_t&) override {
    return place(Json::of(value));
  }
  bool string(string_t& value) override { return place(Json::of(std::string_view(value))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool key(string_t& value) override {
    open_.back().begin(std::move(value));
    if (open_.back().repeated) {
      fault(fmt::format("the field '{}' appears twice", open_.back().key), "keep one of the two");
    }
    return faults_.size() < kMostUnknown;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& fault) override {
    faults_.push_back({line_and_column(position), reason(fault.what()),
                       "check for a missing comma, quote or bracket just before this place"});
    return false;
  }

  Result<Json> finish() && {
    if (!faults_.empty()) return fail(std::move(faults_));
    return std::move(root_);
  }

 private:
  // A plain value stands on the line just read; a container brings the line of its bracket.
  bool place(Json value) {
    if (++values_ > kMostValues) {
      fault(fmt::format("holds more than {} values", with_thousands(kMostValues)));
      return false;
    }
    if (value.line == 0) value.line = line_->current;
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (Open& in = open_.back(); in.json.is_array()) {
      in.json.push(std::move(value));
    } else if (!in.repeated) {
      in.json.add(std::move(in.key), std::move(value));
    }
    return true;
  }
  bool open(Json container) {
    if (open_.size() >= kDeepest) {
      fault(fmt::format("nested more than {} deep", kDeepest));
      return false;
    }
    container.line = line_->current;
    open_.emplace_back().json = std::move(container);
    return true;
  }
  bool close() {
    Json done = std::move(open_.back().json);
    open_.pop_back();
    return place(std::move(done));
  }
  void fault(std::string what, std::string hint = {}) {
    faults_.push_back(
        {fmt::format("{}:{}", origin_, line_->current), std::move(what), std::move(hint)});
  }

  std::string line_and_column(std::size_t position) const {
    const auto end = text_.substr(0, position == 0 ? 0 : position - 1);
    const auto line = std::count(end.begin(), end.end(), '\n') + 1;
    const auto last_break = end.rfind('\n');
    const auto column =
        last_break == std::string_view::npos ? end.size() + 1 : end.size() - last_break;
    return fmt::format("{}:{}:{}", origin_, line, column);
  }
  // The library's message without its own error number and place.
  static std::string reason(std::string_view what) {
    for (const std::string_view mark : {"syntax error while parsing ", ": "}) {
      const auto at = what.find(mark);
      if (at != std::string_view::npos)
        return "not JSON: " + std::string(what.substr(at + mark.size()));
    }
    return "not JSON";
  }

  std::string_view text_;
  std::string_view origin_;
  const LineCount* line_;
  Json root_;
  std::vector<Open> open_;
  std::int64_t values_ = 0;
  Diagnostics faults_;
};

constexpr std::string_view kEndless = "Infinity";

// Python writes a number without end as Infinity, which JSON does not have (config.json of Mamba-2
// models). It is read as null, as long as it was, so that places stay.
std::string without_endless(std::string_view text) {
  std::string plain(text);
  bool quoted = false;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (quoted && plain[i] == '\\')
      ++i;
    else if (plain[i] == '"')
      quoted = !quoted;
    else if (!quoted && text.substr(i, kEndless.size()) == kEndless) {
      if (i > 0 && plain[i - 1] == '-') plain[i - 1] = ' ';
      plain.replace(i, kEndless.size(), "null    ");
    }
  }
  return plain;
}

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view origin) {
  if (trim(text).empty()) return fail(std::string(origin), "the document is empty");
  std::string plain;
  if (text.find(kEndless) != std::string_view::npos) text = plain = without_endless(text);
  LineCount line;
  LineCount unused;
  TreeBuilder builder(text, origin, &line);
  nlohmann::json::sax_parse(CountingIterator(text.data(), &line),
                            CountingIterator(text.data() + text.size(), &unused), &builder,
                            nlohmann::json::input_format_t::json, /*strict=*/true,
                            /*ignore_comments=*/true);
  return std::move(builder).finish();
}

namespace {

void write_string(const std::string& text, std::string& out) {
  // The replacing handler keeps the output valid even when a name is not valid UTF-8. The library
  // escapes no more than JSON has to: U+007F and U+202E are left to `printable`, whose \u202e is
  // JSON's own.
  out += printable(
      nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

// A whole Number keeps a decimal point, so that it reads back as a Number.
void write_number(double number, std::string& out) {
  const std::string text = fmt::format("{}", number);
  out += text;
  if (text.find_first_of(".e") == std::string::npos) out += ".0";
}

bool is_plain(const Json& json) { return !json.is_array() && !json.is_object(); }

enum class Lines { Many, One };
void write(const Json& json, Lines lines, std::size_t indent, std::string& out) {
  switch (json.kind) {
    case Json::Kind::Null: out += "null"; return;
    case Json::Kind::Bool: out += json.boolean ? "true" : "false"; return;
    case Json::Kind::Integer: out += std::to_string(json.integer); return;
    case Json::Kind::Number: write_number(json.number, out); return;
    case Json::Kind::String: write_string(json.string, out); return;
    case Json::Kind::Array:
    case Json::Kind::Object: break;
  }
  const bool object = json.is_object();
  const std::size_t count = object ? json.members.size() : json.items.size();
  if (count == 0) {
    out += object ? "{}" : "[]";
    return;
  }
  const bool one_line = lines == Lines::One ||
                        (!object && std::all_of(json.items.begin(), json.items.end(), is_plain));
  const std::string inner = one_line ? "" : "\n" + std::string(indent + 2, ' ');
  out += object ? '{' : '[';
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) out += one_line ? ", " : ",";
    out += inner;
    if (object) {
      write_string(json.members[i].key, out);
      out += ": ";
    }
    write(object ? json.members[i].value : json.items[i], lines, indent + 2, out);
  }
  if (!one_line) out += "\n" + std::string(indent, ' ');
  out += object ? '}' : ']';
}

}  // namespace

std::string to_text(const Json& json) {
  std::string out;
  write(json, Lines::Many, 0, out);
  out += '\n';
  return out;
}

std::string to_line(const Json& json) {
  std::string out;
  write(json, Lines::One, 0, out);
  return out;
}

bool is_file(const std::string& path) {
  std::error_code fault;
  const auto status = std::filesystem::status(path, fault);
  return std::filesystem::exists(status) && !std::filesystem::is_directory(status);
}

Result<std::string> read_file(const std::string& path) {
  std::error_code fault;
  const auto status = std::filesystem::status(path, fault);
  if (!std::filesystem::exists(status)) return fail(path, "no such file");
  if (std::filesystem::is_directory(status)) return fail(path, "is a directory, not a file");
  std::ifstream stream(path, std::ios::binary);
  std::string content;
  // Most files are small: filling a larger piece took longer than reading them.
  std::string piece(std::size_t{1} << 13, '\0');
  while (stream.read(piece.data(), std::ssize(piece)) || stream.gcount() > 0) {
    content.append(piece, 0, static_cast<std::size_t>(stream.gcount()));
    // A device or an endless pipe never ends by itself.
    if (std::ssize(content) > kLargestFile) {
      return fail(path, fmt::format("is larger than {} MiB", kLargestFile >> 20));
    }
  }
  if (!stream.eof()) return fail(path, "cannot be read", "check its permissions");
  return content;
}

Result<Json> read_json_file(const std::string& path) {
  const std::string text = TW_TRY(read_file(path));
  return parse_json(text, path);
}

}  // namespace trainwright
