#pragma once

#include <filesystem>

#include "kith/train/data_parallel.h"

namespace kith::train {

struct ExportedFiles {
  std::filesystem::path module;  // STEM.pt: torch::load(module, path) in C++, torch.jit.load(path) in Python
  std::filesystem::path
      state_dict;  // STEM-state.pt: torch.load(path) in Python, a dictionary of names to tensors
  std::filesystem::path tensors;  // STEM.safetensors: the same for readers without torch
};

// Collective, after the same step on every worker: rank 0 writes the workers' exact mean model as three files
// that need no kith to read. Error on every worker when that fails.
ExportedFiles export_model(DecentralizedDataParallel& model, const std::filesystem::path& stem);

}  // namespace kith::train
