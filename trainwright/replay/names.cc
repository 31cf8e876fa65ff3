#include "trainwright/replay/replay.h"

namespace trainwright {

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::Forward: return "forward";
    case Phase::Backward: return "backward";
    case Phase::Recompute: return "recompute";
    case Phase::Optimizer: return "optimizer";
    case Phase::Other: return "other";
  }
  return "";
}

std::string_view name_of(StorageKind kind) {
  switch (kind) {
    case StorageKind::Parameter: return "parameter";
    case StorageKind::Buffer: return "buffer";
    case StorageKind::Gradient: return "gradient";
    case StorageKind::Optimizer: return "optimizer";
    case StorageKind::Activation: return "activation";
    case StorageKind::Temporary: return "temporary";
    case StorageKind::Input: return "input";
    case StorageKind::Other: return "other";
  }
  return "";
}

}  // namespace trainwright
