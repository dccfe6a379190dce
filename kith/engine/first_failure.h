#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "kith/base/ids.h"

namespace kith::engine {

// Remembers the first failure of operations that leave things half done: a step that failed has published
// some buckets and not others, so no other step can follow it. One thread.
class FirstFailure {
 public:
  explicit FirstFailure(WorkerId self) : self_(self) {}

  // Error that names the first failure, when there was one.
  void check() const;

  bool failed() const { return !first_.empty(); }

  // What `work` returns; what it throws is remembered under `what`. Checks first.
  template <class Work>
  auto guard(std::string_view what, Work work) {
    check();
    try {
      return work();
    } catch (const std::exception& e) {
      remember(what, e);
      throw;
    }
  }

 private:
  void remember(std::string_view what, const std::exception& failure);

  const WorkerId self_;
  std::string first_;  // empty: none
};

}  // namespace kith::engine
