#pragma once

#include <filesystem>

#include "kith/train/data/folders.h"

namespace kith::cli {

// The shipped text beside this program, and MNIST in XDG_CACHE_HOME (or ~/.cache) under kith/mnist.
train::DataFolders data_folders();

}  // namespace kith::cli
