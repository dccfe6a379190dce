#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace kith::cli {

// In the store of a run that a launcher started: kRunReady and worker 0's run folder, then, on a line of its
// own, the mark of its part (kith/train/run/parts.h). Worker 0 sets it (prepare_together.cc).
inline constexpr std::string_view kRunKey = "train/run";
inline constexpr char kRunReady = '=';

// The run folder that somebody means: the folder itself, or the store where the run's workers meet (a folder,
// HOST:PORT, tcp://HOST:PORT; with KITH_SECRET_FILE where the run has a secret). InputError when it is
// neither, or when no run is heard of in the store within ten seconds.
std::filesystem::path run_folder_of(const std::string& run_or_store);

}  // namespace kith::cli
