#include "kith/train/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iomanip>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/durable_file.h"

namespace kith::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "ckpt-";
constexpr const char* kManifest = "manifest.json";
constexpr const char* kFormat = "kith-checkpoint";

std::string hex(std::uint64_t value) {
  std::ostringstream out;
  out << std::hex << std::setw(16) << std::setfill('0') << value;
  return out.str();
}

std::uint64_t from_hex(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc{} || end != text.data() + text.size())
    throw InputError(cat("'", text, "' is no checksum"));
  return value;
}

// The step in "ckpt-00000120"; nothing for other names.
std::optional<std::int64_t> step_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(kPrefix)) return {};
  std::int64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (error != std::errc{} || stop != end) return {};
  return step;
}

// Every folder named like a checkpoint, newest first.
std::vector<fs::path> all_folders(const fs::path& root) {
  std::vector<fs::path> folders;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root, ignored)) {
    if (entry.is_directory(ignored) && step_of(entry.path())) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end(),
            [](const fs::path& a, const fs::path& b) { return *step_of(a) > *step_of(b); });
  return folders;
}

void check_files(const fs::path& folder, const Manifest& manifest) {
  for (int rank = 0; rank < manifest.workers(); ++rank) {
    const FileDigest& expected = manifest.files[static_cast<std::size_t>(rank)];
    const WorkerFile file = read_worker_file(folder / expected.name);
    if (file.digest != expected) {
      throw InputError(cat("has ", file.digest.bytes, " bytes and checksum ", hex(file.digest.crc64),
                           ", the manifest says ", expected.bytes, " and ", hex(expected.crc64)),
                       (folder / expected.name).string(), "the file is not the one that was saved");
    }
    const WorkerFileHeader header{manifest.step, rank, manifest.workers()};
    if (file.header != header) {
      throw InputError(
          cat("is worker ", file.header.rank, " of ", file.header.workers, " at step ", file.header.step,
              ", the manifest says ", rank, " of ", manifest.workers(), " at step ", manifest.step),
          (folder / expected.name).string(), "files of different checkpoints were mixed");
    }
  }
}

bool valid(const fs::path& folder) {
  try {
    check_files(folder, read_manifest(folder));
    return true;
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace

fs::path checkpoint_path(const fs::path& root, std::int64_t step) {
  std::ostringstream name;
  name << kPrefix << std::setw(8) << std::setfill('0') << step;
  return root / name.str();
}

std::string worker_file_name(int rank) {
  return cat("worker-", rank, ".kith");
}

void write_manifest(const fs::path& folder, const Manifest& manifest) {
  nlohmann::ordered_json json{{"format", kFormat},
                              {"version", kCheckpointVersion},
                              {"model", manifest.model},
                              {"step", manifest.step},
                              {"workers", manifest.workers()}};
  for (const FileDigest& file : manifest.files) {
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"crc64", hex(file.crc64)}});
  }
  for (const auto& bucket : manifest.cut) {
    nlohmann::ordered_json parts = nlohmann::ordered_json::array();
    for (const engine::CutPart& part : bucket)
      parts.push_back({part.segment, part.count});
    json["buckets"].push_back(std::move(parts));
  }
  const std::string text = json.dump(2) + "\n";
  DurableFile out(folder / kManifest);
  out.write(std::as_bytes(std::span(text)));
  out.commit();
  sync_folder(folder.parent_path());
}

Manifest read_manifest(const fs::path& folder) {
  const fs::path path = folder / kManifest;
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    throw InputError("has no readable manifest.json", folder.string(),
                     "it is no checkpoint, or it was never completed");
  }
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  try {
    const auto json = nlohmann::json::parse(text);
    if (json.at("format") != kFormat) throw InputError(cat("has format ", json.at("format").dump()));
    if (json.at("version") != kCheckpointVersion) {
      throw InputError(
          cat("has version ", json.at("version").dump(), ", this kith reads ", kCheckpointVersion));
    }
    Manifest manifest{json.at("model"), json.at("step"), {}};
    for (const auto& file : json.at("files")) {
      manifest.files.push_back({file.at("name"), file.at("bytes"), from_hex(file.at("crc64"))});
    }
    if (manifest.workers() != json.at("workers").get<int>()) {
      throw InputError(
          cat("names ", manifest.workers(), " files for ", json.at("workers").dump(), " workers"));
    }
    for (const auto& bucket : json.value("buckets", nlohmann::json::array())) {
      manifest.cut.emplace_back();
      for (const auto& part : bucket)
        manifest.cut.back().push_back({part.at(0), part.at(1)});
    }
    return manifest;
  } catch (const nlohmann::json::exception& e) {
    throw InputError(e.what(), path.string(), "the manifest is damaged");
  } catch (const InputError& e) {
    throw InputError(e.what(), path.string(), "the manifest is damaged or of another version");
  }
}

Manifest verify_checkpoint(const fs::path& folder) {
  try {
    Manifest manifest = read_manifest(folder);
    check_files(folder, manifest);
    return manifest;
  } catch (const InputError& e) {
    const auto previous = previous_valid_checkpoint(folder);
    throw InputError(cat("checkpoint refused: ", e.what()), folder.string(),
                     previous ? cat("go on from ", previous->string(), ", the newest valid one before it")
                              : "there is no older valid one beside it");
  }
}

std::vector<fs::path> list_checkpoints(const fs::path& root) {
  std::vector<fs::path> folders = all_folders(root);
  std::erase_if(folders, [](const fs::path& folder) { return !fs::exists(folder / kManifest); });
  return folders;
}

std::optional<fs::path> newest_valid_checkpoint(const fs::path& root) {
  for (const fs::path& folder : list_checkpoints(root)) {
    if (valid(folder)) return folder;
  }
  return {};
}

std::optional<fs::path> previous_valid_checkpoint(const fs::path& folder) {
  const fs::path plain = folder.filename().empty() ? folder.parent_path() : folder;  // "ckpt-7/"
  const auto step = step_of(plain);
  if (!step) return {};
  for (const fs::path& candidate : list_checkpoints(plain.has_parent_path() ? plain.parent_path() : ".")) {
    if (*step_of(candidate) < *step && valid(candidate)) return candidate;
  }
  return {};
}

void prune_checkpoints(const fs::path& root, int keep) {
  if (keep == 0) return;
  int kept = 0;
  std::error_code ignored;
  for (const fs::path& folder : all_folders(root)) {
    const bool complete = fs::exists(folder / kManifest, ignored);
    if (complete && kept < keep) {
      ++kept;
      continue;
    }
    if (kept == 0) continue;                  // newer than every complete one: perhaps being written
    fs::remove(folder / kManifest, ignored);  // first, so that what a crash leaves is no checkpoint
    fs::remove_all(folder, ignored);
  }
}

void remove_incomplete(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder / kManifest, ignored)) fs::remove_all(folder, ignored);
}

}  // namespace kith::train
