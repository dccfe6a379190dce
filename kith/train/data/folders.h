#pragma once

#include <filesystem>

namespace kith::train {

// Where the data lies when a job names no path of its own.
struct DataFolders {
  std::filesystem::path text;   // the shipped text, a file
  std::filesystem::path mnist;  // where `kith data mnist` puts the files
  std::filesystem::path fashion_mnist = {};
};

}  // namespace kith::train
