#include "tests/replay/records.h"

#include <utility>

#include "kith/base/text.h"
#include "tests/replay/scheduler.h"

namespace kith::replay {

void Records::add(const std::string& window, int writer, Version v, Publication publication) {
  publication.number = ++numbers_[static_cast<std::size_t>(writer)];
  if (later_exists(window, writer, v) || find(window, writer, v) != nullptr) {
    Scheduler::current()->fail(
        cat("worker ", writer, " publishes ", v, " in ", window, ", and had published that or a later one"));
  }
  all_.emplace(Key{window, writer, v}, std::move(publication));
}

Records::Publication* Records::find(const std::string& window, int writer, Version v) {
  const auto found = all_.find(Key{window, writer, v});
  return found == all_.end() ? nullptr : &found->second;
}

bool Records::later_exists(const std::string& window, int writer, Version v) const {
  const auto next = all_.upper_bound(Key{window, writer, v});
  return next != all_.end() && std::get<0>(next->first) == window && std::get<1>(next->first) == writer;
}

std::map<Version, const Records::Publication*> Records::of(int writer, const std::string& window) const {
  std::map<Version, const Publication*> found;
  for (const auto& [key, publication] : all_) {
    if (std::get<1>(key) == writer && std::get<0>(key).ends_with(window))
      found.emplace(std::get<2>(key), &publication);
  }
  return found;
}

}  // namespace kith::replay
