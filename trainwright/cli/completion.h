#pragma once
// What may follow the words that somebody has begun to type: read off the commands themselves, so
// that the shells' scripts know nothing but how to ask.
#include <span>
#include <string>
#include <vector>

#include "trainwright/cli/command.h"

namespace trainwright::cli {

struct Candidate {
  std::string word;
  std::string what;  // one line; may be empty
};

// `typed` without the program's name; its last word is the one being typed, perhaps empty. Nothing
// where a path is wanted or anything goes.
std::vector<Candidate> next_words(std::span<const std::string> typed, const DataDirectory& data);

}  // namespace trainwright::cli
