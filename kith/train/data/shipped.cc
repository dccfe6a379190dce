#include "kith/train/data/shipped.h"

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::train {

std::filesystem::path shipped_file(const std::filesystem::path& program, const std::filesystem::path& name) {
  const std::filesystem::path installed = program.parent_path().parent_path() / "share" / "kith";
  for (const std::filesystem::path& share : {installed, std::filesystem::path(KITH_SOURCE_SHARE)}) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(share / name, ignored)) return share / name;
  }
  throw InputError(cat("the shipped ", name.string(), " is not there"), installed.string(),
                   "install kith anew, or run it from the tree that it was built in");
}

std::filesystem::path shipped_text(const std::filesystem::path& program) {
  return shipped_file(program, "text/austen.txt");
}

}  // namespace kith::train
