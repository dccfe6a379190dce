#pragma once

#include <Eigen/Dense>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "kith/graph/matrix.h"
#include "tests/support/worlds.h"

namespace kith::support {

// Returns when this worker knows that `peer` is gone.
inline void await_loss(const Worker& worker, WorkerId peer) {
  const Deadline deadline = in_time();
  while (!worker.transport.lost(peer) && SteadyClock().now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(worker.transport.lost(peer));
}

// Where push-sum's mass is, by the matrices, when one worker dies.
class PushSumAccount {
 public:
  PushSumAccount(const graph::Schedule& schedule, Rank dying)
      : schedule_(schedule), dying_(dying), mass_(Eigen::VectorXd::Ones(schedule.workers())) {}

  // `gone`: everybody knew of the loss before publishing what this round reads. Until then its shares and
  // those for it are as ever; a worker that dies before it takes them takes them along.
  void round(std::int64_t t, bool gone) {
    Eigen::MatrixXd matrix = graph::mixing_matrix(schedule_, t);
    if (gone) {
      lost_ += mass_[dying_];
      mass_[dying_] = 0;
      matrix.diagonal() += matrix.row(dying_).transpose();
      matrix.row(dying_).setZero();
    }
    mass_ = (matrix * mass_).eval();
  }

  double of(Rank rank) const { return mass_[rank]; }
  // What went with the dead worker, if it is gone after this round.
  double lost() const { return lost_ + mass_[dying_]; }

 private:
  const graph::Schedule& schedule_;
  const Rank dying_;
  Eigen::VectorXd mass_;
  double lost_ = 0;
};

// weights[rank][t] is the weight of each worker but `dying` after round t; `first_gone` is the first round
// that the account takes as gone.
inline void expect_whole(const std::vector<std::vector<double>>& weights, PushSumAccount account, Rank dying,
                         std::int64_t first_gone) {
  const auto workers = static_cast<Rank>(weights.size());
  const std::size_t rounds = weights[dying == 0 ? 1 : 0].size();
  for (std::size_t t = 0; t < rounds; ++t) {
    account.round(static_cast<std::int64_t>(t), static_cast<std::int64_t>(t) >= first_gone);
    double mass = account.lost();
    for (Rank rank = 0; rank < workers; ++rank) {
      if (rank == dying) continue;
      const double weight = weights[static_cast<std::size_t>(rank)].at(t);
      ASSERT_NEAR(weight, account.of(rank), 1e-12) << "round " << t << ", worker " << rank;
      ASSERT_GT(weight, 1e-3) << "round " << t << ", worker " << rank;
      mass += weight;
    }
    ASSERT_NEAR(mass, workers, 1e-9) << "round " << t;
  }
}

}  // namespace kith::support
