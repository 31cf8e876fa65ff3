#include "trainwright/export/form.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "trainwright/base/printable.h"
#include "trainwright/base/text.h"
#include "trainwright/export/pattern.h"

namespace trainwright::detail {

std::string comment_behind(const Setting& setting) {
  return setting.why.empty() ? "" : "  # " + printable_line(setting.why);
}

std::string quoted(std::string_view text) { return to_line(Json::of(text)); }

Json value_of(const std::string& value) {
  if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
    return Json::of(std::string_view(value).substr(1, value.size() - 2));
  }
  if (const auto items = list_items(value)) {
    Json list = Json::array();
    for (const std::string& item : *items) list.push(value_of(item));
    return list;
  }
  const std::string lower = lower_case(value);
  if (lower == "true" || lower == "false") return Json::of(lower == "true");
  if (const auto whole = parse_integer(value)) return Json::of(*whole);
  if (const auto number = parse_number(value)) return Json::of(*number);
  return Json::of(value);
}

namespace {

std::string value_text(const Setting& setting) {
  return setting.values.empty() ? "true" : setting.values.front();
}

// "a,b" of [a,b]: how such a command line takes a list; lists of them are words.
std::string inner_text(const std::string& item) {
  const auto items = list_items(item);
  return items ? join(*items, ",") : item;
}

std::vector<std::string> dotted_words(const Setting& setting) {
  if (setting.key.find(':') != std::string::npos) return {setting.key};
  const std::string value = value_text(setting);
  if (value == "true") return {"--" + setting.key};
  if (value == "false") {
    std::string key = setting.key;
    return {"--" + key.insert(key.rfind('.') + 1, "no-")};
  }
  std::vector<std::string> words = {"--" + setting.key};
  const auto items = list_items(value);
  if (items && !items->empty() && items->front().starts_with('[')) {
    for (const std::string& item : *items) words.push_back(inner_text(item));
  } else {
    words.push_back(inner_text(value));
  }
  return words;
}

}  // namespace

bool is_of_module(const Setting& setting) { return setting.key.starts_with("trainwright_config."); }

bool is_of_script(const Setting& setting) {
  return setting.key.starts_with("PipelineModule.") ||
         setting.key.starts_with("TrainingArguments.") || is_of_module(setting);
}

std::vector<std::string> words_of(const Setting& setting, SettingsForm form) {
  if (form == SettingsForm::Overrides) return {setting.key + '=' + value_text(setting)};
  if (!setting.key.starts_with("--")) return dotted_words(setting);
  std::vector<std::string> words = {setting.key};
  words.insert(words.end(), setting.values.begin(), setting.values.end());
  return words;
}

std::string shell_array(std::string_view name, const std::vector<Setting>& settings,
                        SettingsForm form) {
  std::string text = fmt::format("{}=(\n", name);
  for (const Setting& setting : settings) {
    std::vector<std::string> words;
    for (const std::string& word : words_of(setting, form)) words.push_back(shell_word(word));
    text += "  " + join(words, " ");
    text += comment_behind(setting) + '\n';
  }
  return text + ")\n";
}

namespace {

// Settings as a tree of sections, in order of their first appearance.
struct Node {
  std::string key;
  const Setting* setting = nullptr;  // of a leaf
  std::vector<Node> children = {};
};

Node tree_of(const std::vector<Setting>& settings) {
  Node root;
  for (const Setting& setting : settings) {
    Node* at = &root;
    for (const std::string_view part : split(setting.key, '.')) {
      auto found = std::find_if(at->children.begin(), at->children.end(),
                                [&](const Node& child) { return child.key == part; });
      if (found == at->children.end()) {
        at->children.push_back({std::string(part)});
        found = at->children.end() - 1;
      }
      at = &*found;
    }
    at->setting = &setting;
  }
  return root;
}

std::string toml_value(const Json& json) { return to_line(json); }

std::string toml_key(const std::string& key) {
  const bool bare = !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char c) {
    return (c < 0x80 && std::isalnum(c)) || c == '_' || c == '-';
  });
  return bare ? key : quoted(key);
}

void write_toml(const Node& node, const std::string& path, std::string& text) {
  for (const Node& child : node.children) {
    if (child.setting == nullptr) continue;
    text += fmt::format("{} = {}{}\n", toml_key(child.key),
                        toml_value(value_of(value_text(*child.setting))),
                        comment_behind(*child.setting));
  }
  for (const Node& child : node.children) {
    if (child.setting != nullptr) continue;
    const std::string inner = path.empty() ? toml_key(child.key) : path + '.' + toml_key(child.key);
    const bool leaves = std::any_of(child.children.begin(), child.children.end(),
                                    [](const Node& one) { return one.setting != nullptr; });
    if (leaves) text += fmt::format("\n[{}]\n", inner);
    write_toml(child, inner, text);
  }
}

std::string yaml_text(const std::string& text) {
  const bool plain = !text.empty() && std::isalpha(static_cast<unsigned char>(text.front())) &&
                     std::all_of(text.begin(), text.end(), [](unsigned char c) {
                       return std::isalnum(c) || c == '_' || c == '.' || c == '-' || c == '/';
                     });
  for (const char* word : {"yes", "no", "on", "off", "null", "true", "false", "y", "n"}) {
    if (lower_case(text) == word) return quoted(text);
  }
  return plain ? text : quoted(text);
}

std::string yaml_value(const Json& json) {
  if (json.is_string()) return yaml_text(json.string);
  if (!json.is_array()) return to_line(json);
  std::vector<std::string> items;
  for (const Json& item : json.items) items.push_back(yaml_value(item));
  return '[' + join(items, ", ") + ']';
}

void write_yaml(const Node& node, std::size_t depth, std::string& text) {
  for (const Node& child : node.children) {
    text += std::string(2 * depth, ' ') + yaml_text(child.key) + ':';
    if (child.setting != nullptr) {
      text +=
          ' ' + yaml_value(value_of(value_text(*child.setting))) + comment_behind(*child.setting);
    }
    text += '\n';
    write_yaml(child, depth + 1, text);
  }
}

Json json_of(const Node& node) {
  if (node.setting != nullptr) return value_of(value_text(*node.setting));
  Json object = Json::object();
  for (const Node& child : node.children) object.add(child.key, json_of(child));
  return object;
}

}  // namespace

std::string to_toml(const std::vector<Setting>& settings) {
  std::string text;
  write_toml(tree_of(settings), "", text);
  return text;
}

std::string to_yaml(const std::vector<Setting>& settings) {
  std::string text;
  write_yaml(tree_of(settings), 0, text);
  return text;
}

Json to_json_tree(const std::vector<Setting>& settings) { return json_of(tree_of(settings)); }

}  // namespace trainwright::detail

namespace trainwright {

std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_./:=,+@%").find(c) != std::string_view::npos;
  });
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

}  // namespace trainwright
