#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "kith/base/temp_folder.h"
#include "kith/base/text.h"
#include "kith/observe/run_reader.h"

namespace kith::observe {

// A run folder in the making.
class TestRun {
 public:
  TestRun() {
    std::ofstream(path() / "config.toml")
        << "[algorithm]\n# how\nname = \"awc\"  # a comment\nmix_every = 2\n"
           "[topology]\nname = \"ring\"\n[wire]\ntype = \"bf16\"\n";
  }

  std::filesystem::path path() const { return folder_.path(); }

  void line(int worker, const std::string& text, const char* end = "\n") const {
    const auto file = metrics_file(path(), worker);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::app) << text << end;
  }
  // A step in which the worker read `peer`.
  void step(int worker, int step, double seconds, double waited, int peer,
            const std::string& more = {}) const {
    line(worker,
         cat(R"({"kind":"step","step":)", step, R"(,"time":)", 1000 + 0.1 * step, R"(,"view":0,"loss":)",
             10.0 / step + worker, R"(,"seconds":)", seconds, R"(,"waited_seconds":)", waited,
             R"(,"units_per_second":100,"bytes_read":64,"consensus":0.5,"peers":{")", peer, R"(":{"waited":)",
             waited, R"(,"read":64}})", more, "}"));
  }

 private:
  const TempFolder folder_{"kith-observe-test"};
};

}  // namespace kith::observe
