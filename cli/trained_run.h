#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "kith/train/config/job.h"
#include "kith/train/data/tokenizer.h"
#include "kith/train/models/model.h"

namespace kith::cli {

// kith-sentencepiece, beside this program.
std::filesystem::path sentencepiece_program();

// The job of a run. InputError when the folder is none, or its model is not `model`.
train::Job job_of_run(const std::string& run, const std::string& model);

// Puts the averaged model that the run left into `model`, in evaluation mode. InputError when the run is not
// finished.
void load_trained(const std::string& run, train::Model& model);

// How the run's data became tokens: bytes, or what its folder says.
std::unique_ptr<train::Tokenizer> tokenizer_of(const train::Job& job);

}  // namespace kith::cli
