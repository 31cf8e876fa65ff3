#include <fmt/format.h>

#include <iterator>

#include "trainwright/base/json.h"
#include "trainwright/replay/replay.h"

namespace trainwright {
namespace {

std::string header_of(const Trace& trace) {
  std::string line = R"({"trainwright_trace": 1)";
  const auto field = [&](std::string_view name, const std::string& value) {
    std::string text = to_text(Json::of(value));
    text.pop_back();  // its line end
    line += fmt::format(", \"{}\": {}", name, text);
  };
  if (!trace.program.empty()) field("program", trace.program);
  if (!trace.device.empty()) field("device", trace.device);
  if (trace.rounding != Bytes(1)) line += fmt::format(", \"rounding\": {}", trace.rounding.value());
  if (trace.frees == Frees::LastUse) field("frees", "last_use");
  return line + "}\n";
}

void write_op(const Trace& trace, const TraceOp& op, std::string& out) {
  const auto into = std::back_inserter(out);
  fmt::format_to(into, "[0,{},{},{},{}", op.name.index(), static_cast<int>(op.phase),
                 op.module.index(), op.reads);
  const auto operand = [&](std::size_t i) {
    fmt::format_to(into, ",{}", trace.operands[op.operands + i].index());
  };
  for (std::size_t i = 0; i < op.reads; ++i) operand(i);
  fmt::format_to(into, ",{}", op.writes);
  for (std::size_t i = 0; i < op.writes; ++i) operand(op.reads + i);
  fmt::format_to(into, ",{}", op.made);
  for (std::size_t i = 0; i < op.made; ++i) {
    const Storage& storage = trace.storages[op.made_first.at() + i];
    fmt::format_to(into, ",{},{},{}", op.made_first.at() + i, storage.size.value(),
                   static_cast<int>(storage.kind));
  }
  if (op.stream.index() != 0 || op.flops != 0) fmt::format_to(into, ",{}", op.stream.index());
  if (op.flops != 0) fmt::format_to(into, ",{}", static_cast<std::int64_t>(op.flops));
  out += "]\n";
}

void write_event(const Trace& trace, const TraceEvent& event, std::string& out) {
  const auto into = std::back_inserter(out);
  const std::int32_t subject = event.subject;
  switch (event.kind) {
    case TraceEvent::Kind::Op:
      write_op(trace, trace.ops[static_cast<std::size_t>(subject)], out);
      return;
    case TraceEvent::Kind::Free: fmt::format_to(into, "[1,{}]\n", subject); return;
    case TraceEvent::Kind::Relabel:
      fmt::format_to(into, "[2,{},{}]\n", static_cast<int>(event.label), subject);
      return;
    case TraceEvent::Kind::Resize:
      fmt::format_to(into, "[3,{},{}]\n", subject, event.value);
      return;
    case TraceEvent::Kind::Exist: {
      const Storage& storage = trace.storages[static_cast<std::size_t>(subject)];
      fmt::format_to(into, "[4,{},{},{},{},{}]\n", subject, storage.size.value(),
                     static_cast<int>(storage.kind), storage.name.index(), storage.module.index());
      return;
    }
    case TraceEvent::Kind::Mark: fmt::format_to(into, "[5,{}]\n", subject); return;
    case TraceEvent::Kind::View:
      fmt::format_to(into, "[6,0,{},{}]\n", subject, event.value);
      return;
    case TraceEvent::Kind::InPlace:
      fmt::format_to(into, "[6,1,{},{}]\n", subject, event.value);
      return;
    case TraceEvent::Kind::Persist: fmt::format_to(into, "[7,{}]\n", subject); return;
    case TraceEvent::Kind::Use: fmt::format_to(into, "[8,{},{}]\n", event.value, subject); return;
    case TraceEvent::Kind::Done: fmt::format_to(into, "[9,{}]\n", subject); return;
  }
}

}  // namespace

std::string to_text(const Trace& trace) {
  std::string out = header_of(trace);
  for (const std::string& text : trace.texts) out += to_text(Json::of(text));
  for (const TraceEvent& event : trace.events) write_event(trace, event, out);
  return out;
}

}  // namespace trainwright
