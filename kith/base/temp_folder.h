#pragma once

#include <string>
#include <string_view>

namespace kith {

// A folder of one's own below the system's folder for temporary files, gone with everything in it at the end
// of the scope. A process that is killed leaves it behind, and the next one that makes a folder with the same
// prefix removes it: beside each lies a file NAME.lock, which its owner holds locked for as long as it lives.
class TempFolder {
 public:
  // Its name begins with `prefix`. Error when it cannot be made.
  explicit TempFolder(std::string_view prefix);
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int lock_ = -1;
};

}  // namespace kith
