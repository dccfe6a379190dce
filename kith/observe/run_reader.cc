#include "kith/observe/run_reader.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::observe {
namespace {

constexpr std::string_view kWorker = "worker-";

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// Up to a comment that is not inside quotes.
std::string_view without_comment(std::string_view line) {
  bool quoted = false;
  for (std::size_t k = 0; k < line.size(); ++k) {
    if (line[k] == '"') quoted = !quoted;
    if (line[k] == '#' && !quoted) return line.substr(0, k);
  }
  return line;
}

}  // namespace

std::string setting(const Settings& settings, std::string_view name) {
  for (const auto& [key, value] : settings)
    if (key == name) return value.starts_with('"') ? value.substr(1, value.size() - 2) : value;
  return {};
}

std::vector<int> workers_in(const std::filesystem::path& folder) {
  std::vector<int> workers;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    int worker = -1;
    if (!name.starts_with(kWorker)) continue;
    const char* const end = name.data() + name.size();
    if (std::from_chars(name.data() + kWorker.size(), end, worker).ptr == end && worker >= 0)
      workers.push_back(worker);
  }
  std::ranges::sort(workers);
  return workers;
}

std::filesystem::path metrics_file(const std::filesystem::path& folder, int worker) {
  return folder / cat(kWorker, worker) / "metrics.jsonl";
}

RunReader::RunReader(const std::filesystem::path& folder)
    : folder_(std::filesystem::absolute(folder).lexically_normal()) {
  if (!folder_.has_filename()) folder_ = folder_.parent_path();
  std::error_code ignored;
  if (!std::filesystem::exists(folder_ / "config.toml", ignored) && workers_in(folder_).empty()) {
    throw InputError("is not a run folder: it has neither config.toml nor worker-0/metrics.jsonl",
                     folder.string(), "name a folder that kith train wrote");
  }
  refresh();
}

bool RunReader::take_new_lines() {
  for (const int worker : workers_in(folder_))
    files_.try_emplace(worker, metrics_file(folder_, worker));
  for (auto& [id, file] : files_) {
    const bool same = file.read([&, worker = id](std::string_view text) {
      if (const auto line = parse_line(text)) state_.add(worker, *line);
    });
    if (!same) return false;
  }
  return true;
}

void RunReader::refresh() {
  // A resumed worker writes its file anew, without the steps that it repeats. Twice would be two resumes at
  // once: the next call sees the second.
  if (take_new_lines()) return;
  files_.clear();
  state_ = {};
  take_new_lines();
}

double RunReader::written(int worker) const {
  const auto file = files_.find(worker);
  return file == files_.end() ? 0 : file->second.written();
}

std::string RunReader::config_text() const {
  return text_of(folder_ / "config.toml");
}

std::string RunReader::summary_text() const {
  return text_of(folder_ / "summary.json");
}

Settings RunReader::settings() const {
  Settings all;
  std::ifstream in(folder_ / "config.toml");
  std::string section;
  for (std::string text; std::getline(in, text);) {
    const std::string_view line = trimmed(without_comment(text));
    if (line.starts_with('[') && line.ends_with(']')) section = line.substr(1, line.size() - 2);
    const auto equals = line.find('=');
    if (line.starts_with('[') || equals == std::string_view::npos) continue;
    all.emplace_back(cat(section, section.empty() ? "" : ".", trimmed(line.substr(0, equals))),
                     trimmed(line.substr(equals + 1)));
  }
  return all;
}

}  // namespace kith::observe
