#include "trainwright/cli/tune.h"

#include <doctest/doctest.h>

#include "trainwright/base/text.h"

namespace trainwright::cli {
namespace {

TEST_CASE("a trial under way is three lines within the width: progress, the best, its log") {
  TrialRecord first;
  first.id = 1;
  first.layout = "tp=8,pp=1,dp=1,sp,mbs=1,gbs=128,seq=8192";
  first.state = TrialState::Ended;
  first.step = Seconds(9.5);
  first.took = Seconds(300);
  TrialRecord second;
  second.id = 2;
  second.state = TrialState::Started;
  second.predicted = Seconds(6);
  const TuneTerms terms{.start_up = Seconds(120), .steps = 20, .most_trials = 5};
  const TrialUnderWay now{second, Seconds(61.7), "step 12  loss 3.2"};
  // 120 s + 20 steps of 6 s
  CHECK(under_way_text(now, {first, second}, terms, 100) ==
        "trial 2 of at most 5: 61 s, about 4 min expected; 5 min spent before\n"
        "  best: trial 1, 9.5 s a step: tp=8,pp=1,dp=1,sp,mbs=1,gbs=128,seq=8192\n"
        "  log: step 12  loss 3.2");
  const std::string narrow = under_way_text({second, Seconds(0), ""}, {second}, terms, 40);
  CHECK(narrow.find("best: none yet") != std::string::npos);
  CHECK(narrow.find("log: nothing yet") != std::string::npos);
  for (const std::string_view line : split(narrow, '\n')) CHECK(line.size() < 40);
}

}  // namespace
}  // namespace trainwright::cli
