#include <fmt/format.h>

#include "trainwright/base/text.h"
#include "trainwright/outside/outside.h"

namespace trainwright {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

// [low, central, high] in GiB.
BytesRange range_in(JsonFields& fields, std::string_view key) {
  const Json* list = fields.array(key);
  if (list == nullptr) return {};
  double values[3] = {0, 0, 0};
  bool rising = list->items.size() == 3;
  for (std::size_t i = 0; i < 3 && rising; ++i) {
    values[i] = list->items[i].is_number() ? list->items[i].number : -1;
    rising = values[i] >= (i == 0 ? 0 : values[i - 1]) && values[i] <= 1024;
  }
  if (!rising) fields.fault(key, "not a range", "[low, central, high] in GiB, rising");
  return {RealBytes(values[0] * kGiB), RealBytes(values[1] * kGiB), RealBytes(values[2] * kGiB)};
}

void check_unit(JsonFields& fields) {
  if (fields.string("unit") != "GiB") fields.fault("unit", "ranges are in GiB", "\"GiB\"");
  fields.string("source");
}

// {"8.0": value, ...}: every key becomes a number, every value is read by `read`.
template <class Map, class Read>
void read_table(JsonFields& fields, std::string_view key, Diagnostics& faults, Map& table,
                Read read) {
  const Json* object = fields.object(key);
  if (object == nullptr) return;
  JsonFields at(*object, fields.origin(), fields.path(key), faults);
  for (const JsonMember& member : object->members) {
    const auto number = parse_number(member.key);
    if (!number) {
      at.fault(member.key, "the key is not a number");
      continue;
    }
    table.emplace(static_cast<typename Map::key_type>(*number), read(at, member.key));
  }
  if (table.empty()) at.fault("", "at least one entry is needed");
  at.finish();
}

void read_context(JsonFields& fields, ContextFacts& context, Diagnostics& faults) {
  const Json* object = fields.object("context");
  if (object == nullptr) return;
  JsonFields at(*object, fields.origin(), fields.path("context"), faults);
  if (const Json* lazy = at.object("lazy")) {
    JsonFields of(*lazy, at.origin(), at.path("lazy"), faults);
    check_unit(of);
    read_table(of, "by_capability", faults, context.by_capability, range_in);
    if (const Json* vendors = of.object("by_vendor")) {
      JsonFields by(*vendors, of.origin(), of.path("by_vendor"), faults);
      for (const JsonMember& member : vendors->members) {
        context.by_vendor.emplace(member.key, range_in(by, member.key));
      }
    }
    of.finish();
  }
  const auto one = [&](std::string_view key) {
    const Json* entry = at.object(key);
    if (entry == nullptr) return BytesRange{};
    JsonFields of(*entry, at.origin(), at.path(key), faults);
    check_unit(of);
    const BytesRange range = range_in(of, "range");
    of.finish();
    return range;
  };
  context.all_kernels = one("all_kernels");
  context.first_communicator = one("first_communicator");
  at.finish();
}

void read_nccl(JsonFields& fields, NcclFacts& nccl, Diagnostics& faults) {
  const Json* object = fields.object("nccl");
  if (object == nullptr) return;
  JsonFields at(*object, fields.origin(), fields.path("nccl"), faults);
  constexpr IntegerRange kCount{.least = 1, .most = 1024};
  const std::pair<std::string_view, double NcclFacts::*> sizes[] = {
      {"grain", &NcclFacts::grain},
      {"table_member", &NcclFacts::table_member},
      {"table_pointer", &NcclFacts::table_pointer},
      {"table_rank", &NcclFacts::table_rank},
      {"send", &NcclFacts::send},
      {"receive", &NcclFacts::receive},
      {"send_reading", &NcclFacts::send_reading},
      {"receive_reading", &NcclFacts::receive_reading},
      {"network_link", &NcclFacts::network_link},
      {"pool_near", &NcclFacts::pool_near},
      {"pool_far", &NcclFacts::pool_far},
      {"nvls_channel", &NcclFacts::nvls_channel},
      {"nvls_channel_before", &NcclFacts::nvls_channel_before}};
  for (const auto& [key, field] : sizes) {
    nccl.*field = static_cast<double>(at.integer(key, {.least = 1, .most = 1 << 30}));
  }
  const auto count = [&](JsonFields& of, std::string_view key) { return of.integer(key, kCount); };
  nccl.channels_pcie = count(at, "channels_pcie");
  nccl.pair_channels = count(at, "pair_channels");
  nccl.nvls_least = count(at, "nvls_least");
  nccl.nvls_most = count(at, "nvls_most");
  read_table(at, "channels", faults, nccl.channels, count);
  read_table(at, "channels_across", faults, nccl.channels_across, count);
  read_table(at, "nvls_channels", faults, nccl.nvls_channels, count);
  at.string("source");
  at.finish();
}

void read_others(JsonFields& fields, OutsideFacts& facts, Diagnostics& faults) {
  const Json* object = fields.object("others");
  if (object == nullptr) return;
  for (const JsonMember& member : object->members) {
    JsonFields of(member.value, fields.origin(), fields.path("others") + "/" + member.key, faults);
    check_unit(of);
    const BytesRange first = range_in(of, "first"), next = range_in(of, "next");
    facts.others.emplace(member.key, std::pair(first, next));
    of.finish();
  }
}

}  // namespace

Result<OutsideFacts> read_outside_facts(const Json& json, const std::string& origin) {
  Diagnostics faults;
  OutsideFacts facts;
  JsonFields fields(json, origin, "", faults);
  read_context(fields, facts.context, faults);
  read_nccl(fields, facts.nccl, faults);
  read_others(fields, facts, faults);
  fields.finish();
  if (!faults.empty()) return fail(std::move(faults));
  return facts;
}

Result<OutsideFacts> load_outside_facts(const std::string& data_directory) {
  const std::string path = data_directory + "/outside.json";
  const Json json = TW_TRY(read_json_file(path));
  return read_outside_facts(json, path);
}

Json to_json(const BytesRange& range) {
  Json json = Json::object();
  json.add("low", Json::of(rounded(range.low).value()))
      .add("central", Json::of(rounded(range.central).value()))
      .add("high", Json::of(rounded(range.high).value()));
  return json;
}

Json to_json(const OutsideBytes& outside) {
  Json communicators = Json::array();
  for (const CommunicatorBytes& one : outside.communicators) {
    Json entry = Json::object();
    entry.add("group", Json::of(one.group))
        .add("members", Json::of(one.shape.members))
        .add("per_node", Json::of(one.shape.per_node))
        .add("count", Json::of(one.count))
        .add("ends_only", Json::of(one.ends_only))
        .add("bytes", to_json(one.bytes));
    communicators.push(std::move(entry));
  }
  Json json = Json::object();
  json.add("context", to_json(outside.context)).add("communicators", std::move(communicators));
  return json;
}

}  // namespace trainwright
