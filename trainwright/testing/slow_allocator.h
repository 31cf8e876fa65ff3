#pragma once
// The caching allocators again, slow and obvious: every segment is a list of blocks, every question
// is answered by looking at all of them. Written from the rules, without the code it checks.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "trainwright/allocator/allocator.h"

namespace trainwright::testing {

struct SlowBlock {
  std::int64_t address, size, requested = 0;
  BlockState state = BlockState::Free;
  bool mapped = true;
  std::int64_t searches = 0;  // of its pool, when it became free
  std::set<int> used_on, waits_for;
};

struct SlowSegment {
  std::int64_t address;
  int stream;
  bool small, expandable;
  std::vector<SlowBlock> blocks;
};

struct SlowAllocator {
  AllocatorSettings settings;
  std::vector<SlowSegment> segments = {};  // in address order
  std::int64_t next_address = 2 << 20;
  std::int64_t searches[2] = {0, 0};  // large, small
  std::vector<std::pair<int, std::int64_t>> waiting =
      {};  // stream and address, in order of freeing
  std::set<std::pair<int, std::int64_t>> ready = {};
  std::int64_t retries = 0, failures = 0, collected = 0;

  struct Place {
    std::size_t segment, block;
  };

  std::int64_t allowed() const {
    const double share = settings.memory_fraction.value_or(1);
    return static_cast<std::int64_t>(share * static_cast<double>(settings.capacity.value()));
  }

  std::int64_t reserved() const {
    std::int64_t sum = 0;
    for (const SlowSegment& segment : segments) {
      for (const SlowBlock& block : segment.blocks) sum += block.mapped ? block.size : 0;
    }
    return sum;
  }

  Place place_of(std::int64_t address) const {
    for (std::size_t s = 0; s < segments.size(); ++s) {
      for (std::size_t b = 0; b < segments[s].blocks.size(); ++b) {
        if (segments[s].blocks[b].address == address) return {s, b};
      }
    }
    return {segments.size(), 0};
  }

  // Joins every pair of free neighbours of a segment that are alike; the joined block is as new as
  // the block at `fresh`, which just became free.
  void join(SlowSegment& segment, std::int64_t fresh) {
    auto& blocks = segment.blocks;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      if (blocks[b].address == fresh) blocks[b].searches = searches[segment.small ? 1 : 0];
    }
    for (std::size_t b = 0; b + 1 < blocks.size();) {
      SlowBlock& left = blocks[b];
      SlowBlock& right = blocks[b + 1];
      const bool both_free = left.state == BlockState::Free && right.state == BlockState::Free;
      if (both_free && left.mapped == right.mapped) {
        left.size += right.size;
        left.searches = searches[segment.small ? 1 : 0];
        blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(b) + 1);
      } else {
        ++b;
      }
    }
  }

  void cut(SlowSegment& segment, std::size_t block, std::int64_t front) {
    SlowBlock rest = segment.blocks[block];
    rest.address += front;
    rest.size -= front;
    segment.blocks[block].size = front;
    segment.blocks.insert(segment.blocks.begin() + static_cast<std::ptrdiff_t>(block) + 1, rest);
  }

  bool new_segment(std::int64_t size, int stream, bool small) {
    if (reserved() + size > allowed()) return false;
    segments.push_back(
        {next_address, stream, small, false, {{next_address, size, 0, {}, true, 0, {}, {}}}});
    segments.back().blocks[0].state = BlockState::Free;
    const std::int64_t page = 2 << 20;
    next_address += (size + page - 1) / page * page + page;
    return true;
  }

  // Smallest free block of at least `size`, lowest address among equals.
  std::optional<Place> best(std::int64_t size, int stream, bool small) const {
    std::optional<Place> found;
    for (std::size_t s = 0; s < segments.size(); ++s) {
      if (segments[s].stream != stream || segments[s].small != small) continue;
      for (std::size_t b = 0; b < segments[s].blocks.size(); ++b) {
        const SlowBlock& block = segments[s].blocks[b];
        if (block.state != BlockState::Free || !block.mapped || block.size < size) continue;
        if (!found || block.size < segments[found->segment].blocks[found->block].size) {
          found = Place{s, b};
        }
      }
    }
    return found;
  }

  void become_free(std::int64_t address) {
    const Place place = place_of(address);
    SlowBlock& block = segments[place.segment].blocks[place.block];
    block.state = BlockState::Free;
    block.requested = 0;
    join(segments[place.segment], address);
  }

  void stop_waiting(bool all) {
    // Streams in order, oldest first within a stream.
    std::stable_sort(waiting.begin(), waiting.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::pair<int, std::int64_t>> still;
    for (const auto& entry : waiting) {
      if (!all && !ready.contains(entry)) {
        still.push_back(entry);
        continue;
      }
      const Place place = place_of(entry.second);
      SlowBlock& block = segments[place.segment].blocks[place.block];
      block.waits_for.erase(entry.first);
      if (block.waits_for.empty()) become_free(entry.second);
    }
    waiting = still;
    ready.clear();
  }

  static bool idle(const SlowSegment& segment) {
    return !segment.expandable && segment.blocks.size() == 1 &&
           segment.blocks[0].state == BlockState::Free;
  }

  void empty_cache() {
    stop_waiting(true);
    std::erase_if(segments, idle);
    for (SlowSegment& segment : segments) {
      if (!segment.expandable) continue;
      const std::int64_t page = segment.small ? 2 << 20 : settings.large_segment.value();
      for (std::size_t b = 0; b < segment.blocks.size(); ++b) {
        if (segment.blocks[b].state != BlockState::Free || !segment.blocks[b].mapped) continue;
        const std::int64_t begin = segment.blocks[b].address - segment.address;
        const std::int64_t end = begin + segment.blocks[b].size;
        const std::int64_t first = (begin + page - 1) / page * page;
        const std::int64_t last = end / page * page;
        if (first >= last) continue;
        if (last < end) cut(segment, b, last - begin);
        if (first > begin) cut(segment, b++, first - begin);
        segment.blocks[b].mapped = false;
      }
      join(segment, -1);
    }
  }

  // ---- PyTorch

  std::int64_t rounded(std::int64_t requested) const {
    if (requested < 512) return 512;
    std::size_t interval = 0;
    while (interval < 15 && (std::int64_t{2 << 20} << interval) <= requested) ++interval;
    const std::int64_t divisions = settings.roundup_power2_divisions[interval];
    if (divisions > 1 && requested > 512 * divisions) {
      std::int64_t floor = 512;
      while (floor * 2 <= requested) floor *= 2;
      std::int64_t size = floor;
      while (size < requested) size += floor / divisions;
      return size;
    }
    return (requested + 511) / 512 * 512;
  }

  void collect(std::int64_t threshold) {
    while (reserved() > threshold) {
      double sum = 0;
      int count = 0;
      const auto age = [&](const SlowSegment& segment) {
        return static_cast<double>(searches[0] - segment.blocks[0].searches);
      };
      for (const SlowSegment& segment : segments) {
        if (segment.small || !idle(segment)) continue;
        sum += age(segment);
        ++count;
      }
      if (count == 0) return;
      collected += static_cast<std::int64_t>(std::erase_if(segments, [&](const auto& segment) {
        return !segment.small && idle(segment) && age(segment) >= sum / count;
      }));
    }
  }

  bool map_pages(std::size_t s, std::size_t b, std::int64_t size) {
    SlowSegment& segment = segments[s];
    const std::int64_t page = segment.small ? 2 << 20 : settings.large_segment.value();
    const std::int64_t bytes = (size + page - 1) / page * page;
    if (reserved() + bytes > allowed()) return false;
    if (bytes < segment.blocks[b].size) cut(segment, b, bytes);
    segment.blocks[b].mapped = true;
    join(segment, segment.blocks[b].address);
    return true;
  }

  std::optional<Place> expand(std::int64_t size, int stream, bool small) {
    const auto room_from = [&](std::size_t s, std::size_t b) {
      std::int64_t room = 0;
      for (; b < segments[s].blocks.size() && segments[s].blocks[b].state == BlockState::Free;
           ++b) {
        room += segments[s].blocks[b].size;
      }
      return room;
    };
    for (int attempt = 0; attempt < 2; ++attempt) {
      for (std::size_t s = 0; s < segments.size(); ++s) {
        const SlowSegment& segment = segments[s];
        if (!segment.expandable || segment.stream != stream || segment.small != small) continue;
        for (std::size_t b = 0; b < segment.blocks.size(); ++b) {
          if (segment.blocks[b].mapped) continue;
          std::size_t first = b;
          if (b > 0 && segment.blocks[b - 1].state == BlockState::Free) --first;
          if (room_from(s, first) < size) continue;
          const std::int64_t address = segment.blocks[first].address;
          for (;;) {
            const Place at = place_of(address);
            const SlowBlock& block = segments[s].blocks[at.block];
            if (!block.mapped) {
              if (!map_pages(s, at.block, std::min(block.size, size))) return std::nullopt;
            } else if (block.size < size) {
              const std::int64_t missing = size - block.size;
              const std::int64_t here = segments[s].blocks[at.block + 1].size;
              if (!map_pages(s, at.block + 1, std::min(missing, here))) return std::nullopt;
            } else {
              return at;
            }
          }
        }
      }
      const std::int64_t page = small ? 2 << 20 : settings.large_segment.value();
      const std::int64_t capacity = settings.capacity.value();
      const std::int64_t space = (capacity + capacity / 8 + page - 1) / page * page;
      segments.push_back(
          {next_address, stream, small, true, {{next_address, space, 0, {}, false, 0, {}, {}}}});
      segments.back().blocks[0].state = BlockState::Free;
      next_address += (space + (2 << 20) - 1) / (2 << 20) * (2 << 20) + (2 << 20);
    }
    return std::nullopt;
  }

  std::optional<Place> take(std::int64_t size, int stream, bool small) const {
    auto found = best(size, stream, small);
    if (!found) return found;
    const auto block_at = [&](Place p) { return segments[p.segment].blocks[p.block]; };
    if (settings.expandable_segments) {
      const auto grown = [&](Place p) {
        const auto& blocks = segments[p.segment].blocks;
        const bool grows = p.block + 1 < blocks.size() && !blocks[p.block + 1].mapped;
        return blocks[p.block].size + (grows ? blocks[p.block + 1].size : 0);
      };
      // All that are large enough, in best-fit order; go on while the next one grows to less.
      std::vector<Place> fits;
      for (std::size_t s = 0; s < segments.size(); ++s) {
        if (segments[s].stream != stream || segments[s].small != small) continue;
        for (std::size_t b = 0; b < segments[s].blocks.size(); ++b) {
          const SlowBlock& block = segments[s].blocks[b];
          if (block.state == BlockState::Free && block.mapped && block.size >= size) {
            fits.push_back({s, b});
          }
        }
      }
      std::stable_sort(fits.begin(), fits.end(),
                       [&](Place a, Place b) { return block_at(a).size < block_at(b).size; });
      std::size_t i = 0;
      while (i + 1 < fits.size() && grown(fits[i + 1]) < grown(fits[i])) ++i;
      found = fits[i];
    }
    if (settings.max_split_size) {
      const std::int64_t limit = settings.max_split_size->value();
      const std::int64_t has = block_at(*found).size;
      if (size < limit && has >= limit) return std::nullopt;
      if (size >= limit && has >= size + settings.max_non_split_rounding.value()) {
        return std::nullopt;
      }
    }
    return found;
  }

  bool release_oversize(std::int64_t size, int stream, bool small) {
    if (!settings.max_split_size) return false;
    const std::int64_t limit = settings.max_split_size->value();
    const std::int64_t wanted = std::max(size, limit);
    std::vector<std::pair<std::int64_t, std::int64_t>> cached;  // size, address
    for (const SlowSegment& segment : segments) {
      if (segment.stream != stream || segment.small != small || !idle(segment)) continue;
      if (segment.blocks[0].size >= limit)
        cached.emplace_back(segment.blocks[0].size, segment.address);
    }
    std::sort(cached.begin(), cached.end());
    std::set<std::int64_t> gone;
    std::int64_t sum = 0;
    for (const auto& [has, address] : cached) {
      if (has >= wanted) {
        gone = {address};
        sum = has;
        break;
      }
    }
    if (gone.empty()) {
      for (auto it = cached.rbegin(); it != cached.rend() && sum < wanted; ++it) {
        gone.insert(it->second);
        sum += it->first;
      }
    }
    std::erase_if(segments, [&](const auto& segment) { return gone.contains(segment.address); });
    return sum >= wanted;
  }

  std::optional<std::int64_t> allocate_pytorch(std::int64_t requested, int stream) {
    stop_waiting(false);
    const std::int64_t size = rounded(requested);
    const bool small = size <= 1 << 20;
    std::int64_t segment = (size + (2 << 20) - 1) / (2 << 20) * (2 << 20);
    if (small) segment = 2 << 20;
    if (!small && size < 10 << 20) segment = settings.large_segment.value();
    const bool collecting = settings.memory_fraction && settings.garbage_collection_threshold > 0;
    if (collecting) ++searches[small ? 1 : 0];
    std::optional<Place> place = take(size, stream, small);
    const auto from_device = [&]() -> std::optional<Place> {
      if (settings.memory_fraction && reserved() + segment > allowed()) return std::nullopt;
      if (settings.expandable_segments) return expand(size, stream, small);
      if (!new_segment(segment, stream, small)) return std::nullopt;
      return Place{segments.size() - 1, 0};
    };
    if (!place && collecting) {
      collect(static_cast<std::int64_t>(settings.garbage_collection_threshold *
                                        static_cast<double>(allowed())));
    }
    if (!place) place = from_device();
    if (!place && release_oversize(size, stream, small)) place = from_device();
    if (!place) {
      empty_cache();
      ++retries;
      place = from_device();
    }
    if (!place) {
      ++failures;
      return std::nullopt;
    }
    SlowSegment& home = segments[place->segment];
    const std::int64_t rest = home.blocks[place->block].size - size;
    const bool splits = small || settings.expandable_segments
                            ? rest >= 512
                            : rest > 1 << 20 && (!settings.max_split_size ||
                                                 size < settings.max_split_size->value());
    if (splits) {
      cut(home, place->block, size);
      home.blocks[place->block + 1].searches = searches[small ? 1 : 0];
    }
    return occupy(home.blocks[place->block], requested);
  }

  // ---- Paddle

  std::optional<std::int64_t> allocate_paddle(std::int64_t requested, int stream) {
    stop_waiting(false);
    const std::int64_t size = (requested + 255) / 256 * 256;
    std::optional<Place> place = best(size, stream, false);
    if (!place) {
      const std::int64_t chunk =
          std::max(size, (settings.chunk_size.value() + 255) / 256 * 256) + 256;
      bool made = new_segment(chunk, stream, false);
      if (!made) {
        std::erase_if(segments, [&](const auto& s) { return s.stream == stream && idle(s); });
        ++retries;
        made = new_segment(chunk, stream, false);
      }
      if (!made) {
        empty_cache();
        made = new_segment(chunk, stream, false);
      }
      if (!made) {
        ++failures;
        return std::nullopt;
      }
      place = Place{segments.size() - 1, 0};
    }
    SlowSegment& home = segments[place->segment];
    const std::int64_t rest = home.blocks[place->block].size - size;
    if (rest == 0) return occupy(home.blocks[place->block], requested);
    cut(home, place->block, rest);
    return occupy(home.blocks[place->block + 1], requested);
  }

  // ---- what both share

  std::int64_t occupy(SlowBlock& block, std::int64_t requested) {
    block.state = BlockState::Allocated;
    block.requested = requested;
    return block.address;
  }

  std::optional<std::int64_t> allocate(std::int64_t requested, int stream) {
    return settings.strategy == AllocatorStrategy::PyTorch ? allocate_pytorch(requested, stream)
                                                           : allocate_paddle(requested, stream);
  }

  void free(std::int64_t address) {
    const Place place = place_of(address);
    SlowBlock& block = segments[place.segment].blocks[place.block];
    if (block.used_on.empty()) return become_free(address);
    block.state = BlockState::AwaitingFree;
    block.waits_for = std::exchange(block.used_on, {});
    for (const int stream : block.waits_for) waiting.emplace_back(stream, address);
  }

  void record_stream(std::int64_t address, int stream) {
    const Place place = place_of(address);
    if (segments[place.segment].stream == stream) return;
    segments[place.segment].blocks[place.block].used_on.insert(stream);
  }

  void complete(int stream) {
    for (const auto& entry : waiting) {
      if (entry.first == stream) ready.insert(entry);
    }
  }

  std::vector<Segment> result() const {
    std::vector<Segment> all;
    for (const SlowSegment& segment : segments) {
      bool open = false;
      for (const SlowBlock& block : segment.blocks) {
        if (!block.mapped) {
          open = false;
          continue;
        }
        if (!open) {
          all.push_back({block.address,
                         Bytes(0),
                         StreamId(segment.stream),
                         segment.small,
                         segment.expandable,
                         {}});
        }
        open = true;
        all.back().size += Bytes(block.size);
        all.back().blocks.push_back(
            {block.address, Bytes(block.size), Bytes(block.requested), block.state});
      }
    }
    return all;
  }
};

}  // namespace trainwright::testing
