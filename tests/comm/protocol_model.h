#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kith/base/rng.h"
#include "kith/base/text.h"
#include "kith/comm/protocol/reader.h"
#include "kith/comm/protocol/writer.h"

namespace kith::comm::model {

using protocol::Word;

// Microseconds of a clock that only the model moves.
using Time = std::uint64_t;

// What the model found wrong; the message says where.
struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Events in the order of virtual time; equal times in the order in which they were added.
class Timeline {
 public:
  Time now() const { return now_; }
  void after(Time delay, std::function<void()> what) {
    events_.push({now_ + delay, added_++, std::move(what)});
  }
  // Runs until nothing is left; Violation when virtual time passes `limit`.
  void run(Time limit) {
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.at;
      if (now_ > limit) throw Violation(cat("no end after ", limit, " us of virtual time"));
      event.what();
    }
  }

 private:
  struct Event {
    Time at;
    std::uint64_t order;
    std::function<void()> what;
    bool operator<(const Event& other) const { return std::tie(other.at, other.order) < std::tie(at, order); }
  };
  Time now_ = 0;
  std::uint64_t added_ = 0;
  std::priority_queue<Event> events_;
};

// One worker's memory: a control block and a payload of `pieces` words per slot.
struct Block {
  Block(const protocol::Head& head, int piece_count)
      : memory(new std::byte[protocol::Control::size_of(head) + protocol::kLine]),
        control(protocol::Control::create(aligned(memory.get()), head)),
        payload(head.slots, std::vector<std::uint64_t>(static_cast<std::size_t>(piece_count))) {}
  static std::byte* aligned(std::byte* p) {
    const auto address = reinterpret_cast<std::uintptr_t>(p);
    return p + (protocol::kLine - address % protocol::kLine) % protocol::kLine;
  }
  std::unique_ptr<std::byte[]> memory;
  protocol::Control control;
  std::vector<std::vector<std::uint64_t>> payload;
};

// Who is dead, and who knows it already: deaths are noticed at different times.
class Deaths {
 public:
  explicit Deaths(int workers)
      : dead_(static_cast<std::size_t>(workers)), known_(static_cast<std::size_t>(workers)) {
    for (auto& view : known_)
      view.lost_.resize(static_cast<std::size_t>(workers));
  }
  class View final : public protocol::LostWorkers {
   public:
    bool lost(int worker) const override { return lost_[static_cast<std::size_t>(worker)]; }

   private:
    friend class Deaths;
    std::vector<bool> lost_;
  };
  bool dead(int worker) const { return dead_[static_cast<std::size_t>(worker)]; }
  const View& view(int observer) const { return known_[static_cast<std::size_t>(observer)]; }
  void die(int worker) { dead_[static_cast<std::size_t>(worker)] = true; }
  void notice(int observer, int worker) {
    known_[static_cast<std::size_t>(observer)].lost_[static_cast<std::size_t>(worker)] = true;
  }

 private:
  std::vector<bool> dead_;
  std::vector<View> known_;
};

// The truth, kept apart from the protocol's words: who may
// look at which version, and who has finished with it.
class Truth {
 public:
  void may_look(int writer, Word v, int reader) { open_[{writer, v}].insert(reader); }
  void done(int writer, Word v, int reader) { done_.insert({writer, v, reader}); }
  // What a latest-mode reader does with a version it may look at again later.
  void look_away(int writer, Word v, int reader) { open_[{writer, v}].erase(reader); }
  // Violation when a living reader has not finished with v.
  void check_reusable(int writer, Word v, const Deaths& deaths) const {
    const auto found = open_.find({writer, v});
    if (found == open_.end()) return;
    for (int reader : found->second) {
      if (deaths.dead(reader) || done_.contains({writer, v, reader})) continue;
      throw Violation(cat("writer ", writer, " reuses the slot of ", protocol::to_version(v),
                          ", which reader ", reader, " is not past"));
    }
  }

 private:
  std::map<std::pair<int, Word>, std::set<int>> open_;
  std::set<std::tuple<int, Word, int>> done_;
};

inline std::uint64_t stamp(int writer, Word v, std::size_t piece) {
  return hash_words(writer, v, piece);
}

}  // namespace kith::comm::model
