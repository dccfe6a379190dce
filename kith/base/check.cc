#include "kith/base/check.h"

namespace kith {

void report_bug(const char* file, int line, std::string_view condition, std::string_view detail) {
  throw Bug(cat(file, ":", line, ": check failed: ", condition, " (", detail, ")"));
}

}  // namespace kith
