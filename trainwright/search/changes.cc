#include "trainwright/search/changes.h"

#include <array>
#include <bit>

#include "trainwright/base/text.h"

namespace trainwright {
namespace {

bool same_split(const Layout& a, const Layout& b) {
  if (a.pp == 1 && b.pp == 1) return true;  // nothing is split, whatever counts as a layer
  return a.first_layers == b.first_layers && a.last_layers == b.last_layers &&
         a.layers == b.layers && a.count_embedding == b.count_embedding &&
         a.count_loss == b.count_loss;
}

// Where there is one copy of the weights nothing can be shared, so nobody chose that.
bool same_sharing(const Layout& a, const Layout& b) {
  if (a.dp * a.cp == 1 || b.dp * b.cp == 1) return true;
  if (a.sharding != b.sharding || a.zero != b.zero) return false;
  return a.dp != b.dp || a.dp_replicate == b.dp_replicate;
}

std::string sharing_text(const Layout& layout) {
  std::string text = layout.sharding == ShardingKind::Zero ? "zero" + std::to_string(layout.zero)
                                                           : std::string(name_of(layout.sharding));
  if (layout.dp_replicate > 1) text += " x" + std::to_string(layout.dp_replicate);
  return text;
}

std::string split_text(const Layout& layout) {
  if (!layout.layers.empty()) return "as listed";
  std::vector<std::string> parts;
  const auto add = [&](const char* name, std::int64_t value) {
    if (value > 0) parts.push_back(std::string(name) + " " + std::to_string(value));
  };
  add("first", layout.first_layers);
  add("last", layout.last_layers);
  add("embedding counts", layout.count_embedding);
  add("loss counts", layout.count_loss);
  return parts.empty() ? "even" : join(parts, ", ");
}

std::string offload_text(const Flags<Offload>& offload) {
  std::vector<std::string> parts;
  for (const Offload one : {Offload::Optimizer, Offload::Activations, Offload::Parameters}) {
    if (offload.has(one)) parts.emplace_back(name_of(one));
  }
  return parts.empty() ? "none" : join(parts, "+");
}

}  // namespace

std::string_view name_of(Knob knob) {
  constexpr std::array<std::string_view, kKnobs> kNames = {
      "tp",  "pp",       "cp",     "ep",        "etp",      "mbs",
      "vpp", "schedule", "layers", "recompute", "sharding", "offload"};
  return kNames[static_cast<std::size_t>(knob)];
}

Flags<Knob> changed_knobs(const Layout& from, const Layout& to) {
  Flags<Knob> changed;
  const auto differ = [&](Knob knob, bool differs) {
    if (differs) changed.insert(knob);
  };
  differ(Knob::Tp, from.tp != to.tp || (from.tp > 1 && from.sp != to.sp));
  differ(Knob::Cp, from.cp != to.cp || (from.cp > 1 && from.cp_kind != to.cp_kind));
  differ(Knob::Ep, from.ep != to.ep);
  const bool follows = from.etp == from.tp && to.etp == to.tp;
  differ(Knob::Etp, from.etp != to.etp && !follows);
  differ(Knob::Mbs, from.mbs != to.mbs);
  differ(Knob::Recompute, from.recompute != to.recompute);
  differ(Knob::Sharding, !same_sharing(from, to));
  differ(Knob::Offload, from.offload != to.offload);
  if (from.pp != to.pp) {
    changed.insert(Knob::Pp);
    return changed;
  }
  differ(Knob::Vpp, from.vpp != to.vpp);
  // Chunks come with a schedule that has so many.
  differ(Knob::Schedule, running_schedule(from) != running_schedule(to) &&
                             (from.vpp == to.vpp || to.schedule != usual_schedule(to.pp, to.vpp)));
  differ(Knob::Layers, !same_split(from, to) && from.vpp == to.vpp);
  return changed;
}

int count_of(const Flags<Knob>& knobs) { return std::popcount(knobs.bits); }

std::vector<Knob> knobs_of(const Flags<Knob>& knobs) {
  std::vector<Knob> found;
  for (std::size_t i = 0; i < kKnobs; ++i) {
    if (knobs.has(static_cast<Knob>(i))) found.push_back(static_cast<Knob>(i));
  }
  return found;
}

std::string value_of(Knob knob, const Layout& layout) {
  switch (knob) {
    case Knob::Tp: return std::to_string(layout.tp) + (layout.tp > 1 && !layout.sp ? " no sp" : "");
    case Knob::Pp: return std::to_string(layout.pp);
    case Knob::Cp: return std::to_string(layout.cp);
    case Knob::Ep: return std::to_string(layout.ep);
    case Knob::Etp: return std::to_string(layout.etp);
    case Knob::Mbs: return std::to_string(layout.mbs);
    case Knob::Vpp: return std::to_string(layout.vpp);
    case Knob::Schedule: return std::string(name_of(running_schedule(layout)));
    case Knob::Layers: return split_text(layout);
    case Knob::Recompute: return to_text(layout.recompute);
    case Knob::Sharding: return sharing_text(layout);
    case Knob::Offload: return offload_text(layout.offload);
  }
  return {};
}

}  // namespace trainwright
