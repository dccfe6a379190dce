#include "kith/base/temp_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith {

TempFolder::TempFolder(std::string_view prefix)
    : path_((std::filesystem::temp_directory_path() / cat(prefix, "-XXXXXX")).string()) {
  if (::mkdtemp(path_.data()) == nullptr) {
    throw Error(cat("cannot create a folder: ", std::strerror(errno)), path_,
                "set TMPDIR to a writable folder");
  }
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace kith
