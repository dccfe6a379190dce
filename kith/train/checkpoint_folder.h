#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kith/engine/options.h"
#include "kith/train/checkpoint_file.h"

namespace kith::train {

// A checkpoint is a folder ROOT/ckpt-STEP with one file per worker and a manifest, which is written last and
// names size and checksum of every file. It is valid or refused as a whole. Format:
// docs/checkpoint-format.md.

inline constexpr int kCheckpointVersion = 2;
// What a step may be at most: beyond it a double no longer counts.
inline constexpr std::int64_t kMostSteps = std::int64_t{1} << 53;

struct Manifest {
  std::string model;              // engine::EngineOptions::name
  std::int64_t step = 0;          // steps done
  std::vector<FileDigest> files;  // by rank
  engine::Cut cut = {};           // of the model into buckets; empty: whatever the job's topology makes of it
  std::string run = std::string(16, '0');  // the run that saved it, as in its files
  int workers() const { return static_cast<int>(files.size()); }
};

std::filesystem::path checkpoint_path(const std::filesystem::path& root, std::int64_t step);
std::string worker_file_name(int rank);

inline constexpr const char* kManifestName = "manifest.json";

// What manifest.json says, and back. InputError, naming `place`, when it holds what no manifest can hold.
std::string manifest_text(const Manifest& manifest);
Manifest parse_manifest(const std::string& text, const std::string& place);

// Temp + fsync + rename; the folder's entry is durable afterwards.
void write_manifest(const std::filesystem::path& folder, const Manifest& manifest);
void write_manifest(const std::filesystem::path& folder, const std::string& text);

// Only the manifest. InputError when it is missing, or holds what no manifest can hold.
Manifest read_manifest(const std::filesystem::path& folder);

// One worker's file. InputError when it is not what the manifest says, names and numbers included; of a file
// that lies elsewhere it says where.
WorkerFile read_worker_file(const std::filesystem::path& folder, const Manifest& manifest, int rank);

// Reads every byte of every file. InputError says what is wrong, and names the newest older checkpoint beside
// it that is valid (or that there is none).
Manifest verify_checkpoint(const std::filesystem::path& folder);

// The checkpoints under `root` that have a manifest, newest first; their contents may still be damaged.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& root);

// The first of them. InputError when there is none.
std::filesystem::path newest_checkpoint(const std::filesystem::path& root);

// The newest one that is valid as a whole.
std::optional<std::filesystem::path> newest_valid_checkpoint(const std::filesystem::path& root);

// The newest valid one older than `folder` under the same root: what a refusal offers.
std::optional<std::filesystem::path> previous_valid_checkpoint(const std::filesystem::path& folder);

// Removes all but the newest `keep` checkpoints with a manifest, and older folders without one. keep 0: keeps
// all.
void prune_checkpoints(const std::filesystem::path& root, int keep);

// The steps that have a folder under `root`, with a manifest or without, newest first.
std::vector<std::int64_t> steps_begun(const std::filesystem::path& root);

// Removes the folder when it has no manifest: what a save that failed has left takes room on a full disk.
void remove_incomplete(const std::filesystem::path& folder);

}  // namespace kith::train
