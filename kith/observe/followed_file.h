#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace kith::observe {

// A text file that somebody else appends to. One thread.
class FollowedFile {
 public:
  explicit FollowedFile(std::filesystem::path path) : path_(std::move(path)) {}

  // Calls `take` with every whole line that has come since the last call, without its newline. False, and no
  // line, when the file is another one now, or shorter: what was read before no longer holds. A file that is
  // not there has no lines.
  template <class Take>
  bool read(const Take& take) {
    std::string text;
    do {
      if (!read_new(text)) return false;
      std::size_t start = 0;
      for (std::size_t end; (end = text.find('\n', start)) != std::string::npos; start = end + 1)
        take(std::string_view(text).substr(start, end - start));
    } while (!text.empty());
    return true;
  }

  // When it was last written, as Unix time; 0: it is not there.
  double written() const { return written_; }

 private:
  // A part of what has come, up to a newline; empty: nothing has.
  bool read_new(std::string& text);

  std::filesystem::path path_;
  std::uint64_t inode_ = 0;  // 0: not seen yet
  std::int64_t offset_ = 0;
  double written_ = 0;
};

}  // namespace kith::observe
