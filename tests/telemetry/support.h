#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include <unistd.h>

#include "kith/telemetry/event.h"

namespace kith::telemetry {

// A folder that is gone with the test.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "kith-telemetry-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() { std::filesystem::remove_all(path_); }

  std::string file(std::string_view name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
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
