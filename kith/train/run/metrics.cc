#include "kith/train/run/metrics.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/durable_file.h"
#include "kith/train/run/metric_lines.h"

namespace kith::train {
namespace {

using Json = nlohmann::ordered_json;

void add(MetricTotals& totals, const StepMetrics& m) {
  ++totals.steps;
  totals.seconds += m.seconds;
  totals.waited_seconds += m.waited_seconds;
  totals.bytes_read += static_cast<double>(m.bytes_read);
}

// A day of steps of ten milliseconds is ten times this.
constexpr std::size_t kMostPendingBytes = std::size_t{64} << 20;

bool write_at(int file, std::string_view text, std::int64_t offset) {
  while (!text.empty()) {
    const ssize_t written = ::pwrite(file, text.data(), text.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
    offset += written;
  }
  return true;
}

}  // namespace

std::string MetricsFile::kept_lines(std::int64_t steps_done) {
  std::string kept;
  std::ifstream in(path_);
  for (std::string line; std::getline(in, line);) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    // A killed worker may have left half a line.
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) continue;
    if (json["step"].get<std::int64_t>() > steps_done) continue;
    kept += line + "\n";
    if (json.value("kind", "") == "eval") last_evaluation_ = json["step"];
    if (json.value("kind", "") == "step") {
      StepMetrics step;
      step.seconds = json.value("seconds", 0.0);
      step.waited_seconds = json.value("waited_seconds", 0.0);
      step.bytes_read = json.value("bytes_read", std::uint64_t{0});
      add(totals_, step);
    }
  }
  return kept;
}

MetricsFile::MetricsFile(std::filesystem::path file, std::int64_t steps_done, Log* log)
    : path_(std::move(file)), log_(log) {
  const std::string kept = kept_lines(steps_done);
  std::error_code ignored;  // making the file tells
  std::filesystem::create_directories(path_.parent_path(), ignored);
  DurableFile whole(path_);
  whole.write(std::as_bytes(std::span(kept)));
  whole.commit();
  size_ = static_cast<std::int64_t>(kept.size());
  file_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
  if (file_ < 0) throw Error(cat("cannot be written: ", std::strerror(errno)), path_.string());
}

MetricsFile::~MetricsFile() {
  flush();
  ::close(file_);
}

void MetricsFile::append(std::string line) {
  line += '\n';
  if (pending_bytes_ + line.size() > kMostPendingBytes) {
    ++dropped_;
  } else {
    pending_bytes_ += line.size();
    pending_.push_back(std::move(line));
  }
  flush();
}

bool MetricsFile::flush() {
  if (pending_.empty()) return true;
  if (!follow_the_path()) return false;
  while (!pending_.empty()) {
    // At a place of its own: what an earlier try left of this line is written over.
    if (!write_at(file_, pending_.front(), size_)) {
      say_once(std::strerror(errno));
      return false;
    }
    size_ += static_cast<std::int64_t>(pending_.front().size());
    pending_bytes_ -= pending_.front().size();
    pending_.pop_front();
  }
  return true;
}

// When the path leads to another file, or to none: the one that is open still holds every line.
bool MetricsFile::follow_the_path() {
  struct stat here {};
  struct stat there {};
  if (::fstat(file_, &here) != 0) return false;
  if (::stat(path_.c_str(), &there) == 0 && here.st_ino == there.st_ino && here.st_dev == there.st_dev)
    return true;
  say_once("it was removed, and is written anew");
  std::error_code ignored;  // opening the file tells
  std::filesystem::create_directories(path_.parent_path(), ignored);
  const int again = ::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (again < 0) return false;
  std::string lines(static_cast<std::size_t>(size_), '\0');
  if (::pread(file_, lines.data(), lines.size(), 0) != size_ || !write_at(again, lines, 0)) {
    ::close(again);
    ::unlink(path_.c_str());
    return false;
  }
  ::close(std::exchange(file_, again));
  return true;
}

void MetricsFile::say_once(const char* problem) {
  if (log_ && !std::exchange(said_, true))
    log_->warning(cat(path_.string(), ": ", problem, "; lines wait in memory until they can be written"));
}

std::int64_t MetricsFile::unwritten() {
  flush();
  return dropped_ + static_cast<std::int64_t>(pending_.size());
}

void MetricsFile::write(const StepMetrics& m) {
  add(totals_, m);
  append(line_of(m));
}

void MetricsFile::write(const EvalMetrics& m) {
  last_evaluation_ = m.step;
  append(line_of(m));
}

void MetricsFile::write(const StartMetrics& m) {
  append(line_of(m));
}

void MetricsFile::write(const MembersMetrics& m) {
  append(line_of(m));
}

void MetricsFile::write(const LossMetrics& m) {
  append(line_of(m));
}

void MetricsFile::write(const LinkMetrics& m) {
  append(line_of(m));
}

void MetricsFile::write(const EndMetrics& m) {
  append(line_of(m));
}

}  // namespace kith::train
