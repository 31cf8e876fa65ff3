// Turns a static program, whose variables die after their last use, into a recorded one.
#include <algorithm>

#include "trainwright/replay/replay.h"

namespace trainwright {
namespace {

constexpr std::int32_t kNever = INT32_MAX;

// The last op that reads, writes or makes each variable; -1 if none does.
std::vector<std::int32_t> last_uses(const Trace& trace) {
  std::vector<std::int32_t> last(trace.storages.size(), -1);
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    const TraceOp& op = trace.ops[i];
    const auto now = static_cast<std::int32_t>(i);
    for (std::size_t k = 0; k < op.reads + op.writes; ++k) {
      last[trace.operands[op.operands + k].at()] = now;
    }
    for (std::size_t k = 0; k < op.made; ++k) last[op.made_first.at() + k] = now;
  }
  for (const TraceEvent& event : trace.events) {
    if (event.kind != TraceEvent::Kind::Persist) continue;
    last[static_cast<std::size_t>(event.subject)] = kNever;
  }
  // A variable no op uses is somebody else's; it stays.
  std::replace(last.begin(), last.end(), -1, kNever);
  return last;
}

class Resolver {
 public:
  Resolver(const Trace& program, Aliases aliases)
      : program_(program),
        aliases_(aliases),
        last_use_(last_uses(program)),
        storage_of_(program.storages.size()),
        alias_of_(program.storages.size(), -1),
        is_view_(program.storages.size(), false) {
    made_.program = program.program;
    made_.device = program.device;
    made_.rounding = program.rounding;
    made_.texts = program.texts;
    dying_.resize(program.ops.size());
  }

  Trace run() && {
    share_storages();
    for (std::size_t s = 0; s < dies_.size(); ++s) {
      if (dies_[s] == kNever) continue;
      dying_[static_cast<std::size_t>(dies_[s])].push_back(static_cast<std::int32_t>(s));
    }
    for (const TraceEvent& event : program_.events) write(event);
    return std::move(made_);
  }

 private:
  // Gives every variable its storage: its own, or that of the variable it is an alias of.
  void share_storages() {
    for (const TraceEvent& event : program_.events) {
      const auto subject = static_cast<std::size_t>(event.subject);
      const bool is_view = event.kind == TraceEvent::Kind::View;
      if (aliases_ == Aliases::Honour && (is_view || event.kind == TraceEvent::Kind::InPlace)) {
        alias_of_[subject] = static_cast<std::int32_t>(event.value);
        is_view_[subject] = is_view;
      } else if (event.kind == TraceEvent::Kind::Exist) {
        give_storage(subject, -1);
      } else if (event.kind == TraceEvent::Kind::Op) {
        const TraceOp& op = program_.ops[subject];
        for (std::size_t k = 0; k < op.made; ++k) {
          give_storage(op.made_first.at() + k, event.subject);
        }
      }
    }
  }

  void give_storage(std::size_t variable, std::int32_t op) {
    const std::int32_t of = alias_of_[variable];
    if (of >= 0 && may_share(variable, static_cast<std::size_t>(of), op)) {
      const std::int32_t storage = storage_of_[static_cast<std::size_t>(of)];
      storage_of_[variable] = storage;
      auto& dies = dies_[static_cast<std::size_t>(storage)];
      dies = std::max(dies, last_use_[variable]);
      return;
    }
    storage_of_[variable] = static_cast<std::int32_t>(dies_.size());
    dies_.push_back(last_use_[variable]);
    origin_.push_back(static_cast<std::int32_t>(variable));
  }

  bool may_share(std::size_t variable, std::size_t of, std::int32_t op) const {
    if (is_view_[variable]) return true;
    // In place: nobody looks at the old content after this op.
    const auto storage = static_cast<std::size_t>(storage_of_[of]);
    const auto base = static_cast<std::size_t>(origin_[storage]);
    return dies_[storage] == op && program_.storages[variable].size == program_.storages[base].size;
  }

  void write(const TraceEvent& event) {
    switch (event.kind) {
      case TraceEvent::Kind::Op: return write_op(event.subject);
      case TraceEvent::Kind::View:
      case TraceEvent::Kind::InPlace:
      case TraceEvent::Kind::Persist:
      case TraceEvent::Kind::Free: return;
      case TraceEvent::Kind::Mark:
      case TraceEvent::Kind::Done: made_.events.push_back(event); return;
      case TraceEvent::Kind::Exist:
        made_.storages.push_back(program_.storages[static_cast<std::size_t>(event.subject)]);
        [[fallthrough]];
      case TraceEvent::Kind::Relabel:
      case TraceEvent::Kind::Resize:
      case TraceEvent::Kind::Use:
        made_.events.push_back(event);
        made_.events.back().subject = storage_of_[static_cast<std::size_t>(event.subject)];
        return;
    }
  }

  void write_op(std::int32_t index) {
    TraceOp op = program_.ops[static_cast<std::size_t>(index)];
    const std::size_t first = op.operands;
    op.operands = static_cast<std::uint32_t>(made_.operands.size());
    for (std::size_t k = 0; k < op.reads + op.writes; ++k) {
      made_.operands.emplace_back(storage_of_[program_.operands[first + k].at()]);
    }
    const std::size_t variables = op.made_first.at();
    const std::size_t count = op.made;
    op.made_first = StorageId(static_cast<std::int32_t>(made_.storages.size()));
    for (std::size_t v = variables; v < variables + count; ++v) {
      if (origin_[static_cast<std::size_t>(storage_of_[v])] != static_cast<std::int32_t>(v)) {
        // It lives in an older storage, which the op writes.
        made_.operands.emplace_back(storage_of_[v]);
        ++op.writes;
      } else {
        made_.storages.push_back(program_.storages[v]);
      }
    }
    op.made = static_cast<std::uint32_t>(made_.storages.size() - op.made_first.at());
    made_.ops.push_back(op);
    made_.events.push_back({TraceEvent::Kind::Op, {}, index, 0});
    for (const std::int32_t storage : dying_[static_cast<std::size_t>(index)]) {
      made_.events.push_back({TraceEvent::Kind::Free, {}, storage, 0});
    }
  }

  const Trace& program_;
  Aliases aliases_;
  std::vector<std::int32_t> last_use_;
  std::vector<std::int32_t> storage_of_;  // by variable
  std::vector<std::int32_t> alias_of_;    // by variable
  std::vector<bool> is_view_;             // by variable
  std::vector<std::int32_t> dies_;        // by storage: the op after which it dies
  std::vector<std::int32_t> origin_;      // by storage: the variable it was made for
  std::vector<std::vector<std::int32_t>> dying_;
  Trace made_;
};

}  // namespace

Trace resolve(Trace trace, Aliases aliases) {
  if (trace.frees == Frees::Recorded) return trace;
  return Resolver(trace, aliases).run();
}

}  // namespace trainwright
