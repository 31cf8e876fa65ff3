#pragma once
// A plan as the trainer's own files, for `export` and `plan --export`.
#include <optional>
#include <string>

#include "trainwright/cli/command.h"
#include "trainwright/export/export.h"
#include "trainwright/question/question.h"
#include "trainwright/tune/tune.h"

namespace trainwright::cli {

// Written into the folder, or printed where there is none. Not legal, or not to be said to the
// target (empty: the trainer's own): why, with exit code 1.
Result<Output> exported(const Invocation& invocation, const Words& words, const std::string& to,
                        const std::optional<std::string>& folder);

// The same of a question that was read; its words are for whoever asks again.
Result<Output> exported(const Invocation& invocation, const Question& setting, const Words& words,
                        const std::string& to, const std::optional<std::string>& folder);

Argument launch_argument();  // --launch

// What a target cannot be told: [{"what": ..., "why": ...}].
Json to_json(const std::vector<Unsayable>& refused);

// What a trial of the layout is started with: the same files, and the settings as words where the
// target takes words.
Result<TrialFiles> trial_files(const Invocation& invocation, const Words& words);

}  // namespace trainwright::cli
