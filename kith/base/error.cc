#include "kith/base/error.h"

#include "kith/base/shortened.h"

namespace kith {
namespace {

// Problems and places hold what a user or a peer gave, which may be megabytes; remedies are kith's own.
constexpr std::size_t kMostOfInput = 1000;

std::string compose(std::string_view problem, std::string_view place, std::string_view remedy) {
  std::string text;
  if (!place.empty()) text.append(shortened(place, kMostOfInput)).append(": ");
  text.append(shortened(problem, kMostOfInput));
  if (!remedy.empty()) text.append(" (").append(remedy).append(")");
  return text;
}

}  // namespace

Error::Error(std::string_view problem, std::string_view place, std::string_view remedy)
    : std::runtime_error(compose(problem, place, remedy)) {}

}  // namespace kith
