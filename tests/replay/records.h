#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "kith/base/ids.h"
#include "kith/comm/window.h"

namespace kith::replay {

// What all workers together have published and read, known to nobody in the run. Everything that is wrong
// with it ends the run (Scheduler::fail).
class Records {
 public:
  struct Publication {
    std::vector<std::byte> payload;
    double weight = 1;
    std::uint64_t number = 0;     // among all of its writer's
    std::set<int> readers;        // who were named
    std::set<int> known_lost;     // to the writer, some time before it began
    std::set<int> known_lost_at;  // and when it published
    std::set<int> taken;          // by whom
  };
  using Key = std::tuple<std::string, int, Version>;  // window, writer, version

  explicit Records(int workers) : numbers_(static_cast<std::size_t>(workers), 0) {}

  void add(const std::string& window, int writer, Version v, Publication publication);
  // Null when there is none.
  Publication* find(const std::string& window, int writer, Version v);
  bool later_exists(const std::string& window, int writer, Version v) const;
  std::uint64_t published(int writer) const { return numbers_[static_cast<std::size_t>(writer)]; }

  // Of one worker's publications in the windows whose names end with `window`, in order.
  std::map<Version, const Publication*> of(int writer, const std::string& window) const;

 private:
  std::map<Key, Publication> all_;
  std::vector<std::uint64_t> numbers_;
};

}  // namespace kith::replay
