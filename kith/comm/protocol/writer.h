#pragma once

#include <optional>
#include <span>
#include <vector>

#include "kith/comm/protocol/layout.h"

namespace kith::comm::protocol {

// Tells whether the worker with this index is gone for good. Once true it stays true.
class LostWorkers {
 public:
  virtual bool lost(int worker) const = 0;

 protected:
  ~LostWorkers() = default;
};

// The writer's half of the state machine over a control block. Never waits, never wakes: its caller notifies
// board().published after publish and, in latest mode, after a try_begin that found a holder (for a moment
// the version was withdrawn). One thread at a time.
class Writer {
 public:
  // `peers` are the indices of those who may read.
  Writer(const Control& control, std::vector<int> peers);

  // Takes v's slot for writing, or names a reader that holds it; then nothing has changed.
  // REQUIRES: v is later than everything published.
  std::optional<int> try_begin(Word v, const LostWorkers& gone);

  // Makes v visible. REQUIRES: try_begin(v) succeeded; in scheduled mode `readers` are among the peers.
  void publish(Word v, const PublishOptions& options, std::span<const int> readers);

  // The steps of try_begin in latest mode, apart so that tests can put a reader's steps
  // between them. A reader pins first and looks at the slot's version afterwards; a
  // writer withdraws the version first and looks at the pins afterwards. So one of the
  // two always sees the other. Then the writer takes v's slot or restores what it held.
  Word withdraw(int slot);
  std::optional<int> holder(int slot, Word held, const LostWorkers& gone) const;
  void restore(int slot, Word held);
  void take(Word v) { begun_ = v; }

 private:
  bool scheduled() const { return control_.head().mode == static_cast<std::uint32_t>(WindowMode::scheduled); }

  const Control control_;
  const std::vector<int> peers_;
  std::vector<std::vector<int>> readers_;  // by slot: who was named for what it holds (scheduled mode)
  Word begun_ = kNothing;
};

}  // namespace kith::comm::protocol
