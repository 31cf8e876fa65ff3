#pragma once
// Live bytes counted the obvious way: for every op, look at every storage. And random traces.
#include <algorithm>
#include <string>
#include <vector>

#include "trainwright/base/random.h"
#include "trainwright/replay/replay.h"

namespace trainwright::testing {

// A recorded program of `ops` ops with frees, relabels and resizes at random places.
inline std::string random_trace(Random& random, int ops) {
  std::string text = "{\"trainwright_trace\": 1}\n\"a\"\n\"b\"\n\"c\"\n";
  std::vector<int> live;
  int next = 0;
  const auto some = [&](std::int64_t low, std::int64_t high) {
    return std::to_string(random.integer(low, high));
  };
  const auto pick = [&] { return live[random.bits() % live.size()]; };
  for (int i = 0; i < ops; ++i) {
    if (random.integer(0, 5) == 0) {
      text += "[4," + std::to_string(next) + "," + some(0, 5000) + "," + some(0, 7) + ",-1,-1]\n";
      live.push_back(next++);
    }
    const std::int64_t reads = live.empty() ? 0 : random.integer(0, 3);
    text +=
        "[0," + some(-1, 2) + "," + some(0, 4) + "," + some(-1, 2) + "," + std::to_string(reads);
    for (std::int64_t k = 0; k < reads; ++k) text += "," + std::to_string(pick());
    const std::int64_t made = random.integer(0, 2);
    text += ",0," + std::to_string(made);
    for (std::int64_t k = 0; k < made; ++k) {
      text += "," + std::to_string(next) + "," + some(0, 5000) + "," + some(0, 7);
      live.push_back(next++);
    }
    text += "]\n";
    while (!live.empty() && random.integer(0, 2) == 0) {
      std::swap(live[random.bits() % live.size()], live.back());
      text += "[1," + std::to_string(live.back()) + "]\n";
      live.pop_back();
    }
    if (!live.empty() && random.integer(0, 5) == 0) {
      text += "[2," + some(0, 7) + "," + std::to_string(pick()) + "]\n";
    }
    if (!live.empty() && random.integer(0, 9) == 0) {
      text += "[3," + std::to_string(pick()) + "," + some(0, 5000) + "]\n";
    }
  }
  return text;
}

// A static program; each op may make its first output in place of, or as a view of, something.
inline std::string random_program(Random& random, int ops, bool views) {
  std::string text = "{\"trainwright_trace\": 1, \"frees\": \"last_use\"}\n[4,0,1000,6]\n";
  int next = 1;
  for (int i = 0; i < ops; ++i) {
    const std::int64_t input = random.integer(std::max(0, next - 4), next - 1);
    const std::int64_t made = random.integer(0, 2);
    if (made > 0 && random.integer(0, 1) == 0) {
      text += std::string("[6,") + (views && random.integer(0, 1) == 0 ? "0," : "1,") +
              std::to_string(next) + "," + std::to_string(input) + "]\n";
    }
    text += "[0,-1,0,-1,1," + std::to_string(input) + ",0," + std::to_string(made);
    for (std::int64_t k = 0; k < made; ++k) {
      text +=
          "," + std::to_string(next++) + "," + std::to_string(random.integer(0, 3) * 500) + ",4";
    }
    text += "]\n";
  }
  return text;
}

// The live bytes of a recorded trace when the event at `last` has happened.
inline Bytes slow_live(const Trace& trace, std::size_t last) {
  Bytes sum;
  for (std::size_t s = 0; s < trace.storages.size(); ++s) {
    Bytes bytes;
    for (std::size_t e = 0; e <= last; ++e) {
      const TraceEvent& event = trace.events[e];
      const auto subject = static_cast<std::size_t>(event.subject);
      const bool made_by_op = event.kind == TraceEvent::Kind::Op &&
                              s >= trace.ops[subject].made_first.at() &&
                              s < trace.ops[subject].made_first.at() + trace.ops[subject].made;
      if (made_by_op || (event.kind == TraceEvent::Kind::Exist && subject == s)) {
        bytes = trace.storages[s].size;
      }
      if (event.kind == TraceEvent::Kind::Free && subject == s) bytes = Bytes(0);
      if (event.kind == TraceEvent::Kind::Resize && subject == s) bytes = Bytes(event.value);
    }
    sum += bytes;
  }
  return sum;
}

// The live bytes while op `now` of a static program runs, every variable on its own.
inline Bytes slow_live_static(const Trace& program, std::size_t now) {
  Bytes sum;
  for (std::size_t v = 0; v < program.storages.size(); ++v) {
    const std::int32_t made = program.storages[v].made_by.index();
    std::int32_t last = made < 0 ? INT32_MAX : made;
    bool used = false;
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
      const TraceOp& op = program.ops[i];
      for (std::size_t k = 0; k < op.reads + op.writes; ++k) {
        if (program.operands[op.operands + k].at() != v) continue;
        last = used || made >= 0 ? std::max(last, static_cast<std::int32_t>(i))
                                 : static_cast<std::int32_t>(i);
        used = true;
      }
    }
    const auto at = static_cast<std::int32_t>(now);
    if (made <= at && at <= last) sum += program.storages[v].size;
  }
  return sum;
}

}  // namespace trainwright::testing
