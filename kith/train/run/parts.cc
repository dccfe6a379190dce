#include "kith/train/run/parts.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/sha256.h"
#include "kith/base/text.h"
#include "kith/launch/agreement.h"

namespace kith::train {
namespace {

using Json = nlohmann::json;

// For whoever made a mark to write its number there, where another finds the file already.
constexpr auto kWriting = std::chrono::seconds(10);
constexpr auto kLookAgain = std::chrono::milliseconds(10);

constexpr const char* kPartFile = "part";
constexpr std::string_view kPartsKey = "train/parts-of-run";
constexpr std::string_view kNewcomersKey = "train/parts-of-newcomers";

std::string newcomer_key(std::int64_t number) {
  return cat(kNewcomersKey, "/", number);
}

// REQUIRES: each worker once.
void add_to(Parts& parts, int worker, const PartReport& report) {
  auto part = std::ranges::find(parts, report.part, &Part::number);
  if (part == parts.end()) part = parts.insert(parts.end(), {report.part, report.host, report.folder, {}});
  part->workers.push_back(worker);
  std::ranges::sort(part->workers);
  std::ranges::sort(parts, {}, &Part::number);
}

std::filesystem::path mark_in(const std::filesystem::path& folder, const std::string& mark) {
  return folder / cat(kMarkPrefix, mark);
}

}  // namespace

const Part& part_of(const Parts& parts, int worker) {
  const auto found = std::ranges::find_if(
      parts, [&](const Part& part) { return std::ranges::find(part.workers, worker) != part.workers.end(); });
  KITH_CHECK(found != parts.end(), "every worker has a part");
  return *found;
}

std::string draw_mark() {
  return hex(random_bytes(8));
}

std::optional<int> marked_part(const std::filesystem::path& folder, const std::string& mark) {
  const std::filesystem::path path = mark_in(folder, mark);
  const Deadline end = SteadyClock().now() + kWriting;
  while (true) {
    std::ifstream in(path);
    if (!in) return {};
    int number = -1;
    char last = 0;
    if (in >> number && in.get(last) && last == '\n') return number;
    if (SteadyClock().now() >= end)
      throw Error("is empty", path.string(), "whoever made it has ended: start again");
    std::this_thread::sleep_for(kLookAgain);
  }
}

int mark_part(const std::filesystem::path& folder, const std::string& mark, int worker) {
  const std::filesystem::path path = mark_in(folder, mark);
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0) {
    if (errno != EEXIST)
      throw Error(cat("cannot be made: ", std::strerror(errno)), path.string(),
                  "look at the space and rights of that disk");
    return marked_part(folder, mark).value_or(worker);
  }
  const std::string text = cat(worker, "\n");
  const bool written = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int problem = errno;
  ::close(file);
  if (written) return worker;
  ::unlink(path.c_str());
  throw Error(cat("cannot be written: ", std::strerror(problem)), path.string(),
              "look at the space of that disk");
}

void remove_mark(const std::filesystem::path& folder, const std::string& mark) {
  std::error_code ignored;
  std::filesystem::remove(mark_in(folder, mark), ignored);
}

void remove_marks(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> marks;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    if (entry.path().filename().string().starts_with(kMarkPrefix)) marks.push_back(entry.path());
  for (const std::filesystem::path& mark : marks)
    std::filesystem::remove(mark, ignored);
}

void write_part(const std::filesystem::path& folder, const std::string& mark, int number) {
  const std::filesystem::path aside = folder / cat(kPartFile, ".new");
  std::ofstream(aside) << mark << " " << number << "\n";
  std::filesystem::rename(aside, folder / kPartFile);
}

std::optional<int> part_in(const std::filesystem::path& folder, const std::string& mark) {
  std::ifstream in(folder / kPartFile);
  std::string known;
  int number = 0;
  if (!(in >> known >> number) || known != mark) return {};
  return number;
}

std::string encode(const PartReport& report) {
  return cat(report.part, "\n", report.host, "\n", report.folder.string());
}

Parts parts_of(const std::vector<std::string>& reports) {
  Parts parts;
  for (std::size_t worker = 0; worker < reports.size(); ++worker) {
    const std::vector<std::string> lines = split(reports[worker], '\n');
    if (lines.size() != 3) throw Error("tells nothing of its part", cat("worker ", worker));
    const int number = std::stoi(lines[0]);
    auto part = std::ranges::find(parts, number, &Part::number);
    if (part == parts.end()) part = parts.insert(parts.end(), {number, lines[1], lines[2], {}});
    if (static_cast<int>(worker) == number) {
      part->host = lines[1];
      part->folder = lines[2];
    }
    part->workers.push_back(static_cast<int>(worker));
  }
  std::ranges::sort(parts, {}, &Part::number);
  return parts;
}

std::string encode(const Parts& parts) {
  Json json = Json::array();
  for (const Part& part : parts)
    json.push_back({part.number, part.host, part.folder.string(), part.workers});
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Parts decode_parts(const std::string& text) {
  Parts parts;
  for (const Json& part : Json::parse(text))
    parts.push_back({part.at(0), part.at(1), part.at(2).get<std::string>(), part.at(3)});
  return parts;
}

void tell_parts(comm::Store& store, const Parts& parts) {
  store.set(kPartsKey, encode(parts));
}

void tell_newcomer(comm::Store& store, int worker, const PartReport& report) {
  const Json json{worker, report.part, report.host, report.folder.string()};
  store.set(newcomer_key(store.add(kNewcomersKey, 1)),
            json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Parts known_parts(comm::Store& store) {
  const auto told = store.get(kPartsKey);
  if (!told) return {};
  Parts parts = decode_parts(*told);
  const std::int64_t newcomers = store.add(kNewcomersKey, 0);
  for (std::int64_t number = 1; number <= newcomers; ++number) {
    const auto text = store.get(newcomer_key(number));
    if (!text) continue;  // it has died in between
    const Json json = Json::parse(*text);
    add_to(parts, json.at(0), {json.at(1), json.at(2), json.at(3).get<std::string>()});
  }
  return parts;
}

std::string parts_text(const Parts& parts) {
  std::vector<std::string> places;
  for (const Part& part : parts)
    places.push_back(
        cat(part.folder.string(), " on ", part.host, " (", launch::name_workers(part.workers), ")"));
  return cat(parts.size(), parts.size() == 1 ? " part: " : " parts: ", join(places));
}

}  // namespace kith::train
