// Every reader with the worst texts of one length and of ten times that length: processor time in
// proportion, and memory of at most 64 bytes for a byte.
//
//   growth [--bytes N] [--all] [NAME]...
//
// Bytes of the longer texts, 1,000,000 unless told, and of a reader that accepts fewer so many. A
// reader that takes more than 64 bytes of memory for a byte has a limit that keeps all it takes
// below 640 MB. --all prints every shape, else only the worst of each reader. Names choose readers.
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>

#include "shapes.h"

namespace {

// Bytes of the heap, now and at most since the last look.
std::atomic<std::size_t> in_use{0}, most_in_use{0};

void* taken(std::size_t bytes) {
  void* const at = std::malloc(bytes);
  if (at == nullptr) throw std::bad_alloc();
  const std::size_t now = in_use += malloc_usable_size(at);
  if (now > most_in_use) most_in_use = now;
  return at;
}
void given_back(void* at) {
  in_use -= malloc_usable_size(at);
  std::free(at);
}

}  // namespace

void* operator new(std::size_t bytes) { return taken(bytes); }
void operator delete(void* at) noexcept { given_back(at); }
void operator delete(void* at, std::size_t) noexcept { given_back(at); }

namespace trainwright::growth {
namespace {

// What is linear takes 10 times as long, and up to twice that where caches hold the shorter text
// and not the longer one; what is quadratic takes 100 times as long.
constexpr double kMostTimes = 22, kMostBytes = 64;
constexpr double kMostMemory = 640e6;
constexpr std::size_t kUsual = 1'000'000;
constexpr int kRounds = 5;
// Below it a clock and the first touch of memory weigh more than what is read.
constexpr double kShort = 0.004;

struct Cost {
  double seconds = 0;
  std::size_t memory = 0;
  bool accepted = false;
};

Cost cost_of(const Reader& reader, const std::string& text) {
  const std::size_t before = in_use;
  most_in_use = before;
  const std::clock_t start = std::clock();
  const bool accepted = reader.read(text);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  return {seconds, most_in_use - before, accepted};
}

struct Row {
  std::string name;
  std::size_t bytes = 0;
  Cost small, large;
  double times() const { return large.seconds / std::max(small.seconds, kShort); }
  double per_byte() const { return static_cast<double>(large.memory) / static_cast<double>(bytes); }
  bool bad() const {
    return times() > kMostTimes ||
           (per_byte() > kMostBytes && static_cast<double>(large.memory) > kMostMemory);
  }
};

// Again where it seems slow, and the least of all rounds: other processes on the host.
Row measured(const Reader& reader, const Shape& shape, std::size_t bytes) {
  const std::string small = text_of(shape, bytes / 10), large = text_of(shape, bytes);
  Row row{reader.name + ": " + shape.name, large.size(), cost_of(reader, small),
          cost_of(reader, large)};
  for (int round = 1; round < kRounds && row.times() > kMostTimes; ++round) {
    row.small.seconds = std::min(row.small.seconds, cost_of(reader, small).seconds);
    row.large.seconds = std::min(row.large.seconds, cost_of(reader, large).seconds);
  }
  return row;
}

void print(const Row& row) {
  fmt::print(
      "{:<52} {:>11} bytes {:>8.1f} ms {:>6.1f} times {:>7.1f} MB {:>7.1f} bytes a byte  {}{}\n",
      row.name, row.bytes, row.large.seconds * 1e3, row.times(),
      static_cast<double>(row.large.memory) / 1e6, row.per_byte(),
      row.large.accepted ? "read" : "refused", row.bad() ? "  TOO MUCH" : "");
}

int run(std::size_t bytes, bool all, const std::vector<std::string>& names) {
  bool bad = false;
  for (const Reader& reader : readers()) {
    if (!names.empty() && std::find(names.begin(), names.end(), reader.name) == names.end())
      continue;
    std::vector<Row> rows;
    for (const Shape& shape : reader.shapes)
      rows.push_back(measured(reader, shape, std::min(bytes, reader.most) * 99 / 100));
    const auto slowest = std::max_element(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
      return a.large.seconds < b.large.seconds;
    });
    const auto largest = std::max_element(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
      return a.large.memory < b.large.memory;
    });
    for (auto row = rows.begin(); row != rows.end(); ++row) {
      bad |= row->bad();
      if (all || row == slowest || row == largest || row->bad()) print(*row);
    }
  }
  return bad ? 1 : 0;
}

}  // namespace
}  // namespace trainwright::growth

int main(int count, char** words) {
  std::size_t bytes = trainwright::growth::kUsual;
  bool all = false;
  std::vector<std::string> names;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--all") {
      all = true;
    } else if (word == "--bytes" && i + 1 < count) {
      bytes = std::strtoull(words[++i], nullptr, 10);
    } else {
      names.push_back(word);
    }
  }
  return trainwright::growth::run(bytes, all, names);
}
