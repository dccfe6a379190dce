#pragma once

#include <span>

#include "kith/comm/protocol/word.h"

namespace kith::comm::mapped {

// How a window reaches workers that cannot map its memory. For such a peer the window holds a mirror of the
// peer's block, which the link keeps up to date; and where a mapped peer would see a changed word, the link
// is told instead. No call waits. Each is made by the thread that changed the words.
class Link {
 public:
  virtual ~Link() = default;

  // Scheduled mode: this worker published v and named these workers; some may be mapped.
  // Latest mode: there may be something newer than before; nobody is named.
  virtual void published(protocol::Word v, std::span<const int> readers) = 0;

  // This reader's words in the mirror of `writer`'s block have changed.
  virtual void freed(int writer) = 0;

  // Scheduled mode: v has been awaited for a while; find out whether it was left out.
  // Latest mode: v or anything later is wanted.
  virtual void wanted(int writer, protocol::Word v) = 0;
};

}  // namespace kith::comm::mapped
