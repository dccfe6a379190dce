#include "kith/train/data/shipped.h"

#include "kith/base/error.h"

namespace kith::train {

std::filesystem::path shipped_text(const std::filesystem::path& program) {
  const std::filesystem::path installed = program.parent_path().parent_path() / "share" / "kith";
  for (const std::filesystem::path& share : {installed, std::filesystem::path(KITH_SOURCE_SHARE)}) {
    const std::filesystem::path text = share / "text" / "austen.txt";
    std::error_code ignored;
    if (std::filesystem::is_regular_file(text, ignored)) return text;
  }
  throw InputError("the shipped text is not there", installed.string(), "name a text of your own: data.path");
}

}  // namespace kith::train
