// Libraries and communicators of a trainer: what follows from them, and how they are read.
#include "trainwright/trainer/libraries.h"

#include <array>

#include "trainwright/base/text.h"
#include "trainwright/trainer/reading.h"

namespace trainwright {
namespace {

constexpr std::array<std::string_view, 5> kConnections{"ring", "tree", "nvls", "pairs",
                                                       "all-to-all"};

Version version_in(JsonFields& fields, std::string_view key) {
  const auto text = fields.optional_string(key);
  if (!text) return {};
  const auto version = parse_version(*text);
  if (!version) fields.fault(key, "not a version", "write it like \"2.8\"");
  return version.value_or(Version{});
}

}  // namespace

Version nccl_of_torch(Version torch) {
  // Only what changes memory is told apart: 2.19 rounds every buffer up, 2.22 connects when needed.
  if (torch == Version{}) return {};
  if (torch < Version{2, 0, 0}) return {2, 14, 0};
  if (torch < Version{2, 2, 0}) return {2, 18, 0};
  if (torch < Version{2, 7, 0}) return {2, 21, 0};
  return {2, 27, 0};
}

bool records_streams(const LibraryFacts& libraries) {
  constexpr Version kNone{}, kFree{2, 8, 0};
  return libraries.torch > kNone && libraries.torch < kFree && !libraries.avoids_record_streams;
}

bool loads_all_kernels(const LibraryFacts& libraries) {
  constexpr Version kAsks{1, 13, 0}, kPossible{11, 7, 0}, kUsual{12, 2, 0};
  if (libraries.cuda == Version{}) return false;
  return libraries.cuda < (libraries.torch >= kAsks ? kPossible : kUsual);
}

std::span<const std::string_view> all_names(Connection) { return kConnections; }

std::vector<Connection> usual_connections(std::string_view group) {
  if (group == "tp") return {Connection::Ring, Connection::Nvls};
  if (group == "pp" || group == "p2p") return {Connection::Pairs};
  if (group == "ep" || group == "tp-ep" || group == "sep") return {Connection::AllToAll};
  if (group == "world" || group == "model-parallel" || group == "tp-ep-pp") {
    return {Connection::Tree};
  }
  return {Connection::Ring};
}

void read_libraries(JsonFields& fields, Trainer& trainer, Diagnostics& faults) {
  const Json* object = fields.raw("libraries");
  if (object == nullptr) return;
  JsonFields at(*object, fields.origin(), fields.path("libraries"), faults);
  if (!object->is_object()) return;
  LibraryFacts& libraries = trainer.libraries;
  libraries = {};
  libraries.torch_is_trainer = at.optional_bool("torch_is_trainer").value_or(false);
  libraries.torch = libraries.torch_is_trainer ? trainer.to : version_in(at, "torch");
  libraries.nccl = version_in(at, "nccl");
  libraries.cuda = version_in(at, "cuda");
  libraries.transformer_engine = version_in(at, "transformer_engine");
  libraries.flash = at.optional_integer("flash", kFlashGenerations).value_or(0);
  libraries.best_attention_from = at.optional_number("best_attention_from").value_or(0);
  libraries.avoids_record_streams = at.optional_bool("avoids_record_streams").value_or(false);
  libraries.source = source_in(at);
  at.finish();
}

void read_communicator(JsonFields& fields, Communicator& communicator) {
  communicator.uses = usual_connections(communicator.group);
  communicator.count = fields.optional_integer("count", {.least = 1, .most = 64}).value_or(1);
  if (fields.raw("uses") == nullptr) return;
  communicator.uses.clear();
  const std::vector<std::string> known = to_strings(kConnections);
  for (const std::string& name : fields.optional_strings("uses")) {
    if (const auto use = named<Connection>(name)) {
      communicator.uses.push_back(*use);
    } else {
      fields.fault("uses", "unknown name '" + name + "'",
                   did_you_mean(name, known, "known: " + enumerate(known)));
    }
  }
}

}  // namespace trainwright
