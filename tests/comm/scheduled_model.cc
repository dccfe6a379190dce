#include "tests/comm/scheduled_model.h"

#include <algorithm>

namespace kith::comm::model {
namespace {

using State = protocol::ReaderPort::State;

Word word_of(std::uint64_t step) {
  return protocol::to_word({0, step});
}

protocol::Head head_of(int workers, int slots) {
  return protocol::Head::of({.name = "model", .bytes = 8, .slots = slots}, workers);
}

}  // namespace

ScheduledModel::ScheduledModel(std::uint64_t seed)
    : rng_(hash_words(seed, 1)),
      seed_(seed),
      workers_(2 + static_cast<int>(rng_.below(4))),
      slots_(2 + static_cast<int>(rng_.below(3))),
      pieces_(1 + static_cast<int>(rng_.below(4))),
      steps_(10 + rng_.below(20)),
      density_(0.2 + 0.8 * rng_.uniform()),
      deadline_(rng_.below(2) == 0 ? 0 : 50 + rng_.below(2000)),
      writer_skips_(rng_.below(2) == 0 ? 0 : 0.3 * rng_.uniform()),
      stalls_(rng_.below(2) == 0 ? 0 : 0.02),
      deaths_(workers_),
      actors_(static_cast<std::size_t>(workers_)) {
  for (int i = 0; i < workers_; ++i)
    blocks_.push_back(std::make_unique<Block>(head_of(workers_, slots_), pieces_));
  for (int i = 0; i < workers_; ++i) {
    std::vector<int> peers;
    Actor& actor = actors_[static_cast<std::size_t>(i)];
    for (int j = 0; j < workers_; ++j) {
      if (j != i) peers.push_back(j);
      actor.ports.push_back(
          std::make_unique<protocol::ReaderPort>(blocks_[static_cast<std::size_t>(j)]->control, i));
    }
    actor.writer = std::make_unique<protocol::Writer>(blocks_[static_cast<std::size_t>(i)]->control, peers);
    later(i, &ScheduledModel::next_step);
  }
  const std::uint64_t deaths = rng_.below(2) == 0 ? 0 : rng_.below(static_cast<std::uint64_t>(workers_));
  for (std::uint64_t i = 0; i < deaths; ++i) {
    const int victim = static_cast<int>(rng_.below(static_cast<std::uint64_t>(workers_)));
    time_.after(rng_.below(3000), [this, victim] {
      deaths_.die(victim);
      for (int j = 0; j < workers_; ++j) {
        time_.after(rng_.below(500), [this, j, victim] { deaths_.notice(j, victim); });
      }
    });
  }
}

bool ScheduledModel::edge(int reader, int writer, std::uint64_t step) const {
  return reader != writer && Rng(hash_words(seed_, 2, reader, writer, step)).uniform() < density_;
}

Time ScheduledModel::pause() {
  return rng_.uniform() < stalls_ ? 1000 + rng_.below(3000) : 1 + rng_.below(30);
}

void ScheduledModel::later(int who, void (ScheduledModel::*what)(int)) {
  time_.after(pause(), [this, who, what] {
    if (!deaths_.dead(who)) (this->*what)(who);
  });
}

void ScheduledModel::next_step(int who) {
  Actor& actor = actors_[static_cast<std::size_t>(who)];
  if (actor.step == steps_) {
    release_kept(who);
    for (int j = 0; j < workers_; ++j) {
      actor.ports[static_cast<std::size_t>(j)]->leave();
      for (std::uint64_t t = 0; t < steps_; ++t)
        truth_.done(j, word_of(t), who);
    }
    actor.finished = true;
    return;
  }
  for (int j = 0; j < workers_; ++j) {
    if (edge(who, j, actor.step)) actor.to_read.push_back(j);
  }
  actor.since = time_.now();
  begin(who);
}

void ScheduledModel::begin(int who) {
  Actor& actor = actors_[static_cast<std::size_t>(who)];
  const Word v = word_of(actor.step);
  const auto& control = blocks_[static_cast<std::size_t>(who)]->control;
  const Word held = control.slot(control.slot_of(v)).version.load();
  if (!actor.writer->try_begin(v, deaths_.view(who))) {
    truth_.check_reusable(who, held, deaths_);
    time_.after(pause(), [this, who] { write(who, 0); });
    return;
  }
  // What one keeps may be what the holder of one's slot waits for, in a circle.
  if (!actor.kept.empty() && rng_.below(4) == 0) release_kept(who);
  const bool waited = deadline_ != 0 && time_.now() - actor.since > deadline_;
  if (waited && rng_.uniform() < writer_skips_) {
    next_read(who);
  } else {
    later(who, &ScheduledModel::begin);
  }
}

void ScheduledModel::write(int who, std::size_t piece) {
  if (deaths_.dead(who)) return;
  Block& block = *blocks_[static_cast<std::size_t>(who)];
  const Word v = word_of(actors_[static_cast<std::size_t>(who)].step);
  if (piece == static_cast<std::size_t>(pieces_)) return publish(who);
  block.payload[static_cast<std::size_t>(block.control.slot_of(v))][piece] = stamp(who, v, piece);
  time_.after(pause(), [this, who, piece] { write(who, piece + 1); });
}

void ScheduledModel::publish(int who) {
  Actor& actor = actors_[static_cast<std::size_t>(who)];
  std::vector<int> readers;
  for (int j = 0; j < workers_; ++j) {
    if (!edge(j, who, actor.step)) continue;
    // One that is lost, has left or has given up may be named all the same.
    readers.push_back(j);
    truth_.may_look(who, word_of(actor.step), j);
  }
  actor.writer->publish(word_of(actor.step), {.bytes = 8}, readers);
  later(who, &ScheduledModel::next_read);
}

void ScheduledModel::next_read(int who) {
  Actor& actor = actors_[static_cast<std::size_t>(who)];
  if (actor.to_read.empty()) {
    if (rng_.below(3) != 0) release_kept(who);
    ++actor.step;
    return later(who, &ScheduledModel::next_step);
  }
  actor.since = time_.now();
  await(who);
}

void ScheduledModel::await(int who) {
  Actor& actor = actors_[static_cast<std::size_t>(who)];
  const int from = actor.to_read.back();
  const Word v = word_of(actor.step);
  protocol::ReaderPort& port = *actor.ports[static_cast<std::size_t>(from)];
  const bool lost = deaths_.view(who).lost(from);
  const State state = port.try_await(v);
  if (state == State::ready) {
    actor.to_read.pop_back();
    time_.after(pause(), [this, who, from] { read(who, from, 0); });
    return;
  }
  const bool late = deadline_ != 0 && time_.now() - actor.since > deadline_;
  if (state == State::missed || lost || late) {
    port.give_up(v);
    truth_.done(from, v, who);
    actor.to_read.pop_back();
    return later(who, &ScheduledModel::next_read);
  }
  if (!actor.kept.empty() && rng_.below(4) == 0) release_kept(who);
  later(who, &ScheduledModel::await);
}

void ScheduledModel::read(int who, int from, std::size_t piece) {
  if (deaths_.dead(who)) return;
  Actor& actor = actors_[static_cast<std::size_t>(who)];
  const Word v = word_of(actor.step);
  const Block& block = *blocks_[static_cast<std::size_t>(from)];
  const auto& slot = block.payload[static_cast<std::size_t>(block.control.slot_of(v))];
  if (piece < slot.size()) {
    if (slot[piece] != stamp(from, v, piece)) {
      throw Violation(cat("reader ", who, " sees a torn ", protocol::to_version(v), " of writer ", from));
    }
    time_.after(pause(), [this, who, from, piece] { read(who, from, piece + 1); });
    return;
  }
  ++reads_;
  actor.kept.emplace_back(from, v);
  if (rng_.below(4) != 0) release_kept(who);
  later(who, &ScheduledModel::next_read);
}

// In any order: the words must only move when everything before has been let go.
void ScheduledModel::release_kept(int who) {
  Actor& actor = actors_[static_cast<std::size_t>(who)];
  while (!actor.kept.empty()) {
    const std::size_t pick = rng_.below(actor.kept.size());
    const auto [from, v] = actor.kept[pick];
    const Block& block = *blocks_[static_cast<std::size_t>(from)];
    const auto& slot = block.payload[static_cast<std::size_t>(block.control.slot_of(v))];
    for (std::size_t piece = 0; piece < slot.size(); ++piece) {
      if (slot[piece] != stamp(from, v, piece)) {
        throw Violation(cat("reader ", who, " keeps ", protocol::to_version(v), " of writer ", from,
                            " and sees it change"));
      }
    }
    actor.ports[static_cast<std::size_t>(from)]->release(v);
    truth_.done(from, v, who);
    actor.kept.erase(actor.kept.begin() + static_cast<std::ptrdiff_t>(pick));
  }
}

int ScheduledModel::run() {
  time_.run(10'000'000);
  for (int i = 0; i < workers_; ++i) {
    if (!deaths_.dead(i) && !actors_[static_cast<std::size_t>(i)].finished) {
      throw Violation(cat("worker ", i, " never finished"));
    }
  }
  return reads_;
}

}  // namespace kith::comm::model
