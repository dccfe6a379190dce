#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <stdlib.h>

#include "kith/base/temp_folder.h"
#include "tests/support/failure.h"

namespace kith::train {

// A folder of its own for a test, gone afterwards.
class TestFolder {
 public:
  std::filesystem::path path() const { return folder_.path(); }
  std::filesystem::path write(const std::string& name, std::string_view text) const {
    std::ofstream(path() / name, std::ios::binary) << text;
    return path() / name;
  }

 private:
  const TempFolder folder_{"kith-run-test"};
};

inline std::string read_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

using support::failure_of;

}  // namespace kith::train
