// Answers many command lines in one process, for tests that ask thousands: every line of standard
// input is an array of words, every line of standard output what the program would have done with
// them, [exit code, output, error].
//
//   answers DATA < questions
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/cli/command_line.h"

using namespace trainwright;

int main(int count, char** words) {
  if (count != 2) return 2;
  const DataDirectory data(words[1]);
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto question = parse_json(line, "question");
    if (!question || !question->is_array()) return 2;
    std::vector<std::string> typed;
    for (const Json& word : question->items) typed.push_back(word.string);
    const cli::Reply reply = cli::run_command_line(typed, {.data = data});
    const Json answer = Json::array()
                            .push(Json::of(static_cast<int>(reply.exit)))
                            .push(Json::of(reply.output))
                            .push(Json::of(reply.error));
    std::puts(to_line(answer).c_str());
  }
  return 0;
}
