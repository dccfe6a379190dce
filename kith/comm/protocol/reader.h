#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "kith/comm/protocol/layout.h"

namespace kith::comm::protocol {

// One reader's half of the state machine, towards one writer. Never waits,
// never wakes: its caller notifies board().freed after release, give_up,
// leave and unpin. Reading by one thread at a time; release and unpin by any.
class ReaderPort {
 public:
  // `self` is the index of the reader, for which the writer keeps a Reader cell.
  ReaderPort(const Control& control, int self) : control_(control), self_(self) {}

  // ready    v lies in its slot and is held until release(v)
  // pending  not published yet
  // missed   the writer went on to a later version and will never publish v
  enum class State { ready, pending, missed };

  // Scheduled mode. REQUIRES: v is later than what was held or given up before; the writer named this reader.
  State try_await(Word v);
  void release(Word v);
  // Past v and everything before, held versions excepted.
  void give_up(Word v);
  // Past everything, for good.
  void leave();

  // Latest mode: pins the newest version after `after` until unpin; nothing when there is none.
  // REQUIRES: nothing is pinned.
  std::optional<Word> try_newest(Word after);
  void unpin();
  // Unpins v for having looked at it.
  void look_away(Word v);
  bool pinned() const;

  // The two steps of try_newest (see Writer::withdraw): aim
  // gives kNothing when there is nothing later than `after`.
  Word aim(Word after);
  bool confirm(Word word);

  // REQUIRES: v is held or pinned.
  Header header(Word v) const;

 private:
  void advance();

  const Control control_;
  const int self_;
  std::mutex mutex_;        // guards the two below
  std::vector<Word> held_;  // ready and not yet released
  Word done_ = kNothing;    // the greatest version released or given up
};

}  // namespace kith::comm::protocol
