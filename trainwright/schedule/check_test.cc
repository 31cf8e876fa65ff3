#include <doctest/doctest.h>

#include <algorithm>

#include "trainwright/schedule/schedule.h"

namespace trainwright {
namespace {

constexpr ActionKind F = ActionKind::Forward;
constexpr ActionKind I = ActionKind::BackwardInput;
constexpr ActionKind W = ActionKind::BackwardWeight;
constexpr ActionKind B = ActionKind::Backward;

// Two ranks, two stages, two micro-batches; the smallest schedule in which everything can go wrong.
Schedule sound() { return *make(ScheduleKind::OneFOneB, {2, 2, 1}); }
// The same with I and W.
Schedule sound_split() { return *make(ScheduleKind::ZbH1, {2, 2, 1}); }
Schedule sound_lowered() {
  return *lower(sound(), even_costs(2, Seconds(1), Seconds(1), Seconds(1)));
}

void expect_first(const std::vector<Violation>& violations, Fault fault, int rank,
                  std::int64_t index) {
  REQUIRE_FALSE(violations.empty());
  CHECK(name_of(violations.front().fault) == name_of(fault));
  CHECK(violations.front().rank == RankId(rank));
  CHECK(violations.front().index == index);
  CHECK_FALSE(violations.front().why.empty());
}

std::size_t place_of(const std::vector<Action>& list, Action action) {
  return static_cast<std::size_t>(std::find(list.begin(), list.end(), action) - list.begin());
}

TEST_CASE("a sound schedule has no violation") {
  CHECK(check(sound()).empty());
  CHECK(check(sound_split()).empty());
  CHECK(check_lowered(sound_lowered()).empty());
}

TEST_CASE("a schedule without ranks, stages or micro-batches has no shape") {
  expect_first(check({}), Fault::Shape, 0, -1);
  Schedule schedule = sound();
  schedule.microbatches = 0;
  expect_first(check(schedule), Fault::Shape, 0, -1);
  schedule = sound();
  schedule.ranks.pop_back();
  expect_first(check(schedule), Fault::Shape, 0, -1);
  schedule = sound();
  schedule.placement.rank_of[1] = RankId(7);
  expect_first(check(schedule), Fault::Shape, 0, -1);
  schedule = sound();
  schedule.placement.rank_of[1] = RankId(0);  // rank 1 holds nothing
  expect_first(check(schedule), Fault::Shape, 0, -1);
}

TEST_CASE("a stage that does not exist is out of range") {
  Schedule schedule = sound();
  schedule.ranks[0][2].stage = 5;
  expect_first(check(schedule), Fault::StageOutOfRange, 0, 2);
}

TEST_CASE("a micro-batch that does not exist is out of range") {
  for (const int microbatch : {2, -1}) {
    Schedule schedule = sound();
    schedule.ranks[1][0].microbatch = microbatch;
    expect_first(check(schedule), Fault::MicroBatchOutOfRange, 1, 0);
  }
}

TEST_CASE("an action on a rank that does not hold its stage is refused") {
  Schedule schedule = sound();
  schedule.ranks[0][1].stage = 1;
  expect_first(check(schedule), Fault::WrongRank, 0, 1);
}

// PyTorch counts with sets and lets this pass.
TEST_CASE("an action that comes twice is refused") {
  Schedule schedule = sound();
  schedule.ranks[0].insert(schedule.ranks[0].begin(), make_action(F, 0, 0));
  expect_first(check(schedule), Fault::Duplicate, 0, 1);
}

TEST_CASE("B beside I and W of the same micro-batch is refused") {
  Schedule schedule = sound_split();
  schedule.ranks[1].push_back(make_action(B, 1, 1));
  expect_first(check(schedule), Fault::MixedBackward, 1,
               static_cast<std::int64_t>(schedule.ranks[1].size()) - 1);
  schedule = sound();
  schedule.ranks[0].push_back(make_action(W, 0, 0));
  expect_first(check(schedule), Fault::MixedBackward, 0, 4);
}

TEST_CASE("every missing action is named") {
  Schedule schedule = sound_split();
  for (const Action gone :
       {make_action(F, 0, 1), make_action(I, 0, 1), make_action(W, 0, 1), make_action(W, 1, 0)}) {
    Schedule broken = schedule;
    auto& list = broken.ranks[gone.stage];
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(place_of(list, gone)));
    const auto violations = check(broken);
    const bool named = std::any_of(violations.begin(), violations.end(), [&](const Violation& v) {
      return (v.fault == Fault::Missing || v.fault == Fault::OutOfOrder) &&
             v.action.stage == gone.stage && v.action.microbatch == gone.microbatch;
    });
    CHECK(named);
  }
  schedule = sound();
  schedule.ranks[0].pop_back();
  const auto violations = check(schedule);
  expect_first(violations, Fault::Missing, 0, -1);
  CHECK(to_text(violations.front().action) == "0B1");
}

// The tables stay in proportion to the lists, so that a few bytes cannot ask for gigabytes.
TEST_CASE("far too few actions for the ids are refused before any table is made") {
  Schedule schedule{kMaxMicroBatches, placed(StagePlacement::Loop, 1, 1), {{make_action(F, 0, 0)}}};
  expect_first(check(schedule), Fault::Missing, 0, -1);
}

TEST_CASE("a backward before its forward and W before I are out of order") {
  Schedule schedule = sound();
  std::swap(schedule.ranks[1][0], schedule.ranks[1][1]);  // 1B0 before 1F0
  expect_first(check(schedule), Fault::OutOfOrder, 1, 0);
  schedule = {1,
              placed(StagePlacement::Loop, 1, 1),
              {{make_action(F, 0, 0), make_action(W, 0, 0), make_action(I, 0, 0)}}};
  expect_first(check(schedule), Fault::OutOfOrder, 0, 1);
}

// PyTorch appends losses as they come and looks them up by micro-batch.
TEST_CASE("the last stage must run its forwards in micro-batch order") {
  Schedule schedule = *make(ScheduleKind::GPipe, {2, 2, 1});
  for (auto& list : schedule.ranks) std::swap(list[0], list[1]);
  expect_first(check(schedule), Fault::LossOrder, 1, 0);
}

TEST_CASE("only a forward overlaps a backward that does not need it") {
  Schedule schedule = sound();
  schedule.ranks[0].back().overlaps_next = true;  // nothing follows
  expect_first(check(schedule), Fault::Group, 0, 3);
  schedule = sound();
  schedule.ranks[0][0].overlaps_next = true;  // F with F
  expect_first(check(schedule), Fault::Group, 0, 0);
  schedule = sound();
  schedule.ranks[1][0].overlaps_next = true;  // 1F0 with its own 1B0
  expect_first(check(schedule), Fault::Group, 1, 0);
  schedule = sound();
  schedule.ranks[0][1].overlaps_next = true;  // 0F1 with 0B0: sound
  CHECK(check(schedule).empty());
}

TEST_CASE("a transfer among compute actions is refused") {
  Schedule schedule = sound();
  schedule.ranks[0].insert(schedule.ranks[0].begin() + 1,
                           make_action(ActionKind::SendForward, 0, 0));
  expect_first(check(schedule), Fault::NotCompute, 0, 1);
}

// Rank 0 wants the gradient of micro-batch 0 before it has run the forward of 1, rank 1 wants both
// forwards first: 0B0 waits for 1B0, which waits for 1F1, which waits for 0F1.
TEST_CASE("lists that wait for each other are a deadlock and the cycle is told") {
  Schedule schedule = sound();
  schedule.ranks[0] = {make_action(F, 0, 0), make_action(B, 0, 0), make_action(F, 0, 1),
                       make_action(B, 0, 1)};
  schedule.ranks[1] = {make_action(F, 1, 0), make_action(F, 1, 1), make_action(B, 1, 0),
                       make_action(B, 1, 1)};
  const auto violations = check(schedule);
  expect_first(violations, Fault::Deadlock, 0, 1);
  CHECK(violations.front().why ==
        "0B0 on rank 0 waits for 1B0 on rank 1, but there 1F1 on rank 1 waits for 0F1 on rank 0, "
        "which comes after 0B0");
}

TEST_CASE("a rank can wait for itself") {
  Schedule schedule{
      1,
      placed(StagePlacement::Loop, 1, 2),
      {{make_action(F, 1, 0), make_action(F, 0, 0), make_action(B, 1, 0), make_action(B, 0, 0)}}};
  expect_first(check(schedule), Fault::Deadlock, 0, 0);
}

TEST_CASE("a group that needs its own result through other stages is a deadlock") {
  // 0F0 overlapped with 0B0 of the same micro-batch is caught as a group; 0F0 with 2B0 (another
  // stage of the same rank) needs all of the pipeline in between.
  Schedule schedule = *make(ScheduleKind::GPipe, {1, 1, 1});
  schedule.placement = placed(StagePlacement::Loop, 1, 2);
  schedule.ranks[0] = {make_action(F, 0, 0), make_action(B, 1, 0), make_action(F, 1, 0),
                       make_action(B, 0, 0)};
  schedule.ranks[0][0].overlaps_next = true;
  CHECK_FALSE(check(schedule).empty());
}

TEST_CASE("a list longer than asked for names only the first offenders") {
  Schedule schedule = sound();
  schedule.ranks[0].clear();
  schedule.ranks[1].clear();
  for (int i = 0; i < 8; ++i) schedule.ranks[0].push_back(make_action(F, 0, 0));
  CHECK(check(schedule, 3).size() == 3);
}

TEST_CASE("lowering gives every crossing edge one send and one receive and every stage a reduce") {
  const Schedule lowered = sound_lowered();
  std::vector<std::string> row;
  for (const Action& action : lowered.ranks[0]) row.push_back(to_text(action));
  CHECK(row == std::vector<std::string>{"0F0", "0SEND_F0", "0F1", "0SEND_F1", "0RECV_B0", "0B0",
                                        "0RECV_B1", "0B1", "0REDUCE_GRAD"});
}

TEST_CASE("lowering keeps every kind free of deadlock under blocking transfers") {
  for (const KindFacts& facts : kinds()) {
    for (const int ranks : {1, 2, 3, 5}) {
      for (const int microbatches : {1, 4, 7}) {
        const int chunks = std::clamp(2, facts.chunks_least, facts.chunks_most);
        CAPTURE(facts.name);
        CAPTURE(ranks);
        CAPTURE(microbatches);
        const Schedule schedule = *make(facts.kind, {ranks, microbatches, chunks});
        for (const double transfer : {0.0, 3.0}) {
          for (const double forward : {0.0, 1.0}) {
            const auto lowered =
                lower(schedule, even_costs(ranks * chunks, Seconds(forward), Seconds(1), Seconds(1),
                                           Seconds(transfer)));
            REQUIRE(lowered);
            const auto violations = check_lowered(*lowered);
            if (!violations.empty()) FAIL_CHECK(violations.front().why);
          }
        }
      }
    }
  }
}

TEST_CASE("a schedule that fails the check is not lowered") {
  Schedule schedule = sound();
  schedule.ranks[0].pop_back();
  CHECK_FALSE(lower(schedule, even_costs(2, Seconds(1), Seconds(1), Seconds(1))));
  CHECK_FALSE(lower(sound(), even_costs(3, Seconds(1), Seconds(1), Seconds(1))));
}

TEST_CASE("a missing send, a missing receive and a missing reduce are named") {
  const Schedule lowered = sound_lowered();
  Schedule broken = lowered;
  broken.ranks[0].erase(broken.ranks[0].begin() + 1);  // 0SEND_F0
  auto violations = check_lowered(broken);
  expect_first(violations, Fault::TransferMissing, 0, -1);
  CHECK(to_text(violations.front().action) == "0SEND_F0");
  broken = lowered;
  broken.ranks[0].erase(broken.ranks[0].begin() + 4);  // 0RECV_B0
  expect_first(check_lowered(broken), Fault::TransferMissing, 0, 4);
  broken = lowered;
  broken.ranks[0].pop_back();
  expect_first(check_lowered(broken), Fault::Missing, 0, -1);
}

TEST_CASE("transfers that nobody needs, that come twice or too early are refused") {
  const Schedule lowered = sound_lowered();
  Schedule broken = lowered;
  broken.ranks[0].insert(broken.ranks[0].begin(), make_action(ActionKind::RecvForward, 0, 0));
  expect_first(check_lowered(broken), Fault::TransferUnneeded, 0, 0);
  broken = lowered;
  broken.ranks[0].insert(broken.ranks[0].begin() + 2, make_action(ActionKind::SendForward, 0, 0));
  expect_first(check_lowered(broken), Fault::Duplicate, 0, 2);
  broken = lowered;
  std::swap(broken.ranks[0][0], broken.ranks[0][1]);
  expect_first(check_lowered(broken), Fault::TransferOrder, 0, 0);
  broken = lowered;
  broken.ranks[0][1].stage = 1;
  expect_first(check_lowered(broken), Fault::WrongRank, 0, 1);
  broken = lowered;
  broken.ranks[0][1].stage = 9;
  expect_first(check_lowered(broken), Fault::StageOutOfRange, 0, 1);
  broken = lowered;
  broken.ranks[0][1].microbatch = 9;
  expect_first(check_lowered(broken), Fault::MicroBatchOutOfRange, 0, 1);
}

TEST_CASE("a reduce before the last gradient or twice is refused") {
  const Schedule lowered = sound_lowered();
  Schedule broken = lowered;
  std::rotate(broken.ranks[0].begin(), broken.ranks[0].end() - 1, broken.ranks[0].end());
  expect_first(check_lowered(broken), Fault::OutOfOrder, 0, 0);
  broken = lowered;
  broken.ranks[0].push_back(make_action(ActionKind::ReduceGrad, 0, -1));
  expect_first(check_lowered(broken), Fault::Duplicate, 0, 9);
}

TEST_CASE("a sharded stage computes only while it is unsharded") {
  Schedule schedule = sound_lowered();
  auto& list = schedule.ranks[0];
  list.insert(list.begin(), make_action(ActionKind::Unshard, 0, -1));
  CHECK(check_lowered(schedule).empty());
  list.insert(list.begin() + 1, make_action(ActionKind::Unshard, 0, -1));
  expect_first(check_lowered(schedule), Fault::Duplicate, 0, 1);
  list[1].kind = ActionKind::Reshard;
  expect_first(check_lowered(schedule), Fault::OutOfOrder, 0, 2);
}

TEST_CASE("a transfer inside an overlapped group is refused") {
  Schedule schedule = sound_lowered();
  schedule.ranks[0][0].overlaps_next = true;
  CHECK(check_lowered(schedule).front().fault == Fault::Group);
}

// Messages between two ranks carry no name: here rank 1 would take micro-batch 1's activation for
// micro-batch 0's, silently.
TEST_CASE("receives in another order than the sends are refused") {
  Schedule schedule = *lower(*make(ScheduleKind::GPipe, {2, 2, 1}),
                             even_costs(2, Seconds(1), Seconds(1), Seconds(1)));
  auto& list = schedule.ranks[1];
  const std::size_t first = place_of(list, make_action(ActionKind::RecvForward, 1, 0));
  const std::size_t second = place_of(list, make_action(ActionKind::RecvForward, 1, 1));
  const Action late = list[second];
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(second));
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(first), late);
  expect_first(check_lowered(schedule), Fault::TransferOrder, 1, static_cast<std::int64_t>(first));
}

// Both ranks send first and receive then. Buffers would hide it; two blocking sends never meet.
TEST_CASE("two ranks that both send first are a deadlock under blocking transfers") {
  Schedule schedule{2, placed(StagePlacement::V, 2, 2), {}};
  // Stages 0 and 3 on rank 0, 1 and 2 on rank 1.
  schedule.ranks = make(ScheduleKind::ZbV, {2, 2, 2})->ranks;
  Schedule lowered = *lower(schedule, even_costs(4, Seconds(1), Seconds(1), Seconds(1)));
  REQUIRE(check_lowered(lowered).empty());
  // Hold back rank 1's receive of 0F1 behind its send of 2F0: rank 0 sends 0F1 before it receives.
  auto& list = lowered.ranks[1];
  const Action receive = make_action(ActionKind::RecvForward, 1, 1);
  const Action compute = make_action(F, 1, 1);
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(place_of(list, receive)));
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(place_of(list, compute)), receive);
  auto& other = lowered.ranks[0];
  const Action take = make_action(ActionKind::RecvForward, 3, 0);
  const Action give = make_action(ActionKind::SendForward, 0, 1);
  const std::size_t taken = place_of(other, take), given = place_of(other, give);
  if (taken < given)
    std::rotate(other.begin() + static_cast<std::ptrdiff_t>(taken),
                other.begin() + static_cast<std::ptrdiff_t>(taken) + 1,
                other.begin() + static_cast<std::ptrdiff_t>(given) + 1);
  const std::size_t sent = place_of(list, make_action(ActionKind::SendForward, 2, 0));
  const std::size_t received = place_of(list, receive);
  if (received < sent) {
    // 2F0 and its send come first on rank 1.
    std::rotate(list.begin() + static_cast<std::ptrdiff_t>(received),
                list.begin() + static_cast<std::ptrdiff_t>(received) + 2,
                list.begin() + static_cast<std::ptrdiff_t>(sent) + 1);
  }
  const auto violations = check_lowered(lowered);
  REQUIRE_FALSE(violations.empty());
  CHECK(violations.front().fault == Fault::Deadlock);
  CHECK(violations.front().why.find("for ever") != std::string::npos);
}

}  // namespace
}  // namespace trainwright
