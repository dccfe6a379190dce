#include "kith/base/error.h"

namespace kith {
namespace {

std::string compose(std::string_view problem, std::string_view place, std::string_view remedy) {
  std::string text;
  if (!place.empty()) text.append(place).append(": ");
  text.append(problem);
  if (!remedy.empty()) text.append(" (").append(remedy).append(")");
  return text;
}

}  // namespace

Error::Error(std::string_view problem, std::string_view place, std::string_view remedy)
    : std::runtime_error(compose(problem, place, remedy)) {}

}  // namespace kith
