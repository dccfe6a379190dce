#include "kith/train/run/run_folder.h"

#include <array>
#include <ctime>
#include <span>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/config/schema.h"
#include "kith/train/durable_file.h"
#include "kith/train/run/parts.h"

namespace kith::train {
namespace {

std::string timestamp() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y%m%d-%H%M%S", &parts);
  return text.data();
}

void replace(const std::filesystem::path& file, std::string_view text) {
  DurableFile out(file);
  out.write(std::as_bytes(std::span(text)));
  out.commit();
}

void make_folder(const std::filesystem::path& path) {
  std::error_code problem;
  std::filesystem::create_directories(path, problem);
  if (problem)
    throw InputError(cat("cannot be made: ", problem.message()), path.string(), "choose another place");
}

// Two runs may begin in one second; the later one takes the next name.
std::filesystem::path fresh_name(const Job& job) {
  const std::filesystem::path parent = job.output.folder;
  make_folder(parent);
  const std::string name = cat(job.output.name, "-", timestamp());
  for (int attempt = 1; attempt < 1000; ++attempt) {
    const std::filesystem::path path = parent / (attempt == 1 ? name : cat(name, "-", attempt));
    std::error_code problem;
    if (std::filesystem::create_directory(path, problem)) return path;
    if (problem)
      throw InputError(cat("cannot be made: ", problem.message()), path.string(), "choose another place");
  }
  throw Error("a thousand runs of this name in one second", (parent / name).string());
}

void require_empty(const std::filesystem::path& path) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(path, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name == RunLock::kFileName || name.starts_with(kMarkPrefix)) continue;
    throw InputError("exists and is not empty", path.string(),
                     "choose another --out, or go on with --resume");
  }
}

}  // namespace

std::filesystem::path RunFolder::reserve(const Job& job, const std::filesystem::path& path) {
  if (path.empty()) return fresh_name(job);
  require_empty(path);
  make_folder(path);
  return std::filesystem::absolute(path).lexically_normal();
}

RunFolder RunFolder::create(const Job& job, const std::filesystem::path& path) {
  RunFolder folder(reserve(job, path));
  folder.lock_ = std::make_shared<const RunLock>(folder.path());
  require_empty(folder.path());  // somebody may have been here between the two
  folder.write_config(job);
  return folder;
}

RunFolder RunFolder::at(const std::filesystem::path& path) {
  return RunFolder(std::filesystem::absolute(path).lexically_normal());
}

RunFolder RunFolder::open(const std::filesystem::path& path) {
  RunFolder folder = at(path);
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(folder.config(), ignored)) {
    throw InputError("is not a run folder: it has no config.toml", path.string(),
                     "name a folder that kith train wrote");
  }
  return folder;
}

RunFolder RunFolder::take(const std::filesystem::path& path) {
  RunFolder folder = open(path);
  folder.lock_ = std::make_shared<const RunLock>(folder.path());
  return folder;
}

RunFolder RunFolder::take_part(const Job& job, const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(at(path).config(), ignored) ? take(path) : create(job, path);
}

bool RunFolder::has_model() const {
  std::error_code ignored;
  for (const char* name : {"model.pt", "model-state.pt", "model.safetensors"}) {
    if (!std::filesystem::exists(path_ / name, ignored)) return false;
  }
  return true;
}

void RunFolder::restore_config(const Job& job) const {
  std::error_code ignored;
  if (std::filesystem::exists(config(), ignored)) return;
  std::filesystem::create_directories(path_, ignored);
  write_config(job);
}

void RunFolder::write_config(const Job& job) const {
  replace(config(), print_config(job));
}
void RunFolder::write_summary(std::string_view json) const {
  replace(summary(), json);
}

}  // namespace kith::train
