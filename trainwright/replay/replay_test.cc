#include "trainwright/replay/replay.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "trainwright/replay/ops.h"

using namespace trainwright;
using namespace trainwright::literals;

namespace {

// Two layers: a parameter of 100 bytes each, activations of 40 and 60 bytes kept for backward, a
// gradient for each parameter.
//
//   op 0 makes 2 (40), op 1 makes 3 (60), op 2 backward of layer 1 makes 4 (100) and 5 (40),
//   then 3 dies and 4 becomes a gradient, op 3 makes 6 (100), then 2 and 5 die.
constexpr const char* kTwoLayers = R"({"trainwright_trace": 1, "program": "two layers"}
"a.weight"
"b.weight"
"a"
"b"
"mm"
"mm_backward"
"step 1"
[4,0,100,0,0,2]
[4,1,100,0,1,3]
[5,6]
[0,4,0,2,1,0,0,1,2,40,4,0,1000]
[0,4,0,3,2,1,2,0,1,3,60,4,0,1500]
[0,5,1,3,2,1,3,0,2,4,100,5,5,40,5]
[1,3]
[2,2,4]
[0,5,1,2,3,0,2,5,0,1,6,100,5]
[1,2,5]
[2,2,6]
)";

Trace two_layers() { return *parse_trace(kTwoLayers, "two"); }

std::vector<std::string> faults_of(const std::string& lines) {
  const auto trace = parse_trace("{\"trainwright_trace\": 1}\n" + lines, "t");
  std::vector<std::string> faults;
  if (trace) return faults;
  for (const Diagnostic& fault : trace.error().diagnostics) {
    faults.push_back(fault.where + " " + fault.what);
  }
  return faults;
}

}  // namespace

TEST_CASE("live bytes follow the events, and the first strict maximum is the peak") {
  const Replay replayed = replay(two_layers());
  CHECK(replayed.begin == 200_B);
  CHECK(replayed.live == std::vector<Bytes>{240_B, 300_B, 440_B, 480_B});
  CHECK(replayed.after == std::vector<Bytes>{240_B, 300_B, 380_B, 400_B});
  CHECK(replayed.peak == 480_B);
  CHECK(replayed.peak_op == OpId(3));
  CHECK(replayed.end == 400_B);
}

TEST_CASE("what is alive at the peak adds up by kind and by module") {
  const Trace trace = two_layers();
  const Replay replayed = replay(trace);
  const BytesByKind expected = {200_B, 0_B, 100_B, 0_B, 40_B, 140_B, 0_B, 0_B};
  CHECK(replayed.by_kind == expected);
  Bytes modules;
  for (const auto& [module, bytes] : replayed.by_module) modules += bytes;
  CHECK(modules == replayed.peak);
  // b: weight, gradient and 40 bytes of gradient of its input; a: weight, activation, new gradient.
  REQUIRE(replayed.by_module.size() == 2);
  CHECK(replayed.by_module[0].second == 240_B);
  CHECK(replayed.alive_count == 6);
}

TEST_CASE("a tensor alive at the peak knows who made it, used it last and uses it next") {
  // Cut the trace's end off so that the peak is op 2, where the activation of layer a waits.
  std::string text = kTwoLayers;
  text.replace(text.find("6,100,5]"), 8, "6,10,5]");
  const Replay replayed = replay(*parse_trace(text, "two"));
  CHECK(replayed.peak_op == OpId(2));
  const auto found = std::find_if(replayed.alive.begin(), replayed.alive.end(),
                                  [](const auto& alive) { return alive.storage == StorageId(2); });
  REQUIRE(found != replayed.alive.end());
  CHECK(found->made_by == OpId(0));
  CHECK(found->last_use == OpId(1));
  CHECK(found->waits_for == OpId(3));
  // Op 0 can make it again from the weight: 100 + 40 bytes of traffic, 1000 FLOPs. The peak of 440
  // falls by 40 to 400, as op 3 has 390.
  REQUIRE(replayed.recompute.size() == 1);
  CHECK(replayed.recompute[0].saved == 40_B);
  CHECK(replayed.recompute[0].ops == 1);
  CHECK(replayed.recompute[0].traffic == 140_B);
  CHECK(replayed.recompute[0].work->value() == 1000);
}

TEST_CASE("marks carry the live bytes and the peak up to the next mark") {
  const Replay replayed = replay(two_layers());
  REQUIRE(replayed.marks.size() == 1);
  CHECK(replayed.marks[0].live == 200_B);
  CHECK(replayed.marks[0].peak == 480_B);
}

TEST_CASE("rounding counts what a device with 512-byte blocks counts") {
  const Replay replayed = replay(two_layers(), {.rounding = 512_B});
  CHECK(replayed.peak == 6 * 512_B);
}

TEST_CASE("a resize changes the live bytes and can be the peak") {
  const Trace trace = *parse_trace(
      "{\"trainwright_trace\": 1}\n[4,0,100,0]\n[3,0,0]\n[0,-1,0,-1,0,0,1,1,50,4]\n[3,0,80]\n",
      "t");
  const Replay replayed = replay(trace);
  CHECK(replayed.live == std::vector<Bytes>{50_B});
  CHECK(replayed.peak == 130_B);
  CHECK(replayed.peak_op == OpId(0));
}

TEST_CASE("the reserved bytes are those of the allocator") {
  // Six storages of at most 512 bytes share one 2 MiB segment.
  const Replay replayed = replay(two_layers(), {.allocator = AllocatorSettings{}});
  REQUIRE(replayed.reserved);
  CHECK(replayed.reserved->stats.reserved_peak == 2_MiB);
  CHECK(replayed.reserved->stats.requested_peak == 480_B);
  CHECK(replayed.reserved->at_live_peak == 2_MiB);
  CHECK(replayed.reserved->after_op.size() == 4);
  CHECK_FALSE(replayed.reserved->out_of_memory);
}

TEST_CASE("the op that runs out of memory is named and the replay goes on") {
  const Trace trace = *parse_trace(
      "{\"trainwright_trace\": 1}\n[0,-1,0,-1,0,0,1,0,20971520,4]\n[0,-1,0,-1,0,0,1,1,20971520,4]\n"
      "[1,0,1]\n",
      "t");
  const Replay replayed = replay(trace, {.allocator = AllocatorSettings{.capacity = 30_MiB}});
  CHECK(replayed.reserved->out_of_memory == OpId(1));
  CHECK(replayed.reserved->message.starts_with("CUDA out of memory. Tried to allocate 20.00 MiB"));
  CHECK(replayed.peak == 40_MiB);
}

TEST_CASE("a static program's variables die after their last use") {
  // 0 -> op 0 -> 1 -> op 1 -> 2, which persists.
  const std::string text =
      "{\"trainwright_trace\": 1, \"frees\": \"last_use\"}\n[4,0,10,6]\n"
      "[0,-1,0,-1,1,0,0,1,1,20,4]\n[6,1,2,1]\n[0,-1,0,-1,1,1,0,1,2,20,4]\n[7,2]\n";
  const Trace program = *parse_trace(text, "t");
  const Replay separate = replay(resolve(program, Aliases::Ignore));
  CHECK(separate.live == std::vector<Bytes>{30_B, 40_B});
  CHECK(separate.after == std::vector<Bytes>{20_B, 20_B});
  const Replay in_place = replay(resolve(program));
  CHECK(in_place.live == std::vector<Bytes>{30_B, 20_B});
  CHECK(in_place.after == std::vector<Bytes>{20_B, 20_B});
}

TEST_CASE("an in-place output needs a storage of its own while the input is used later") {
  const std::string text =
      "{\"trainwright_trace\": 1, \"frees\": \"last_use\"}\n[4,0,20,6]\n"
      "[6,1,1,0]\n[0,-1,0,-1,1,0,0,1,1,20,4]\n[0,-1,0,-1,2,0,1,0,0]\n";
  const Replay replayed = replay(resolve(*parse_trace(text, "t")));
  CHECK(replayed.live == std::vector<Bytes>{40_B, 40_B});
  CHECK(replayed.end == 0_B);
}

TEST_CASE("a trace reads back from its text") {
  const std::string text = to_text(two_layers());
  CHECK(to_text(*parse_trace(text, "again")) == text);
}

TEST_CASE("a file is read like a text, whatever its line ends") {
  const auto path = std::filesystem::temp_directory_path() / "trainwright_replay_test.jsonl";
  std::string text = kTwoLayers;
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) {
    text.replace(at, 1, "\r\n");
  }
  std::ofstream(path, std::ios::binary) << text;
  const auto trace = read_trace(path.string());
  std::filesystem::remove(path);
  REQUIRE(trace);
  CHECK(to_text(*trace) == to_text(two_layers()));
  CHECK_FALSE(read_trace("/nonexistent/trace.jsonl"));
}

TEST_CASE("every fault of a trace is reported with its line") {
  const auto faults = faults_of(
      "[1,0]\n[4,1,5,0]\n[4,0,5,9]\n[0,3,0,-1,0,0,0]\n[0,-1,0,-1,7,0]\n"
      "{\"a\":1}\n[12]\n[3,0,1,2]\n[8,5000]\n");
  REQUIRE(faults.size() == 9);
  CHECK(faults[0] == "t:2 storage 0 does not exist yet");
  CHECK(faults[1] == "t:3 storage 1 is made out of order");
  CHECK(faults[2] == "t:4 unknown kind 9");
  CHECK(faults[3] == "t:5 string 3 is not known yet");
  CHECK(faults[5] == "t:7 expected an array of whole numbers or a string");
  CHECK(faults[8] == "t:10 stream 5000 is out of range");
}

TEST_CASE("a storage is freed once and not used afterwards") {
  const auto faults = faults_of("[4,0,5,0]\n[1,0]\n[1,0]\n[0,-1,0,-1,1,0,0,0]\n");
  REQUIRE(faults.size() == 2);
  CHECK(faults[0] == "t:4 storage 0 was freed before");
}

TEST_CASE("sizes cannot overflow") {
  std::string lines;
  for (int i = 0; i < 3000; ++i) lines += "[4," + std::to_string(i) + ",1125899906842624,0]\n";
  CHECK_FALSE(faults_of(lines).empty());
  CHECK(faults_of("[4,0,9223372036854775807,0]\n").size() == 1);
}

TEST_CASE("a header of another version or with a misspelt field is refused") {
  CHECK_FALSE(parse_trace("{\"trainwright_trace\": 2}\n", "t"));
  const auto misspelt = parse_trace("{\"trainwright_trace\": 1, \"roundng\": 512}\n", "t");
  REQUIRE_FALSE(misspelt);
  CHECK(misspelt.error().diagnostics[0].hint == "did you mean 'rounding'?");
  CHECK_FALSE(parse_trace("", "t"));
}

TEST_CASE("the difference names what grew and what shrank at the peak") {
  std::string text = kTwoLayers;
  text.replace(text.find("3,60,4"), 6, "3,90,4");
  text.replace(text.find("[1,3]\n"), 6, "");  // and it is never freed
  const ReplayDifference changed = difference(two_layers(), *parse_trace(text, "two"));
  CHECK(changed.peak.before == 480);
  CHECK(changed.peak.after == 570);
  REQUIRE(changed.kinds.size() == 1);
  CHECK(changed.kinds[0].what == "activation");
  CHECK(changed.kinds[0].after - changed.kinds[0].before == 90);
  REQUIRE(changed.modules.size() == 1);
  CHECK(changed.modules[0].what == "b");
  // Storage 3 is what the first op of module b makes; before, it was gone at the peak.
  REQUIRE(changed.tensors.size() == 1);
  CHECK(changed.tensors[0].what.starts_with("b: "));
  CHECK(changed.tensors[0].before == 0);
  CHECK(changed.tensors[0].after == 90);
  CHECK(changed.ops.empty());
}

TEST_CASE("a snapshot's segment events are those of the model") {
  const std::string text =
      "{\"trainwright_snapshot\": 1}\n[3,1000,20971520,0]\n[0,1000,2097152,0]\n"
      "[0,3098152,4194304,0]\n[1,1000,2097152,0]\n[2,1000,2097152,0]\n[0,1000,2097152,0]\n";
  const auto replayed = replay_snapshot(text, "s");
  REQUIRE(replayed);
  CHECK(replayed->mismatches == 0);
  CHECK(replayed->allocations == 3);
  CHECK(replayed->frees == 1);
  CHECK(replayed->reserved_peak_recorded == 20_MiB);
  CHECK(replayed->reserved_peak_modelled == 20_MiB);
}

TEST_CASE("a snapshot tells what was allocated at its peak, by kind, until a free is asked for") {
  // 100 of weights; 40 of activations; 30 of a kind not told. The peak: 170. Then 40 go, 60 come.
  const auto replayed = replay_snapshot(
      "{\"trainwright_snapshot\": 1}\n[0,1000,100,0,0]\n[0,2000,40,0,4]\n[0,3000,30,0]\n"
      "[1,2000,40,0]\n[0,4000,35,0,5]\n[2,2000,40,0]\n",
      "s");
  REQUIRE(replayed.has_value());
  CHECK(replayed->allocated_peak == Bytes(170));
  CHECK(replayed->by_kind == BytesByKind{Bytes(100), {}, {}, {}, Bytes(40), {}, {}, Bytes(30)});
  CHECK_FALSE(replay_snapshot("{\"trainwright_snapshot\": 1}\n[0,1,2,0,8]\n", "s"));
  CHECK_FALSE(replay_snapshot("{\"trainwright_snapshot\": 1}\n[2,1,2,0,4]\n", "s"));
}

TEST_CASE("a snapshot that took more than the model would is told from one that agrees") {
  const auto replayed = replay_snapshot(
      "{\"trainwright_snapshot\": 1}\n[3,1000,2097152,0]\n[0,1000,2097152,0]\n", "s");
  REQUIRE(replayed);
  CHECK(replayed->mismatches == 1);
  CHECK(replayed->first_mismatch ==
        "s:3: for 2 MiB the device gave 2 MiB but the model wants 20 MiB");
  CHECK_FALSE(replay_snapshot("{\"trainwright_snapshot\": 1}\n[0,1]\n", "s"));
  CHECK_FALSE(replay_snapshot("{\"trainwright_snapshot\": 1, \"settings\": \"x:1\"}\n", "s"));
}

namespace {

// kTwoLayers: before 200, 240, 300 and 380; after 240, 300, 380 and 400 (op 2 makes 140, 60 die; op
// 3 makes 100, 80 die).
MemoryColumn column_of(std::vector<std::int64_t> bytes) {
  MemoryColumn column;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    column.rows.push_back({i < 2 ? "mm" : "mm_backward", std::nullopt, Bytes(bytes[i]), "t"});
  }
  return column;
}

ColumnBeside beside_two_layers(const MemoryColumn& column) {
  const Trace trace = two_layers();
  const auto found = beside(trace, op_memory(trace), column);
  REQUIRE(found);
  return *found;
}

}  // namespace

TEST_CASE("an op allocates what it makes and frees what dies before the next begins") {
  const std::vector<OpMemory> ops = op_memory(two_layers());
  REQUIRE(ops.size() == 4);
  CHECK(ops[2].before == 300_B);
  CHECK(ops[2].allocated == 140_B);
  CHECK(ops[2].freed == 60_B);
  CHECK(ops[2].after == 380_B);
  for (const OpMemory& op : ops) CHECK(op.before + op.allocated - op.freed == op.after);
}

TEST_CASE("a column with another zero is equal where it is as far apart as in its first row") {
  const ColumnBeside found = beside_two_layers(column_of({40, 100, 180, 200}));
  CHECK(found.base == 200_B);
  CHECK(found.equal == 4);
  CHECK_FALSE(found.first_difference);
}

TEST_CASE("a column that keeps a tensor which the trace frees differs there first") {
  const ColumnBeside found = beside_two_layers(column_of({240, 300, 440, 460}));
  CHECK(found.equal == 2);
  CHECK(found.first_difference == OpId(2));
  CHECK(found.apart == Bytes(-60));
  CHECK(found.cause ==
        "this replay frees the output of op 1 mm, 60 B, after its last use; there it is kept, as "
        "if an op that "
        "follows needed it");
}

TEST_CASE("a column without a tensor that the trace makes differs there first") {
  const ColumnBeside found = beside_two_layers(column_of({240, 240, 320, 340}));
  CHECK(found.first_difference == OpId(1));
  CHECK(found.apart == 60_B);
  CHECK(found.cause ==
        "this replay allocates the output of op 1 mm, 60 B; there it is written in place, or never "
        "made");
}

TEST_CASE("rows of a column that no op is there for are faults with their place") {
  const Trace trace = two_layers();
  MemoryColumn column = column_of({240, 300});
  column.rows[1].name = "softmax";
  const auto found = beside(trace, op_memory(trace), column);
  REQUIRE_FALSE(found);
  CHECK(found.error().diagnostics[0].where == "t");
  CHECK(found.error().diagnostics[0].what == "no op 'softmax' follows op 0");
}
