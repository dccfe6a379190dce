#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace kith::comm::net {

// A connection that has not proved itself yet, as a server sees it that holds too many.
struct Stranger {
  std::string peer;    // Connection::peer
  bool spoke = false;  // it has said hello
};

// Which of them goes, so that a flood pushes out itself: of the host that has most of them, who has said
// nothing before who has, the oldest first. REQUIRES: not empty, the oldest first.
std::size_t who_goes(const std::vector<Stranger>& strangers);

}  // namespace kith::comm::net
