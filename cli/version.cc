#include "cli/version.h"

#include <iomanip>
#include <sstream>

#include "cli/version_data.h"

namespace kith::cli {

std::string version_text() {
  std::ostringstream out;
  out << "kith " << kVersion;
  for (const auto& [name, value] : kBuiltWith)
    out << "\n  " << std::left << std::setw(14) << name << value;
  return out.str();
}

}  // namespace kith::cli
