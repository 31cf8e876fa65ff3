// Logs, tables, schedules, traces, snapshots, layouts and what else is read line by line or at
// once.
#include "shapes.h"
#include "trainwright/base/text.h"
#include "trainwright/layout/layout.h"
#include "trainwright/logs/logs.h"
#include "trainwright/measured/run.h"
#include "trainwright/replay/replay.h"
#include "trainwright/schedule/schedule.h"
#include "trainwright/trainer/trainer.h"
#include "trainwright/tune/slurm.h"
#include "trainwright/tune/tune.h"
#include "trainwright/work/expert_load.h"

namespace trainwright::growth {
namespace {

bool log(const std::string& text) { return read_log(text, "x").has_value(); }
bool ending(const std::string& text) {
  const Reading reading{.size = {.ranks = 8, .sequences = 64, .tokens = 64 * 4096},
                        .pattern = "time: ([0-9.]+)"};
  return ending_of(text, CommandEnd{}, reading).end == TrialEnd::Ok;
}
bool scontrol(const std::string& text) { return detail::job_state(text).has_value(); }
bool table(const std::string& text) { return parse_measured_runs(text, "x").has_value(); }
bool schedule(const std::string& text) { return read_schedule_csv(text, "x").has_value(); }
bool trace(const std::string& text) { return parse_trace(text, "x").has_value(); }
bool snapshot(const std::string& text) { return replay_snapshot(text, "x").has_value(); }
bool load(const std::string& text) { return read_expert_load(text, "x").has_value(); }
bool layout(const std::string& text) { return parse_layout(text).has_value(); }
bool job(const std::string& text) { return parse_job(text).has_value(); }
bool expression(const std::string& text) { return parse_expression(text, "x").has_value(); }
bool quantity(const std::string& text) {
  return parse_bytes(text).has_value() || parse_seconds(text).has_value() ||
         parse_number(text).has_value() || parse_version(text).has_value() ||
         parse_allocator_settings(text).has_value();
}

std::vector<Shape> of_logs() {
  return {
      {"Megatron-LM", "",
       " iteration @/ 9 | elapsed time per iteration (ms): 5.1 | global batch size: 8 |\n"},
      {"torchtitan", "", "[rank@]: step: 2  loss:  1  memory: 9.66GiB(5%)  tps: 5,856\n"},
      {"DeepSpeed", "", "/global_step=@, CurrSamplesPerSec=8.0, MaxMemAllocated=3.3GB\n"},
      {"nanotron", "", "iteration: @ / 9 | time_per_iteration_ms: 1K | tokens_per_sec: 2K\n"},
      {"bars", "", "%|#| @/100000000 [1:52:09<1, 3.33s/it]\r"},
      {"ranks and their memory", "", "[Rank @] memory (MB) | max allocated: 1\n"},
      {"ranks from the last", "", "[Rank 9999999@] memory (MB) | max allocated: 1.@\n"},
      {"out of memory", "", "MemoryError\n"},
      {"out of memory on a device", "",
       "out of memory. Tried to allocate 2 GiB (GPU 0; 6 GiB total capacity; 1 GiB free)\n"},
      {"figures that are none", "", "iteration: 1 time_per_iteration_ms: x\n"},
      {"one line", "", "a"},
      {"one line of keys", "", "iteration 1/ elapsed time per iteration (ms):"},
      {"digits", "step: ", "1"},
      {"commas of a number", "step: ", "1,"},
      {"line breaks", "", "\n"},
      {"bars that are drawn over", "", "\r"},
      {"colours", "", "\x1b[0m"},
      {"an open colour", "\x1b[", "0"},
      {"semicolons", "out of memory. Tried to allocate 2 GiB (GPU 0", "; ", " free"},
      {"refusals", "", "ValueError: x\n"},
      {"times", "", "time: 1.5\n"},
      {"times in one line", "", "time: "},
  };
}

std::vector<Shape> of_tables() {
  const std::string own = "model,on,layout,measured,outcome\n";
  return {{"rows", own, "m@,8xH100,tp=8,1 GiB,ok\n"},
          {"short rows", own, "a,b,c,1GiB,\n"},
          {"broken rows", own, "a\n"},
          {"cells", "model", ",a@"},
          {"rows of cells", own, "a,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,\n"},
          {"quotes", own, "\""},
          {"quoted cells", own, "\"a\"\"b\",b,c,1GiB,ok\n"},
          {"an open quote", own + "\"", "a,\n"},
          {"line breaks", own, "\n"},
          {"comments", "", "# a\n", own},
          {"one cell", own, "a"}};
}

std::vector<Shape> of_traces() {
  const std::string head = R"({"trainwright_trace": 1, "frees": "last_use"})"
                           "\n";
  return {{"texts", head, "\"a@\"\n"},
          {"one text", head + '"', "a", "\"\n"},
          {"ops", head, "[0,-1,0,-1,0,0,0]\n"},
          {"storages", head, "[4,@,1,0]\n"},
          {"uses", head + "[4,0,1,0]\n[8,0", ",0", "]\n"},
          {"marks", head, "[5,-1]\n"},
          {"unknown events", head, "[99]\n"},
          {"lists of lists", head, "["},
          {"one number", head + "[", "1"},
          {"a long header", R"({"trainwright_trace": 1, "program": ")", "a", "\"}\n"},
          {"line breaks", head, "\n"}};
}

std::vector<Shape> of_snapshots() {
  const std::string head = R"({"trainwright_snapshot": 1})"
                           "\n";
  return {{"allocations", head, "[0,@,512,0]\n"},
          {"large ones", head, "[0,@,2000000000,0]\n"},
          {"and frees", head, "[0,1,512,0]\n[2,1,512,0]\n"},
          {"segments", head, "[3,@,2097152,0]\n"},
          {"streams", head, "[0,@,512,7]\n"},
          {"sizes", head, "[0,@,@,0]\n"}};
}

std::vector<Shape> of_entries() {
  return {{"entries", "", "k@=1,"},
          {"keys without a value", "", "a,"},
          {"equals signs", "tp", "="},
          {"commas", "", ","},
          {"stages", "pp=4,layers=", "1/", "1"},
          {"stages of one kind", "pp=4,layers=", "1*9/", "1"},
          {"recompute by stage", "pp=4,recompute=", "full/", "full"},
          {"switches", "on=", "a+", "a"},
          {"axes", "order=", "tp-", "dp"},
          {"one number", "tp=", "1"},
          {"one key", "", "a"}};
}

}  // namespace

std::vector<Reader> line_readers() {
  return {
      {.name = "log", .read = log, .shapes = of_logs()},
      {.name = "ending of a trial", .read = ending, .shapes = of_logs()},
      {.name = "scontrol",
       .read = scontrol,
       .shapes = {{"fields", "JobName=a JobState=b", " K@=1"},
                  {"names", "", "JobName="},
                  {"codes", "JobName=a JobState=b ExitCode=", ":"},
                  {"a run time", "JobName=a JobState=b RunTime=", "1:"},
                  {"one field", "JobState=b JobName=", "a"}}},
      {.name = "measured table", .read = table, .shapes = of_tables()},
      {.name = "schedule",
       .read = schedule,
       .shapes = {{"actions", "0F0", ",0F@"},
                  {"bubbles", "0F0", ","},
                  {"groups", "0F0", ",(0F@;0B@)OVERLAP_F_B"},
                  {"one group", "(0F0", ";0B@", ")OVERLAP_F_B"},
                  {"rows", "", "@F0\n"},
                  {"empty rows", "", "\n"},
                  {"faults", "0F0", ",x"},
                  {"one number", "", "1"}}},
      {.name = "trace", .read = trace, .shapes = of_traces()},
      {.name = "snapshot", .read = snapshot, .shapes = of_snapshots()},
      {.name = "expert load",
       .read = load,
       .shapes = {{"numbers", "", "1 "},
                  {"lines", "", "1 2 3 4 5 6 7 8\n"},
                  {"line breaks", "1\n", "\n"},
                  {"commas", "1", ","},
                  {"comments", "1 #", "#"},
                  {"faults", "", "x\n"}}},
      {.name = "layout", .read = layout, .most = std::size_t{1} << 20, .shapes = of_entries()},
      {.name = "job", .read = job, .most = std::size_t{1} << 20, .shapes = of_entries()},
      {.name = "expression",
       .read = expression,
       .shapes = {{"brackets", "", "("}, {"not", "", "not "}, {"signs", "1", "+1"}}},
      {.name = "quantity",
       .read = quantity,
       .shapes = {{"digits", "", "1"},
                  {"points", "1", ".1"},
                  {"letters", "1", "G"},
                  {"settings of the allocator", "", "a@:1,"},
                  {"brackets", "roundup_power2_divisions:[", "1:2,", "1]"}}},
  };
}

}  // namespace trainwright::growth
