#pragma once
// What becomes of each key of a program's files: data/imports. Part of the public face; include
// trainwright/export/export.h.
//
// A program is told by keys or by the command that starts it (programs.json, first match first).
// Of one that is read, <program>.json has every key that its package knows, and of each what an
// answer makes of it.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/export/export.h"

namespace trainwright {

enum class KeyClass {
  Counted,     // read, and part of the answer
  NoEffect,    // neither on memory nor on time
  NotCounted,  // an effect that the answer leaves out
  Refused,     // the answer would be of another run
};
struct KeyRule {
  KeyClass kind = KeyClass::NoEffect;
  std::string reason = {};  // may be empty
  bool unless_job = false;  // refused unless --job says what is trained, and how
};
// By value, "*" being all others. Without "*" a value that is not there is a fault.
using KeyRules = std::map<std::string, KeyRule, std::less<>>;
struct ImportKeys {
  std::string program, version;  // "axolotl", "0.21.0"
  std::map<std::string, KeyRules, std::less<>> rules;
  // Ours for their names of optimizers (optimizers.json), or "refused", and why.
  // Empty where optimizers are no names of one list.
  std::map<std::string, std::pair<std::string, std::string>, std::less<>> optimizers;
};
Result<ImportKeys> read_import_keys(const std::string& data, std::string_view program);
// Nothing where there is no such file.
Result<std::optional<ImportKeys>> find_import_keys(const std::string& data,
                                                   std::string_view program);

struct ImportProgram {
  std::string name, title;            // "llama-factory", "LLaMA-Factory"
  std::vector<std::string> signs;     // keys that no other program has
  std::vector<std::string> commands;  // "swift sft"
  std::string refused = {};           // why its files are not read; empty if they are
};
struct ImportPrograms {
  std::vector<ImportProgram> programs;  // in the order in which they are looked for
  // Parts of a script's name that say another run than supervised fine-tuning, and why: "dpo".
  std::map<std::string, std::string, std::less<>> methods;
};
Result<ImportPrograms> read_import_programs(const std::string& data);

// Whose settings they are; nullptr if nobody's. `command` are a script's words as of
// `started_program`.
const ImportProgram* program_of(const std::vector<Setting>& settings,
                                const std::vector<std::string>& command,
                                const ImportPrograms& known);
// Why a run of that command is no supervised fine-tuning: "dpo.py: ..."; mostly empty.
std::string other_method(const std::vector<std::string>& command, const ImportPrograms& known);
// The words of the command that a script starts, up to the program's first option.
std::vector<std::string> started_program(std::string_view text, SettingsForm form);

struct ClassedKeys {
  std::vector<Setting> counted;    // what remains to be read; optimizers by our names
  std::vector<std::string> notes;  // what is not counted, for people to read before the figures
  std::int64_t without_effect = 0;
  Diagnostics faults;  // what is refused, and values that are none
};
// `job`: one was asked for beside the file.
ClassedKeys class_keys(const std::vector<Setting>& settings, const ImportKeys& keys,
                       std::string_view file, bool job);

// A key as the program has it: "per_device_train_batch_size" of an option, too.
std::string plain_key(std::string_view theirs);

}  // namespace trainwright
