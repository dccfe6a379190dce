#include <fstream>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/telemetry/file_sink.h"
#include "kith/telemetry/json.h"

namespace kith::telemetry {
namespace {

// The record that a line of a trace holds: without the comma that parts it from the next.
std::string_view record_of(std::string_view line) {
  if (line.ends_with(',')) line.remove_suffix(1);
  return line;
}

// Calls `take` with every record of a file that make_chrome_trace_sink wrote.
template <class Take>
void for_each_record(const std::string& path, const Take& take) {
  const auto no_trace = [&](int number) {
    return InputError("not a trace that kith wrote", cat(path, ":", number),
                      "expected '[', then a record per line");
  };
  std::ifstream file(path);
  if (!file) throw InputError("cannot read the trace", path, "does the file exist?");
  std::string line;
  if (!std::getline(file, line) || line != "[") throw no_trace(1);
  for (int number = 2; std::getline(file, line) && line != "]"; ++number) {
    const std::string_view record = record_of(line);
    if (record.empty()) continue;
    if (Json::accept(record)) {
      take(record);
    } else if (file.peek() != std::ifstream::traits_type::eof()) {
      throw no_trace(number);
    }
  }
}

}  // namespace

void merge_traces(const std::vector<std::string>& inputs, const std::string& output) {
  std::string merged = "[";
  const char* separator = "\n";
  for (const std::string& input : inputs) {
    for_each_record(input, [&](std::string_view record) {
      merged.append(separator).append(record);
      separator = ",\n";
    });
  }
  merged += "\n]\n";
  std::ofstream file(output);
  if (!(file << merged).flush()) {
    throw Error("cannot write the merged trace", output, "is there space, and may you write there?");
  }
}

}  // namespace kith::telemetry
