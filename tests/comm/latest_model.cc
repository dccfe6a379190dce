#include "tests/comm/latest_model.h"

namespace kith::comm::model {
namespace {

protocol::Head head_of(int workers, int slots) {
  return protocol::Head::of({.name = "model", .bytes = 8, .slots = slots, .mode = WindowMode::latest},
                            workers);
}

std::vector<int> all_but_writer(int workers) {
  std::vector<int> readers;
  for (int i = 1; i < workers; ++i)
    readers.push_back(i);
  return readers;
}

}  // namespace

LatestModel::LatestModel(std::uint64_t seed)
    : rng_(hash_words(seed, 3)),
      workers_(2 + static_cast<int>(rng_.below(4))),
      slots_(3 + static_cast<int>(rng_.below(2))),
      pieces_(1 + static_cast<int>(rng_.below(3))),
      steps_(30 + rng_.below(40)),
      stride_(1 + rng_.below(4)),  // also one that puts all versions into the same slot
      deaths_(workers_),
      block_(head_of(workers_, slots_), pieces_),
      writer_(block_.control, all_but_writer(workers_)),
      readers_(static_cast<std::size_t>(workers_)) {
  for (int i = 1; i < workers_; ++i) {
    readers_[static_cast<std::size_t>(i)].port = std::make_unique<protocol::ReaderPort>(block_.control, i);
    time_.after(pause(), [this, i] { aim(i); });
  }
  time_.after(pause(), [this] { begin(); });
  if (rng_.below(2) == 0) {
    const int victim = static_cast<int>(rng_.below(static_cast<std::uint64_t>(workers_)));
    time_.after(rng_.below(1000), [this, victim] {
      deaths_.die(victim);
      for (int j = 0; j < workers_; ++j) {
        time_.after(rng_.below(300), [this, j, victim] { deaths_.notice(j, victim); });
      }
    });
  }
}

Time LatestModel::pause() {
  return rng_.below(100) == 0 ? rng_.below(300) : 1 + rng_.below(4);
}

void LatestModel::begin() {
  if (deaths_.dead(kWriter)) return;
  if (step_ >= steps_ * stride_) {
    writer_finished_ = true;
    return;
  }
  const int slot = block_.control.slot_of(protocol::to_word({0, step_}));
  if (writer_.holder(slot, block_.control.slot(slot).version.load(), deaths_.view(kWriter))) {
    // Wait, or let this version be and try the next slot.
    if (rng_.below(3) == 0) step_ += stride_;
    time_.after(pause(), [this] { begin(); });
    return;
  }
  const Word held = writer_.withdraw(slot);
  time_.after(pause(), [this, held] { withdrawn(held); });
}

void LatestModel::withdrawn(Word held) {
  if (deaths_.dead(kWriter)) return;
  const Word v = protocol::to_word({0, step_});
  const int slot = block_.control.slot_of(v);
  if (writer_.holder(slot, held, deaths_.view(kWriter))) {
    writer_.restore(slot, held);
    time_.after(pause(), [this] { begin(); });
    return;
  }
  truth_.check_reusable(kWriter, held, deaths_);
  writer_.take(v);
  time_.after(pause(), [this] { write(0); });
}

void LatestModel::write(std::size_t piece) {
  if (deaths_.dead(kWriter)) return;
  const Word v = protocol::to_word({0, step_});
  auto& slot = block_.payload[static_cast<std::size_t>(block_.control.slot_of(v))];
  if (piece == slot.size()) {
    writer_.publish(v, {.bytes = 8}, {});
    step_ += stride_;
    time_.after(pause(), [this] { begin(); });
    return;
  }
  slot[piece] = stamp(kWriter, v, piece);
  time_.after(pause(), [this, piece] { write(piece + 1); });
}

void LatestModel::aim(int who) {
  if (deaths_.dead(who)) return;
  ReaderActor& actor = readers_[static_cast<std::size_t>(who)];
  const Word word = actor.port->aim(actor.seen);
  if (word == protocol::kNothing) return look_again(who);
  time_.after(pause(), [this, who, word] { confirm(who, word); });
}

void LatestModel::confirm(int who, Word word) {
  if (deaths_.dead(who)) return;
  if (!readers_[static_cast<std::size_t>(who)].port->confirm(word)) return look_again(who);
  truth_.may_look(kWriter, word, who);
  time_.after(pause(), [this, who, word] { read(who, word, 0); });
}

void LatestModel::read(int who, Word word, std::size_t piece) {
  if (deaths_.dead(who)) return;
  const auto& slot = block_.payload[static_cast<std::size_t>(block_.control.slot_of(word))];
  if (piece < slot.size()) {
    if (slot[piece] != stamp(kWriter, word, piece)) {
      throw Violation(cat("reader ", who, " sees a torn ", protocol::to_version(word)));
    }
    time_.after(pause(), [this, who, word, piece] { read(who, word, piece + 1); });
    return;
  }
  ReaderActor& actor = readers_[static_cast<std::size_t>(who)];
  ++reads_;
  if (word <= actor.seen)
    throw Violation(cat("reader ", who, " reads ", protocol::to_version(word), " again"));
  actor.seen = word;
  truth_.look_away(kWriter, word, who);
  actor.port->unpin();
  look_again(who);
}

void LatestModel::look_again(int who) {
  ReaderActor& actor = readers_[static_cast<std::size_t>(who)];
  const bool over = writer_finished_ || deaths_.view(who).lost(kWriter);
  const Word newest = block_.control.board().newest.load();
  const bool readable =
      block_.control.slot(newest == 0 ? 0 : block_.control.slot_of(newest)).version.load() == newest;
  // A writer that died while it rewrote its newest slot leaves nothing to read.
  actor.finished = over && (newest <= actor.seen || !readable);
  if (!actor.finished) time_.after(pause(), [this, who] { aim(who); });
}

int LatestModel::run() {
  time_.run(10'000'000);
  if (!deaths_.dead(kWriter) && !writer_finished_) throw Violation("the writer never finished");
  for (int i = 1; i < workers_; ++i) {
    if (!deaths_.dead(i) && !readers_[static_cast<std::size_t>(i)].finished) {
      throw Violation(cat("reader ", i, " never finished"));
    }
  }
  return reads_;
}

}  // namespace kith::comm::model
