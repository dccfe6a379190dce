#include "bench/scale/usage.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include <sys/resource.h>
#include <sys/time.h>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::bench {
namespace {

double in_seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

// The number behind `label` at the beginning of a line; 0 where there is none.
double find(const std::string& file, const std::string& label) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(label)) return std::stod(line.substr(label.size()));
  }
  return 0;
}

int entries(const std::string& folder) {
  const std::filesystem::directory_iterator begin(folder);
  return static_cast<int>(std::distance(begin, std::filesystem::directory_iterator()));
}

}  // namespace

std::string Usage::text() const {
  return cat(processor_s, " ", memory_kb, " ", descriptors, " ", threads);
}

Usage Usage::parse(const std::string& text) {
  std::istringstream in(text);
  Usage usage;
  if (!(in >> usage.processor_s >> usage.memory_kb >> usage.descriptors >> usage.threads))
    throw Error(cat("'", text, "' is no measurement"), "bench/scale");
  return usage;
}

Usage own_usage() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const std::string shares = "/proc/self/smaps_rollup";
  return {.processor_s = in_seconds(used.ru_utime) + in_seconds(used.ru_stime),
          .memory_kb = find(shares, "Pss_Anon:") + find(shares, "Pss_Shmem:"),
          .descriptors = entries("/proc/self/fd") - 1,  // the one that lists them
          .threads = entries("/proc/self/task")};
}

}  // namespace kith::bench
