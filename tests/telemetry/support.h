#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include <unistd.h>

#include "kith/base/temp_folder.h"
#include "kith/base/text.h"
#include "kith/telemetry/event.h"

namespace kith::telemetry {

// A folder that is gone with the test.
class ScratchFolder {
 public:
  std::string file(std::string_view name) const { return cat(folder_.path(), "/", name); }

 private:
  const TempFolder folder_{"kith-telemetry-test"};
};

inline std::string read_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline Event event_of(int worker, std::string name, std::string track = "main") {
  return {.name = std::move(name),
          .category = "test",
          .worker = WorkerId{worker},
          .track = std::move(track),
          .start = Clock::Time(std::chrono::microseconds(1500)),
          .duration = std::chrono::nanoseconds(2500),
          .args = {}};
}

}  // namespace kith::telemetry
