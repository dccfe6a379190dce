#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

#include "kith/base/text.h"
#include "kith/graph/schedule.h"

namespace kith::graph {

// Every shape the topologies are proven on: one node of 1 to 64 workers, and nodes equal and unequal.
inline std::vector<Shape> all_shapes() {
  std::vector<Shape> shapes;
  for (int n = 1; n <= 64; ++n)
    shapes.push_back(Shape::single_node(n));
  for (const char* text :
       {"3x2", "5x1", "4,2,1", "8x8", "2x4", "4x4", "1,1", "6x3", "7,7,7,6,7", "1,9,2,5,3,3"}) {
    shapes.push_back(Shape::parse(text, "test"));
  }
  return shapes;
}

inline std::unique_ptr<Schedule> make(const std::string& topology, const Shape& shape,
                                      std::uint64_t seed = 7) {
  ScheduleOptions options;
  options.topology = topology;
  options.shape = shape;
  options.seed = seed;
  return make_schedule(options);
}

// Every topology but `file`, which needs one.
inline std::vector<std::string> built_in_names() {
  std::vector<std::string> names = schedule_names();
  std::erase(names, "file");
  return names;
}

inline std::string describe(const Schedule& schedule) {
  return cat(schedule.name(), " on ", schedule.shape().text(), " (seed 7)");
}

// A file that goes away with the object.
class TempFile {
 public:
  explicit TempFile(const std::string& contents)
      : path_(std::filesystem::temp_directory_path() /
              cat("kith-graph-", ::getpid(), "-", reinterpret_cast<std::uintptr_t>(this), ".json")) {
    std::ofstream(path_) << contents;
  }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  ~TempFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  std::string path() const { return path_.string(); }

 private:
  const std::filesystem::path path_;
};

}  // namespace kith::graph
