#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <thread>

#include "trainwright/base/json.h"
#include "trainwright/base/text.h"
#include "trainwright/tune/tune.h"

namespace trainwright {
namespace {

constexpr std::array<std::string_view, 3> kStates = {"planned", "started", "ended"};
constexpr const char* kFile = "history.sqlite";
constexpr const char* kAsked = "asked";  // beside the parts of a HistoryKey
constexpr int kTries = 50;               // for the lock, 20 ms each
constexpr int kBusy = 10'000;            // milliseconds to wait for a reader

constexpr const char* kTables = R"(
CREATE TABLE IF NOT EXISTS about (part TEXT PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS trials (
  id INTEGER PRIMARY KEY, layout TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('planned', 'started', 'ended')),
  why TEXT NOT NULL, predicted REAL NOT NULL, oom REAL NOT NULL,
  pid INTEGER NOT NULL DEFAULT 0, born INTEGER NOT NULL DEFAULT 0, boot TEXT NOT NULL DEFAULT '',
  ending TEXT NOT NULL DEFAULT '', step REAL NOT NULL DEFAULT 0, spread REAL NOT NULL DEFAULT 0,
  took REAL NOT NULL DEFAULT 0, cause TEXT NOT NULL DEFAULT '', memory TEXT NOT NULL DEFAULT '',
  changed TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, host TEXT NOT NULL DEFAULT '');
)";
// `PRAGMA user_version`. 0: before versions were written; such histories lack `memory`, `host` or
// both, and name models and clusters by all that was known of them then.
constexpr std::int64_t kVersion = 1;

struct Closing {
  void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, Closing>;
using Statement = std::unique_ptr<sqlite3_stmt, Closing>;

// {"ranks": [...]} as to_json below has it, {"host": true} where what ran out was the host's,
// {"stepped": true} of a trial that failed after a step.
std::string memory_text(const TrialResult& result) {
  Json json = Json::object();
  if (result.stepped) json.add("stepped", Json::of(true));
  if (result.host) json.add("host", Json::of(true));
  if (!result.memory.empty()) json.add("ranks", to_json(result.memory));
  return to_line(json);
}

std::optional<std::int64_t> whole_number(const Json& row, std::string_view key) {
  const Json* found = row.find(key);
  return found == nullptr ? std::nullopt : std::optional(found->integer);
}

void read_memory(const std::string& text, TrialRecord& record) {
  const auto json = parse_json(text, kFile);
  if (!json) return;
  record.host = json->find("host") != nullptr;
  record.stepped = json->find("stepped") != nullptr;
  const Json* ranks = json->find("ranks");
  if (ranks == nullptr) return;
  for (const Json& row : ranks->items) {
    LoggedMemory& one = record.memory.emplace_back();
    one.rank = whole_number(row, "rank");
    if (const auto bytes = whole_number(row, "allocated_bytes")) one.allocated = Bytes(*bytes);
    if (const auto bytes = whole_number(row, "reserved_bytes")) one.reserved = Bytes(*bytes);
  }
}

tl::unexpected<Error> fault_of(sqlite3* database, const std::string& path) {
  const bool full =
      sqlite3_errcode(database) == SQLITE_FULL || sqlite3_errcode(database) == SQLITE_IOERR;
  return fail(path, fmt::format("the history cannot be used: {}", sqlite3_errmsg(database)),
              full ? "make room on the disk, then `trainwright tune resume`; nothing is lost"
                   : "is it a history of `trainwright tune`, and may you write it?");
}

// One statement with its values; texts, numbers and whole numbers by position.
class Asking {
 public:
  Asking(sqlite3* database, const char* text) : database_(database) {
    sqlite3_stmt* made = nullptr;
    sqlite3_prepare_v2(database, text, -1, &made, nullptr);
    statement_.reset(made);
  }
  Asking& with(const std::string& text) {
    sqlite3_bind_text(statement_.get(), ++bound_, text.c_str(), static_cast<int>(text.size()),
                      SQLITE_TRANSIENT);
    return *this;
  }
  Asking& with(double number) {
    sqlite3_bind_double(statement_.get(), ++bound_, number);
    return *this;
  }
  Asking& with(std::int64_t number) {
    sqlite3_bind_int64(statement_.get(), ++bound_, number);
    return *this;
  }
  // SQLITE_ROW, SQLITE_DONE or a fault.
  int step() { return statement_ ? sqlite3_step(statement_.get()) : SQLITE_ERROR; }
  Result<void> done(const std::string& path) {
    if (step() != SQLITE_DONE) return fault_of(database_, path);
    return {};
  }
  std::string text(int column) const {
    const auto* bytes = sqlite3_column_text(statement_.get(), column);
    return bytes == nullptr ? "" : reinterpret_cast<const char*>(bytes);
  }
  std::size_t bytes(int column) const {
    return static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column));
  }
  double number(int column) const { return sqlite3_column_double(statement_.get(), column); }
  std::int64_t whole(int column) const { return sqlite3_column_int64(statement_.get(), column); }

 private:
  sqlite3* database_;
  Statement statement_;
  int bound_ = 0;
};

struct Lock {
  int file = -1;
  ~Lock() {
    if (file >= 0) close(file);
  }
  Lock() = default;
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
};

}  // namespace

Json to_json(const std::vector<LoggedMemory>& memory) {
  Json list = Json::array();
  for (const LoggedMemory& one : memory) {
    Json row = Json::object();
    if (one.rank) row.add("rank", Json::of(*one.rank));
    if (one.allocated) row.add("allocated_bytes", Json::of(one.allocated->value()));
    if (one.reserved) row.add("reserved_bytes", Json::of(one.reserved->value()));
    list.push(std::move(row));
  }
  return list;
}

std::string_view name_of(TrialState state) { return kStates[static_cast<std::size_t>(state)]; }

Seconds spent_on(const std::vector<TrialRecord>& records) {
  Seconds spent;
  for (const TrialRecord& record : records) spent += record.took;
  return spent;
}

struct History::State {
  std::string folder;
  Database database;
  Lock lock;
  std::string path() const { return folder + '/' + kFile; }
};

namespace {

Result<void> take_lock(Lock& lock, const std::string& folder) {
  const std::string path = folder + "/lock";
  lock.file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock.file < 0) return fail(path, "it cannot be opened", "may you write there?");
  // A watcher that was forked just before a kill has the lock for a moment.
  for (int tries = 0; flock(lock.file, LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (tries < kTries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      continue;
    }
    return fail(folder, "another `trainwright tune` is at work on this history",
                "`trainwright tune status` shows how far it is");
  }
  return {};
}

bool has_column(sqlite3* database, const std::string& name) {
  Asking asking(database, "SELECT 1 FROM pragma_table_info('trials') WHERE name = ?");
  return asking.with(name).step() == SQLITE_ROW;
}

std::int64_t version_of(sqlite3* database) {
  Asking asking(database, "PRAGMA user_version");
  return asking.step() == SQLITE_ROW ? asking.whole(0) : 0;
}

Result<void> known_version(sqlite3* database, const std::string& path) {
  const std::int64_t version = version_of(database);
  if (version <= kVersion) return {};
  return fail(path,
              fmt::format("the history is of version {}, this program knows {} and below", version,
                          kVersion),
              "use the trainwright that wrote it, or a later one");
}

// Tables and columns as this version has them.
bool brought_up(sqlite3* database) {
  const auto run = [&](const std::string& text) {
    return sqlite3_exec(database, text.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
  };
  if (!run(kTables)) return false;
  for (const char* column : {"memory", "host"}) {
    const std::string add =
        fmt::format("ALTER TABLE trials ADD COLUMN {} TEXT NOT NULL DEFAULT ''", column);
    if (!has_column(database, column) && !run(add)) return false;
  }
  return true;
}

// A history that somebody else made is SQL too: a view has rows without end, a trigger acts on what
// is written, and a cell can be computed.
constexpr int kLongestCell = 1 << 24;
constexpr std::size_t kMostTrials = 100'000, kMostParts = 100;
constexpr std::size_t kMostText = std::size_t{1} << 28;  // bytes of all trials
Result<void> only_tables(sqlite3* database, const std::string& path) {
  sqlite3_limit(database, SQLITE_LIMIT_LENGTH, kLongestCell);
  sqlite3_db_config(database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  Asking asking(
      database,
      "SELECT type, name FROM sqlite_master WHERE type NOT IN ('table', 'index') OR sql LIKE "
      "'%CREATE VIRTUAL%'");
  const int status = asking.step();
  if (status == SQLITE_DONE) return {};
  if (status != SQLITE_ROW) return fault_of(database, path);
  return fail(path, fmt::format("it has a {}, which no history has", asking.text(0)),
              "is it a history of `trainwright tune`?");
}

Result<Database> opened(const std::string& path, bool writes) {
  sqlite3* made = nullptr;
  const int how = writes ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
  const int status = sqlite3_open_v2(path.c_str(), &made, how, nullptr);
  Database database(made);
  if (status != SQLITE_OK) return fault_of(made, path);
  sqlite3_busy_timeout(made, kBusy);
  if (auto plain = only_tables(made, path); !plain) return tl::unexpected(plain.error());
  if (auto known = known_version(made, path); !known) return tl::unexpected(known.error());
  if (!writes) return database;
  // A commit is on the disk before anything is done that rests on it.
  if (sqlite3_exec(made, "PRAGMA synchronous = FULL", nullptr, nullptr, nullptr) != SQLITE_OK ||
      !brought_up(made)) {
    return fault_of(made, path);
  }
  return database;
}

Result<HistoryKey> about(sqlite3* database, const std::string& path) {
  HistoryKey parts;
  Asking asking(database, "SELECT part, text FROM about");
  int status = asking.step();
  for (; status == SQLITE_ROW; status = asking.step()) {
    parts[asking.text(0)] = asking.text(1);
    if (parts.size() > kMostParts)
      return fail(path, fmt::format("its question has more than {} parts", kMostParts));
  }
  if (status != SQLITE_DONE) return fault_of(database, path);
  return parts;
}

Result<void> write_about(sqlite3* database, const std::string& path, const HistoryKey& key,
                         const std::string& asked) {
  const auto run = [&](const char* text) {
    return sqlite3_exec(database, text, nullptr, nullptr, nullptr) == SQLITE_OK;
  };
  if (!run("BEGIN IMMEDIATE") || !run("DELETE FROM about") ||
      !run(fmt::format("PRAGMA user_version = {}", kVersion).c_str())) {
    return fault_of(database, path);
  }
  HistoryKey parts = key;
  parts[kAsked] = asked;
  for (const auto& [part, text] : parts) {
    Asking asking(database, "INSERT INTO about VALUES (?, ?)");
    if (auto done = asking.with(part).with(text).done(path); !done) {
      run("ROLLBACK");
      return done;
    }
  }
  if (!run("COMMIT")) return fault_of(database, path);
  return {};
}

// Two texts of `asked` name the same model and cluster.
bool same_words(const std::string& one, const std::string& other) {
  const auto a = parse_json(one, kFile), b = parse_json(other, kFile);
  if (!a || !b) return false;
  const auto same = [&](std::string_view key) {
    const Json *x = a->find(key), *y = b->find(key);
    return x != nullptr && y != nullptr && to_line(*x) == to_line(*y);
  };
  return same("model") && same("on");
}

// A history of version 0 names model and cluster by all that was known of them, which a corrected
// figure changes: the words of the question stand for them, and from here on what they are.
HistoryKey brought_up(HistoryKey known, const HistoryKey& key, const std::string& asked) {
  if (!known.contains(kAsked) || !same_words(known.at(kAsked), asked)) return known;
  for (const char* part : {"model", "cluster"}) {
    if (key.contains(part)) known[part] = key.at(part);
  }
  return known;
}

// Which parts of the question are not those of the history.
Result<void> same_question(HistoryKey known, const HistoryKey& key, const std::string& folder) {
  known.erase(kAsked);
  std::vector<std::string> changed;
  for (const auto& [part, text] : key) {
    if (!known.contains(part) || known.at(part) != text) changed.push_back(part);
  }
  for (const auto& [part, text] : known) {
    if (!key.contains(part)) changed.push_back(part);
  }
  if (changed.empty()) return {};
  return fail(folder,
              fmt::format("this history is of another question: {} changed", enumerate(changed)),
              "measured steps do not carry over; give another --history");
}

}  // namespace

History::History(std::unique_ptr<State> state) : state_(std::move(state)) {}
History::~History() = default;
History::History(History&&) noexcept = default;
History& History::operator=(History&&) noexcept = default;

Result<History> History::begin(const std::string& folder, const HistoryKey& key,
                               const std::string& asked, const std::vector<std::string>& renewed) {
  std::error_code fault;
  std::filesystem::create_directories(folder, fault);
  if (fault) return fail(folder, "the folder cannot be made: " + fault.message());
  auto state = std::make_unique<State>();
  state->folder = folder;
  if (auto taken = take_lock(state->lock, folder); !taken) return tl::unexpected(taken.error());
  state->database = TW_TRY(opened(state->path(), true));
  HistoryKey known = TW_TRY(about(state->database.get(), state->path()));
  bool changes = known.empty();
  std::string question = known.contains(kAsked) ? known.at(kAsked) : asked;
  if (version_of(state->database.get()) < kVersion) {
    known = brought_up(std::move(known), key, asked);
    changes = true;
  }
  for (const std::string& part : renewed) {
    const auto now = key.find(part);
    const std::string text = now == key.end() ? "" : now->second;
    if (known.empty() || known[part] == text) continue;
    known[part] = text;
    question = asked;
    changes = true;
  }
  std::erase_if(known,
                [&](const auto& part) { return part.second.empty() && !key.contains(part.first); });
  if (!known.empty()) {
    if (auto agreed = same_question(known, key, folder); !agreed)
      return tl::unexpected(agreed.error());
  }
  if (changes) {
    if (auto done = write_about(state->database.get(), state->path(), key, question); !done) {
      return tl::unexpected(done.error());
    }
  }
  return History(std::move(state));
}

Result<History> History::look(const std::string& folder) {
  auto state = std::make_unique<State>();
  state->folder = folder;
  if (std::error_code fault; !std::filesystem::exists(state->path(), fault)) {
    return fail(folder, "there is no history in it", "`trainwright tune run` makes one");
  }
  // A journal that a kill has left is rolled back by whoever opens next, which takes writing.
  const bool writes = access(state->path().c_str(), W_OK) == 0;
  state->database = TW_TRY(opened(state->path(), writes));
  const HistoryKey parts = TW_TRY(about(state->database.get(), state->path()));
  if (!parts.contains(kAsked)) {
    return fail(folder, "nothing was asked in this history", "begin with `trainwright tune run`");
  }
  return History(std::move(state));
}

const std::string& History::folder() const { return state_->folder; }
std::string History::folder_of(std::int64_t trial) const {
  return fmt::format("{}/trial-{}", state_->folder, trial);
}

Result<std::string> History::asked() const {
  return TW_TRY(about(state_->database.get(), state_->path())).at(kAsked);
}

Result<std::vector<TrialRecord>> History::records() const {
  const std::string text = fmt::format(
      "SELECT id, layout, state, why, predicted, oom, pid, born, boot, ending, step, spread, took, "
      "cause, {}, {} FROM trials ORDER BY id",
      has_column(state_->database.get(), "memory") ? "memory" : "''",
      has_column(state_->database.get(), "host") ? "host" : "''");
  Asking asking(state_->database.get(), text.c_str());
  std::vector<TrialRecord> records;
  std::size_t bytes = 0;
  int status = asking.step();
  for (; status == SQLITE_ROW; status = asking.step()) {
    for (const int column : {1, 3, 8, 13, 14}) bytes += asking.bytes(column);
    if (records.size() == kMostTrials || bytes > kMostText)
      return fail(state_->path(), fmt::format("it has more than {} trials or {} MiB of text",
                                              with_thousands(kMostTrials), kMostText >> 20));
    TrialRecord& one = records.emplace_back();
    one.id = asking.whole(0);
    one.layout = asking.text(1);
    const std::string state = asking.text(2), ending = asking.text(9);
    const auto* const found = std::find(kStates.begin(), kStates.end(), state);
    const auto end = ending.empty() ? std::optional(TrialEnd::Ok) : trial_end_named(ending);
    if (found == kStates.end() || !end) {
      return fail(state_->path(),
                  fmt::format("trial {} has the {} '{}', which this program does not know", one.id,
                              end ? "state" : "ending", end ? state : ending),
                  "use the trainwright that wrote it, or a later one");
    }
    one.state = static_cast<TrialState>(found - kStates.begin());
    one.why = asking.text(3);
    one.predicted = Seconds(asking.number(4));
    one.oom = asking.number(5);
    one.watcher = {asking.whole(6), asking.whole(7), asking.text(8), asking.text(15)};
    one.end = *end;
    one.step = Seconds(asking.number(10));
    one.spread = asking.number(11);
    one.took = Seconds(asking.number(12));
    one.cause = asking.text(13);
    read_memory(asking.text(14), one);
  }
  if (status != SQLITE_DONE) return fault_of(state_->database.get(), state_->path());
  return records;
}

Result<std::int64_t> History::plan(const std::string& layout, const std::string& why,
                                   const Belief& belief) {
  Asking asking(
      state_->database.get(),
      "INSERT INTO trials (layout, state, why, predicted, oom) VALUES (?, 'planned', ?, ?, ?)");
  asking.with(layout).with(why).with(belief.expected.value()).with(belief.oom);
  if (auto done = asking.done(state_->path()); !done) return tl::unexpected(done.error());
  return sqlite3_last_insert_rowid(state_->database.get());
}

Result<void> History::start(std::int64_t trial, const Watcher& watcher) {
  return Asking(state_->database.get(),
                "UPDATE trials SET state = 'started', pid = ?, born = ?, boot = ?, host = ?,"
                " changed = CURRENT_TIMESTAMP WHERE id = ? AND state = 'planned'")
      .with(watcher.pid)
      .with(watcher.born)
      .with(watcher.boot)
      .with(watcher.host)
      .with(trial)
      .done(state_->path());
}

Result<void> History::put_back(std::int64_t trial) {
  return Asking(state_->database.get(),
                "UPDATE trials SET state = 'planned' WHERE id = ? AND state = 'started'")
      .with(trial)
      .done(state_->path());
}

Result<void> History::end(std::int64_t trial, const TrialResult& result, Seconds took) {
  return Asking(state_->database.get(),
                "UPDATE trials SET state = 'ended', ending = ?, step = ?, spread = ?, took = ?, "
                "cause = ?, memory = ?, changed = CURRENT_TIMESTAMP WHERE id = ? AND state <> "
                "'ended'")
      .with(std::string(name_of(result.end)))
      .with(result.step.value())
      .with(result.spread)
      .with(took.value())
      .with(result.cause)
      .with(memory_text(result))
      .with(trial)
      .done(state_->path());
}

Result<std::string> History::integrity() const {
  Asking asking(state_->database.get(), "PRAGMA integrity_check");
  if (asking.step() != SQLITE_ROW) return fault_of(state_->database.get(), state_->path());
  return asking.text(0);
}

}  // namespace trainwright
