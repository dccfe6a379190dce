#include "kith/observe/followed_file.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include <sys/stat.h>

namespace kith::observe {
namespace {

constexpr std::int64_t kPart = std::int64_t{16} << 20;  // bytes

}  // namespace

bool FollowedFile::read_new(std::string& text) {
  text.clear();
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path_.c_str(), "re"), &std::fclose);
  struct stat state {};
  if (!file || ::fstat(::fileno(file.get()), &state) != 0) return true;
  if (inode_ != 0 && (state.st_ino != inode_ || state.st_size < offset_)) return false;
  inode_ = state.st_ino;
  written_ = static_cast<double>(state.st_mtim.tv_sec) + 1e-9 * static_cast<double>(state.st_mtim.tv_nsec);
  text.resize(static_cast<std::size_t>(std::min<std::int64_t>(state.st_size - offset_, kPart)));
  if (::fseeko(file.get(), offset_, SEEK_SET) != 0) text.clear();
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  const std::size_t last = text.rfind('\n');
  text.resize(last == std::string::npos ? 0 : last + 1);
  offset_ += static_cast<std::int64_t>(text.size());
  return true;
}

}  // namespace kith::observe
