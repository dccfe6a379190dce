#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "kith/train/checkpoint_folder.h"
#include "kith/train/data_parallel.h"

namespace kith::train {

struct SaveOptions {
  std::filesystem::path root;             // the checkpoint is root/ckpt-STEP
  int keep = 2;                           // newest checkpoints that stay; 0: all
  std::span<const std::byte> position{};  // of the data, opaque; Resumed::position gives it back
  int part = 0;  // workers who name the same number share `root`; others have one of their own
};

// Collective, after the same step on every worker and before the next backward: gradients are not saved.
// Every worker writes its file, rank 0 the manifest once all have reported; where there are several roots,
// the first worker of each writes the same manifest there. Returns the folder when the checkpoint is
// complete; Error on every worker when it is not (a full disk, a lost worker), bounded by the engine's
// patience. Options::resume_from of a new wrapper goes on from it, bit for bit as if nothing had happened
// where as many workers do.
std::filesystem::path save_checkpoint(DecentralizedDataParallel& model, const SaveOptions& options);

}  // namespace kith::train
