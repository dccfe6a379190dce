#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kith/train/data/dealings.h"
#include "kith/train/data_parallel.h"
#include "kith/train/run/summary.h"
#include "kith/train/run/welcome.h"

namespace kith::train {

// Who trains with this worker, what it costs that others are gone, and who draws which data. One thread. What
// a newcomer does here is in Note [A newcomer's first steps] (kith/train/run/welcome.h).
//
// Note [What a loss costs]
// Everybody knows of each other worker the last model that it took of it: how many steps' gradients are in
// it, and how far it lay from its own. One step after a view began its members compare that.
//   heard       the largest number of steps: what the dead worker did later is in nobody's model
//   mean_shift  with d the distance of the dead worker's model from the mean of all n, the mean of those who
//               are left lies d / (n - 1) from that mean. d is estimated as the consensus distance of every
//               step is (kith/gossip/consensus_sample.h), from the last model that was read, by those who
//               read it last. With all-reduce models are equal, and it is 0; likewise where workers of the
//               dead one's node are left, which is one model
//   data        batches after `heard` are dealt again among those who are left (kith/train/data/dealings.h)
// They compare by gather(), at a step that follows from the view alone, so that all come to it with the same
// question, whatever each knows by then of a loss that is newer still. Where there is a newcomer, which does
// not know who is gone, the first of these numbers is how many are.
//
// Of a worker that left, `heard` is at most the steps that it made with gradients, which it puts into the
// Store before it leaves (leave()). With push-sum all of those are in the model of its heir.
class Membership {
 public:
  struct Options {
    std::int64_t batches_per_step = 1;
    std::size_t parameters = 0;
  };

  // The wrapper outlives it. `dealings`: as the data was dealt when the run began; of a newcomer, anything.
  Membership(DecentralizedDataParallel& wrapped, Dealings dealings, Options options);

  // After every step.
  void note(const StepReport& report);
  // Who is new and who is gone, in the order of ids.
  struct Seen {
    std::vector<Loss> lost;
    std::vector<Passage> joined, left;
  };
  // After whatever may have changed the members: what has changed since the last call. A newcomer sees itself
  // join.
  std::optional<Seen> follow();

  struct Settled {
    std::vector<Loss> losses;  // of the view, now with their costs
    SamplerPosition position;  // for the samplers of its members
    Rank rank = 0;             // this worker's
    int workers = 0;           // members
    bool newcomers = false;    // to whom the others tell a welcome
  };
  // After every step, the same on every worker. Collective where a view began with that step: then tells what
  // it cost and how the data is dealt from here on. `position`: where everybody's sampler stands. REQUIRES:
  // no newcomer, or one that is past its first step.
  std::optional<Settled> settle(const SamplerPosition& position);

  // True in a newcomer until it has settled for the first time.
  bool comes() const { return comes_; }
  // What settle() is for a newcomer after its first step: what it is to learn from a welcome.
  Members attend();
  Settled settle(const Welcome& welcome);

  // Fills what it knows of a welcome; and takes it over.
  void put_into(Welcome& welcome) const;
  void take_over(const Welcome& welcome);

  // Whether it is this worker's turn to leave, which it asks for between two steps. One leaves in a view, so
  // that not too many do at once. Asks the Store once in a view.
  bool may_leave();
  // Before it leaves: says so, and why (kAsked, kSlow), to those who will deal its data.
  void leave(std::string_view why) const;

  const Members& members() const { return members_; }
  // Those whom the data is dealt among: the same on all members in every step.
  int dealt_among() const { return dealt_.size(); }
  // Who was lost, joined and left, and how many views there were.
  void put_into(Summary& summary) const;
  double missing_weight() const { return missing_weight_; }
  std::int64_t missing_rounds() const { return missing_rounds_; }

 private:
  struct Change {
    Members members;
    std::int64_t began = 0;
    std::vector<WorkerId> before;  // members of the view before
  };
  struct Heard {
    std::int64_t steps = 0;
    std::optional<double> distance;  // from the mean of all models
  };

  void note_mates();
  // Changes that a step has passed, as one; nothing when there are none.
  std::optional<Change> take_due();
  // Steps of a worker that all who are there know of, whatever they have read.
  std::int64_t first_step_of(WorkerId worker) const;
  // Collective. Fills what is to be known of a worker that is gone.
  void ask_around(Loss& loss, const Change& change);
  void count_left(Loss& loss) const;

  DecentralizedDataParallel& wrapped_;
  Dealings dealings_;
  const Options options_;
  std::int64_t begun_;  // steps done before this part of the run: everybody has those
  bool comes_;
  Members members_;
  Members dealt_;                // among whom the data is
  std::vector<Change> changes_;  // not settled
  std::map<WorkerId, Heard> heard_;
  std::set<WorkerId> mates_;  // that were ever one model with this worker, itself included
  std::vector<Loss> losses_;
  std::vector<Passage> joined_, left_;
  std::optional<std::uint32_t> asked_to_leave_;  // in this view
  double missing_weight_ = 0;
  std::int64_t missing_rounds_ = 0;
};

// "step 20  worker 3 is gone: 3 workers go on (view 1)"; "has left", ", which everybody waited for, is left
// out", "has joined". `workers`: members.
std::vector<std::string> texts_of(const Membership::Seen& seen, int workers);
// "worker 3 was last heard of after 19 steps; 2 of its samples are dealt again; ...".
std::string cost_text(const Loss& loss);

}  // namespace kith::train
