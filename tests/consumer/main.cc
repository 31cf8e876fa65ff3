// Asks one question through the command line's function and one through a module's.
#include <cstdio>
#include <string>
#include <vector>

#include "trainwright/cli/command_line.h"
#include "trainwright/model/model.h"

int main(int, char** words) {
  const trainwright::DataDirectory data(words[1]);
  const std::vector<std::string> question = {
      "estimate", "llama-2-7b", "--on", "8xH100", "--layout", "tp=2,zero=1,mbs=1,gbs=64,seq=4096"};
  const trainwright::cli::Reply reply =
      trainwright::cli::run_command_line(question, {.data = data});
  const auto zoo = trainwright::load_zoo(words[1]);
  if (!zoo || zoo->empty()) return 1;
  const auto parameters = trainwright::parameters(zoo->front().model).total();
  const bool answered = reply.output.find("a step") != std::string::npos && parameters.value() > 0;
  std::printf("%s", reply.output.c_str());
  return answered ? 0 : 1;
}
