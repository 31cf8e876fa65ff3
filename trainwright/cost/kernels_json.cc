// Reads data/calibrations/kernels.json.
#include <fmt/format.h>

#include "trainwright/base/text.h"
#include "trainwright/cost/cost.h"

namespace trainwright {
namespace {

// Fields of one object and the faults they gather.
struct Reader {
  JsonFields fields;
  Diagnostics& faults;

  Reader(const Json& json, const std::string& origin, std::string path, Diagnostics& all)
      : fields(json, origin, std::move(path), all), faults(all) {}
  Reader inner(const Json& json, std::string_view key) {
    return {json, fields.origin(), fields.path(key), faults};
  }
  double within(std::string_view key, double least, double most) {
    const double value = fields.number(key);
    if (!(value >= least && value <= most)) {
      fields.fault(key, fmt::format("not between {} and {}", least, most));
    }
    return value;
  }
  double share(std::string_view key) { return within(key, 1e-3, 1); }
  Seconds micros(std::string_view key) { return Seconds(within(key, 0, 1e6) * 1e-6); }

  template <std::size_t N>
  std::array<double, N> list(std::string_view key, double least, double most) {
    std::array<double, N> values{};
    const Json* items = fields.array(key);
    if (items == nullptr) return values;
    bool good = items->items.size() == N;
    for (std::size_t i = 0; good && i < N; ++i) {
      const Json& item = items->items[i];
      good = item.is_number() && item.number >= least && item.number <= most;
      values[i] = item.number;
    }
    if (!good) fields.fault(key, fmt::format("not {} numbers from {} to {}", N, least, most));
    return values;
  }
};

std::map<ComputeType, KernelFacts::Products> read_products(Reader at, const Json& json) {
  std::map<ComputeType, KernelFacts::Products> products;
  for (int i = 0; i < 9; ++i) {
    const auto type = static_cast<ComputeType>(i);
    const Json* entry = json.find(name_of(type));
    if (entry == nullptr) continue;
    at.fields.ignore(name_of(type));
    Reader of = at.inner(*entry, name_of(type));
    products[type] = {.reached = of.share("reached"),
                      .streamed = of.share("streamed"),
                      .start = of.micros("start"),
                      .heat = of.within("heat", 0, 2)};
    of.fields.finish();
  }
  at.fields.finish();
  return products;
}

AttentionRates read_attention(Reader at) {
  AttentionRates attention;
  if (const Json* heads = at.fields.array("heads")) {
    for (std::size_t i = 0; i < heads->items.size(); ++i) {
      Reader of = at.inner(heads->items[i], fmt::format("heads/{}", i));
      attention.heads.push_back({.head_width = of.fields.integer("width", {.least = 1}),
                                 .reached = of.share("reached"),
                                 .half = of.within("half", 0, 1e5)});
      of.fields.finish();
    }
    const auto rising = [](const HeadRates& a, const HeadRates& b) {
      return a.head_width < b.head_width;
    };
    if (heads->items.empty() ||
        !std::is_sorted(attention.heads.begin(), attention.heads.end(), rising)) {
      at.fields.fault("heads", "not head widths that rise");
    }
  }
  attention.backward = at.share("backward");
  attention.full_half = at.within("full_half", 0, 1e5);
  attention.unfused = at.share("unfused");
  attention.flash = at.list<4>("flash", 1e-3, 1);
  attention.start = at.micros("start");
  at.fields.finish();
  return attention;
}

LinkRates read_links(Reader at) {
  LinkRates links;
  links.scale_up = at.list<6>("scale_up", 0.01, 2);
  links.network = at.list<6>("network", 0.01, 2);
  links.pair = at.within("pair", 0.01, 1);
  links.in_switch = at.within("in_switch", 0, 2);
  links.start = at.micros("start");
  links.hop = at.micros("hop");
  links.ramp = at.micros("ramp");
  links.network_ramp = at.micros("network_ramp");
  at.fields.finish();
  return links;
}

KernelFacts read_facts(Reader at) {
  KernelFacts facts;
  at.fields.optional_string("source");
  if (const Json* json = at.fields.raw("products")) {
    facts.products = read_products(at.inner(*json, "products"), *json);
  }
  if (const Json* json = at.fields.raw("attention")) {
    facts.attention = read_attention(at.inner(*json, "attention"));
  }
  if (at.fields.raw("streamed") != nullptr) facts.streamed = at.list<2>("streamed", 1e-3, 1);
  if (const Json* json = at.fields.raw("links")) {
    facts.links = read_links(at.inner(*json, "links"));
  }
  if (at.fields.raw("settled") != nullptr) facts.settled = at.list<2>("settled", 1e-3, 1);
  if (at.fields.raw("host") != nullptr) facts.host = at.within("host", 0.1, 10);
  if (at.fields.raw("gap") != nullptr) facts.gap = at.micros("gap").value();
  at.fields.finish();
  return facts;
}

// {"name": facts, ...}; `key` turns a name into the key of the table, or is at fault.
template <class Map, class Key>
void read_table(Reader& at, std::string_view name, Map& table, Key key) {
  const Json* object = at.fields.object(name);
  if (object == nullptr) return;
  const Reader in = at.inner(*object, name);
  for (const JsonMember& member : object->members) {
    const auto index = key(member.key);
    if (!index) {
      at.fields.fault(name, fmt::format("\"{}\" is not a number", member.key));
      continue;
    }
    table.emplace(*index, read_facts({member.value, in.fields.origin(), in.fields.path(member.key),
                                      in.faults}));
  }
}

void read_spreads(Reader at, Kernels& kernels) {
  kernels.products = at.list<3>("products", 0, 3);
  kernels.attention = at.list<3>("attention", 0, 3);
  kernels.streamed = at.list<3>("streamed", 0, 3);
  kernels.links = at.list<3>("links", 0, 3);
  kernels.settled = at.list<3>("settled", 0, 3);
  at.fields.finish();
}

// Everything that rates_of asks of the widest entry.
bool complete(const KernelFacts& facts) {
  const auto has = [&](ComputeType type) { return facts.products.contains(type); };
  return has(ComputeType::Bf16) && has(ComputeType::Fp32) && has(ComputeType::Fp64) &&
         facts.attention && facts.streamed && facts.links && facts.settled;
}

void read_stacks(Reader& at, Kernels& kernels) {
  const Json* stacks = at.fields.object("stacks");
  if (stacks == nullptr) return;
  Reader of = at.inner(*stacks, "stacks");
  for (const JsonMember& member : stacks->members) {
    Reader one = of.inner(member.value, member.key);
    kernels.stacks.emplace(member.key, KernelStack{.products = one.within("products", 0.1, 10),
                                                   .fp8 = one.within("fp8", 0.1, 10),
                                                   .attention = one.within("attention", 0.1, 10),
                                                   .rounding = one.share("rounding")});
    one.fields.finish();
  }
}

}  // namespace

Result<Kernels> read_kernels(const Json& json, const std::string& origin) {
  Diagnostics faults;
  Kernels kernels;
  Reader at(json, origin, "", faults);
  const auto text = [](const std::string& key) { return std::optional<std::string>(key); };
  read_table(at, "accelerators", kernels.accelerators, text);
  read_table(at, "vendors", kernels.vendors, text);
  read_table(at, "generations", kernels.generations,
             [](const std::string& key) { return parse_number(key); });
  if (const Json* others = at.fields.object("others")) {
    kernels.others = read_facts(at.inner(*others, "others"));
    if (faults.empty() && !complete(kernels.others)) {
      at.fields.fault("others", "not complete",
                      "products in bf16, fp32 and fp64, attention, streamed, links, settled");
    }
  }
  if (const Json* spreads = at.fields.object("spreads")) {
    read_spreads(at.inner(*spreads, "spreads"), kernels);
  }
  read_stacks(at, kernels);
  kernels.constants = at.fields.integer("constants", {.least = 0});
  kernels.rows = at.fields.integer("rows", {.least = 0});
  at.fields.optional_string("source");
  at.fields.finish();
  if (!faults.empty()) return fail(std::move(faults));
  return kernels;
}

Result<Kernels> load_kernels(const std::string& data_dir) {
  const std::string path = data_dir + "/calibrations/kernels.json";
  const Json json = TW_TRY(read_json_file(path));
  return read_kernels(json, path);
}

}  // namespace trainwright
