#include "kith/train/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <iomanip>
#include <sstream>
#include <utility>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/durable_file.h"
#include "kith/train/strict_json.h"

namespace kith::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "ckpt-";
constexpr const char* kFormat = "kith-checkpoint";
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;
constexpr std::int64_t kMostWorkers = 1 << 20;
constexpr std::uint64_t kMostManifestBytes = std::uint64_t{1} << 30;

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

// Without the slash of "ckpt-7/".
fs::path plain(const fs::path& folder) {
  return folder.filename().empty() ? folder.parent_path() : folder;
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
  for (int rank = 0; rank < manifest.workers(); ++rank)
    read_worker_file(folder, manifest, rank);
}

std::uint64_t hex_in(const JsonField& field) {
  const auto value = from_hex(field.text());
  if (!value) field.refuse("is not 16 hexadecimal digits");
  return *value;
}

FileDigest digest_of(const JsonField& file, int rank) {
  FileDigest digest{file.at("name").text(), 0, 0};
  if (digest.name != worker_file_name(rank)) file.at("name").refuse(cat("is not ", worker_file_name(rank)));
  digest.bytes = static_cast<std::uint64_t>(file.at("bytes").integer(0, kMostBytes));
  digest.crc64 = hex_in(file.at("crc64"));
  if (file.has("host")) digest.host = file.at("host").text();
  if (file.has("folder")) digest.folder = file.at("folder").text();
  return digest;
}

engine::Cut cut_of(const JsonField& buckets) {
  engine::Cut cut;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const JsonField parts = buckets.at(b);
    cut.emplace_back();
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const JsonField part = parts.at(k);
      if (part.size() != 2) part.refuse("is not two numbers");
      cut.back().push_back({static_cast<std::size_t>(part.at(0).integer(0, kMostBytes)),
                            static_cast<std::size_t>(part.at(1).integer(1, kMostBytes))});
      if (k > 0 && cut.back()[k - 1].segment == cut.back()[k].segment)
        part.refuse("is of the parameter before");
    }
    if (cut.back().empty()) parts.refuse("is empty");
  }
  return cut;
}

Manifest manifest_of(const JsonField& root) {
  if (root.at("format").text() != kFormat) root.at("format").refuse(cat("is not ", kFormat));
  const std::int64_t version = root.at("version").integer(0, kMostBytes);
  if (version != kCheckpointVersion)
    root.at("version").refuse(cat(version, " is not the one that this kith reads, ", kCheckpointVersion),
                              "use the kith that wrote it");
  Manifest manifest{root.at("model").text(), root.at("step").integer(0, kMostSteps), {}, {}, {}};
  manifest.run = root.at("run").text();
  hex_in(root.at("run"));
  const JsonField files = root.at("files");
  if (root.at("workers").integer(1, kMostWorkers) != static_cast<std::int64_t>(files.size()))
    root.at("workers").refuse(cat("is not the number of files, ", files.size()));
  for (std::size_t k = 0; k < files.size(); ++k)
    manifest.files.push_back(digest_of(files.at(k), static_cast<int>(k)));
  if (root.has("buckets")) manifest.cut = cut_of(root.at("buckets"));
  return manifest;
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
  return cat("worker-", rank, ".safetensors");
}

std::string manifest_text(const Manifest& manifest) {
  Json json{{"format", kFormat},       {"version", kCheckpointVersion}, {"run", manifest.run},
            {"model", manifest.model}, {"step", manifest.step},         {"workers", manifest.workers()}};
  for (const FileDigest& file : manifest.files) {
    Json entry{{"name", file.name}, {"bytes", file.bytes}, {"crc64", hex_of(file.crc64)}};
    if (!file.host.empty()) entry["host"] = file.host;
    if (!file.folder.empty()) entry["folder"] = file.folder;
    json["files"].push_back(std::move(entry));
  }
  for (const auto& bucket : manifest.cut) {
    Json parts = Json::array();
    for (const engine::CutPart& part : bucket)
      parts.push_back({part.segment, part.count});
    json["buckets"].push_back(std::move(parts));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Manifest parse_manifest(const std::string& text, const std::string& place) {
  const Json json = parse_strictly(text, place);
  return manifest_of(JsonField(json, "", place));
}

void write_manifest(const fs::path& folder, const Manifest& manifest) {
  write_manifest(folder, manifest_text(manifest));
}

void write_manifest(const fs::path& folder, const std::string& text) {
  DurableFile out(folder / kManifestName);
  out.write(std::as_bytes(std::span(text)));
  out.commit();
  sync_folder(folder.parent_path());
}

Manifest read_manifest(const fs::path& folder) {
  const fs::path path = folder / kManifestName;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    throw InputError("has no manifest.json", folder.string(),
                     "it is no checkpoint, or it was never completed");
  }
  Manifest manifest = parse_manifest(read_plain_file(path, kMostManifestBytes), path.string());
  const auto step = step_of(plain(folder));
  if (step && *step != manifest.step) {
    throw InputError(cat("step is ", manifest.step, ", and the folder is that of step ", *step),
                     path.string(), "the manifest is of another checkpoint");
  }
  return manifest;
}

WorkerFile read_worker_file(const fs::path& folder, const Manifest& manifest, int rank) {
  const FileDigest& digest = manifest.files.at(static_cast<std::size_t>(rank));
  std::error_code ignored;
  if (!digest.host.empty() && !fs::exists(folder / digest.name, ignored)) {
    throw InputError(
        cat("worker ", rank, "'s file is not here: it was saved on ", digest.host, ", in ", digest.folder),
        (folder / digest.name).string(), "start a worker there too, or copy the file");
  }
  WorkerFile file = read_worker_file(folder, digest);
  const WorkerFileHeader& is = file.header;
  if (is == WorkerFileHeader{manifest.step, rank, manifest.workers(), manifest.run}) return file;
  throw InputError(cat("is worker ", is.rank, " of ", is.workers, " at step ", is.step, " of run ", is.run,
                       ", the manifest says ", rank, " of ", manifest.workers(), " at step ", manifest.step,
                       " of run ", manifest.run),
                   file.path.string(), "files of different checkpoints were mixed");
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
  std::error_code ignored;
  std::erase_if(folders,
                [&](const fs::path& folder) { return !fs::exists(folder / kManifestName, ignored); });
  return folders;
}

fs::path newest_checkpoint(const fs::path& root) {
  const std::vector<fs::path> checkpoints = list_checkpoints(root);
  if (checkpoints.empty())
    throw InputError("there is no checkpoint to go on from", root.string(), "start the run anew");
  return checkpoints.front();
}

std::optional<fs::path> newest_valid_checkpoint(const fs::path& root) {
  for (const fs::path& folder : list_checkpoints(root)) {
    if (valid(folder)) return folder;
  }
  return {};
}

std::optional<fs::path> previous_valid_checkpoint(const fs::path& folder) {
  const fs::path named = plain(folder);
  const auto step = step_of(named);
  if (!step) return {};
  for (const fs::path& candidate : list_checkpoints(named.has_parent_path() ? named.parent_path() : ".")) {
    if (*step_of(candidate) < *step && valid(candidate)) return candidate;
  }
  return {};
}

void prune_checkpoints(const fs::path& root, int keep) {
  if (keep == 0) return;
  int kept = 0;
  std::error_code ignored;
  for (const fs::path& folder : all_folders(root)) {
    const bool complete = fs::exists(folder / kManifestName, ignored);
    if (complete && kept < keep) {
      ++kept;
      continue;
    }
    if (kept == 0) continue;                      // newer than every complete one: perhaps being written
    fs::remove(folder / kManifestName, ignored);  // first, so that what a crash leaves is no checkpoint
    fs::remove_all(folder, ignored);
  }
}

std::vector<std::int64_t> steps_begun(const fs::path& root) {
  std::vector<std::int64_t> steps;
  for (const fs::path& folder : all_folders(root))
    steps.push_back(*step_of(folder));
  return steps;
}

void remove_incomplete(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder / kManifestName, ignored)) fs::remove_all(folder, ignored);
}

}  // namespace kith::train
