#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "kith/train/checkpoint_folder.h"
#include "kith/train/run/parts.h"
#include "kith/train/run/run_folder.h"

namespace kith::train {

// What the parts of a run hold of its checkpoints, and what has to move where so that it can go on. Pure
// functions of what the parts report (collect_checkpoint.h does the rest).

// A checkpoint as one part has it.
struct HeldCheckpoint {
  std::int64_t step = 0;
  std::string manifest;                        // its text; empty: none
  std::map<std::string, std::uint64_t> files;  // name -> bytes
};
using HeldCheckpoints = std::vector<HeldCheckpoint>;  // newest first

// Sizes alone: nothing is read but manifests. The newest few.
HeldCheckpoints held_in(const std::filesystem::path& root);
std::string encode(const HeldCheckpoints& held);
HeldCheckpoints decode_held(const std::string& text);

// The newest step of which some part has a manifest. `held` is parallel to `parts`. InputError when there is
// none, or when the parts hold different runs.
std::int64_t newest_step(const Parts& parts, const std::vector<HeldCheckpoints>& held);

// What a part has of one checkpoint, read to the end, and of its workers' metrics.
struct HeldFiles {
  std::string manifest;                     // empty: none
  std::map<std::string, FileDigest> files;  // by name; those that could be read
  std::map<int, std::uint64_t> metrics;     // worker -> bytes of its metrics.jsonl
};
HeldFiles files_in(const RunFolder& folder, std::int64_t step);
std::string encode(const HeldFiles& held);
HeldFiles decode_files(const std::string& text);

// A file, by its path within the run folder, from one part to another.
struct Move {
  std::string file;
  std::uint64_t bytes = 0;
  int from = 0;  // parts, that is: the workers that made them
  int to = 0;
};

struct Collected {
  std::int64_t step = 0;
  std::string manifest;
  std::vector<Move> moves;  // each worker does its own in this order
};
std::string encode(const Collected& collected);
Collected decode_collected(const std::string& text);

// What `workers` workers need to go on from `step`: each part its own workers' files, or all of them where
// another number goes on; and their metrics. `files` is parallel to `parts`, and so is `held`, which is for
// the message alone. InputError names the worker, host and file where something is missing everywhere, and
// the newest older checkpoint that is complete.
Collected plan_moves(const Parts& parts, const std::vector<HeldFiles>& files,
                     const std::vector<HeldCheckpoints>& held, std::int64_t step);

}  // namespace kith::train
