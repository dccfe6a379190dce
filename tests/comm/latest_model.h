#pragma once

#include "tests/comm/protocol_model.h"

namespace kith::comm::model {

// One writer and several readers in latest mode. The two steps of a pin and
// the three of a begin are events of their own, so that every interleaving
// of them comes up; writers stall while they write, readers while they read.
class LatestModel {
 public:
  explicit LatestModel(std::uint64_t seed);
  // Violation when something went wrong; the number of versions read otherwise.
  int run();

 private:
  struct ReaderActor {
    std::unique_ptr<protocol::ReaderPort> port;
    Word seen = protocol::kNothing;
    bool finished = false;
  };

  Time pause();
  void begin();
  void withdrawn(Word held);
  void write(std::size_t piece);
  void aim(int who);
  void confirm(int who, Word word);
  void read(int who, Word word, std::size_t piece);
  void look_again(int who);

  static constexpr int kWriter = 0;
  Rng rng_;
  const int workers_, slots_, pieces_;
  const std::uint64_t steps_, stride_;
  Timeline time_;
  Deaths deaths_;
  Truth truth_;
  Block block_;
  protocol::Writer writer_;
  std::vector<ReaderActor> readers_;
  std::uint64_t step_ = 0;
  bool writer_finished_ = false;
  int reads_ = 0;
};

}  // namespace kith::comm::model
