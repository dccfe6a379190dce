#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "kith/base/log.h"
#include "kith/telemetry/file_sink.h"

namespace kith::telemetry {

// Records between a head and a tail, kept in memory until there are enough of them. The tail is on disk after
// every drain and is overwritten by the next, so the file is whole whenever nobody is writing it. What the
// disk does not take waits for the next drain, and records that find no room to wait are dropped. Not
// thread-safe.
class BufferedFile {
 public:
  struct Frame {
    std::string_view head;
    std::string_view between;
    std::string_view tail;
  };

  BufferedFile(const FileSinkOptions& options, const Frame& frame);
  BufferedFile(const BufferedFile&) = delete;
  BufferedFile& operator=(const BufferedFile&) = delete;
  ~BufferedFile();

  void append(std::string_view record);
  void drain();

 private:
  const FileSinkOptions options_;
  const Frame frame_;
  const int fd_;
  std::size_t size_ = 0;  // of the file without its tail
  bool empty_ = true;     // no record yet
  bool failed_ = false;   // a write has, and that was said
  std::string pending_;
};

}  // namespace kith::telemetry
