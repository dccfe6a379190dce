#pragma once

#include "tests/comm/protocol_model.h"

namespace kith::comm::model {

// Workers in scheduled mode under a seeded schedule of readers, delays, deadlines, skips and deaths. Each
// worker repeats: begin, write piece by piece, publish, then per writer it reads: await, read piece by piece,
// release. Every step is an event of its own, so that the workers interleave in every way.
class ScheduledModel {
 public:
  explicit ScheduledModel(std::uint64_t seed);
  // Violation when something went wrong; the number of versions read otherwise.
  int run();

 private:
  struct Actor {
    std::unique_ptr<protocol::Writer> writer;
    std::vector<std::unique_ptr<protocol::ReaderPort>> ports;  // by writer
    std::uint64_t step = 0;
    std::vector<int> to_read;
    Time since = 0;                          // of the wait under way
    std::vector<std::pair<int, Word>> kept;  // arrivals held on to for a while
    bool finished = false;
  };

  bool edge(int reader, int writer, std::uint64_t step) const;
  Time pause();
  void later(int who, void (ScheduledModel::*what)(int));
  void begin(int who);
  void write(int who, std::size_t piece);
  void publish(int who);
  void next_read(int who);
  void await(int who);
  void read(int who, int from, std::size_t piece);
  void release_kept(int who);
  void next_step(int who);

  Rng rng_;
  const std::uint64_t seed_;
  const int workers_, slots_, pieces_;
  const std::uint64_t steps_;
  const double density_;       // of the readers' graph
  const Time deadline_;        // of awaits; 0: none
  const double writer_skips_;  // chance that a begin is given up at its deadline, where there is one
  const double stalls_;        // chance of a long pause
  Timeline time_;
  Deaths deaths_;
  Truth truth_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Actor> actors_;
  int reads_ = 0;
};

}  // namespace kith::comm::model
