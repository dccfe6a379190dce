#include "kith/engine/first_failure.h"

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::engine {

void FirstFailure::check() const {
  if (first_.empty()) return;
  throw Error(cat("the engine is of no use any more: ", first_), cat(self_),
              "make a new one with all members, from a checkpoint");
}

void FirstFailure::remember(std::string_view what, const std::exception& failure) {
  first_ = cat(what, " failed: ", failure.what());
}

}  // namespace kith::engine
