#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kith/base/log.h"
#include "kith/telemetry/sink.h"

namespace kith::telemetry {

// A sink writes a file of its own: open one per process, after any fork. InputError when the file cannot be
// created. A write that fails later is logged once; what it held is written when the disk takes it again, and
// dropped when that is too much to wait for. `log` may be null.
struct FileSinkOptions {
  std::string path;
  std::size_t buffer_bytes = 64 * 1024;
  Log* log = nullptr;
};

// One JSON object per line:
//   {"kind":"event","name":..,"category":..,"worker":..,"track":..,"start_ns":..,"duration_ns":..,"args":{..}}
//   {"kind":"counters","name":..,"worker":..,"time_ns":..,"values":{..}}
// Times count from the clock's own origin, which the processes of one machine share.
std::unique_ptr<Sink> make_json_lines_sink(const FileSinkOptions& options);

// The JSON array that chrome://tracing and Perfetto open: a process per worker, a thread per track, arrows
// between them. One
// record per line; the file is a complete array after every flush, so a worker that is killed leaves a
// readable one.
std::unique_ptr<Sink> make_chrome_trace_sink(const FileSinkOptions& options);

// Joins the traces of several workers into one array at `output`. A last line that a killed worker left half
// written is dropped. InputError when a file cannot be read or is no such trace (names the line), Error when
// `output` cannot be written.
void merge_traces(const std::vector<std::string>& inputs, const std::string& output);

}  // namespace kith::telemetry
