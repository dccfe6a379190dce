#pragma once

#include <optional>
#include <span>
#include <vector>

#include "kith/base/clock.h"
#include "kith/base/dtype.h"
#include "kith/base/ids.h"
#include "kith/comm/transport.h"
#include "kith/comm/window.h"
#include "kith/gossip/group_plan.h"
#include "kith/gossip/report.h"
#include "kith/graph/schedule.h"
#include "kith/kernels/kernels.h"

namespace kith::gossip {

// One's own part in a mix. On a plain wire `published` is `values` itself; on a lossy wire (bf16, fp16, int8)
// `values` are the full-precision numbers and `published` is what the neighbours read: the values rounded. It
// may be null where kernels had better round again than read it back (Note [One's own rounding]).
struct Own {
  const void* values = nullptr;
  DType type = DType::f32;
  const void* published = nullptr;
  DType wire = DType::f32;
  double weight = 1;  // push-sum weight
  // The values have moved on since they were published. REQUIRES: `published`, then.
  bool moved = false;
  std::uint64_t draw = 0;  // that was published with on an int8 wire, the same for all (Note [Dither])

  bool lossy() const { return wire != type; }
  // Whether the values are something else than what the neighbours read.
  bool apart() const { return lossy() || moved; }
  // What the neighbours read, as a source.
  kernels::Source as_published(double source_weight) const;
};

// Note [One's own rounding]
// On a lossy wire a mix needs one's own q beside one's own x. Computing it from x (Source::rounded_to) gives
// the same bits as reading it back, because what was published is x rounded, and x does not change between
// its publication and the mix; a draw (int8) is a function of the version. A GPU waits for memory and rounds
// for nothing: it computes. The CPU's loops round in a tile apart, which costs more than the bytes: it reads.

struct GatherOptions {
  Rank self = 0;
  const Members* members = nullptr;
  Version version;
  Deadline deadline;
  const Clock* clock = nullptr;
  bool directed = false;  // the schedule is only column-stochastic
  double kept = 0;        // directed: what kept_share() said before the version was published
};

// A part of a group's mean, where it lies.
struct MeanPart {
  Extent extent;
  kernels::Source mean;                  // of the extent
  std::optional<comm::Arrival> arrival;  // that holds it, unless it is one's own
};

// The neighbours' models of one round, where they lie, ready for a fused pass: the new model is their mix.
// The arrivals release themselves with this object, so it must outlive the pass.
class Gathered {
 public:
  // REQUIRES: no shards were read (read_shard).
  kernels::Mix mix() const;
  // The same on the elements [first, end_from(first)); `scratch` holds its sources. `own_values`, unless
  // null, is where one's own values of that range lie (a model need not be contiguous); what is computed from
  // them is so from there.
  kernels::Mix mix_from(std::size_t first, std::vector<kernels::Source>& scratch,
                        const void* own_values = nullptr) const;
  // Where one mix ends and the next begins: at the end of a shard whose members somebody has summed
  // (GroupReducer), else nowhere.
  std::size_t end_from(std::size_t first) const;
  // The plain sum of what everybody who came, oneself included, has published.
  kernels::Mix sum_from(std::size_t first, std::vector<kernels::Source>& scratch) const;
  const RoundReport& report() const { return report_; }
  const std::vector<comm::Arrival>& arrivals() const { return arrivals_; }
  // The mix reads arrival k's vector at places[k] from now on: a copy of it.
  void read_copies(std::span<const void* const> places);
  // From now on the mix of the shard is scale * (sum of `sources`). The one that is `part`, which lies in the
  // arrival if there is one, begins with the shard; the others are as long as the whole.
  void read_shard(const Extent& shard, std::vector<kernels::Source> sources, const void* part,
                  std::optional<comm::Arrival> arrival, const Own& own, double scale);
  // The arrivals are read until this object goes, though no source lies in them.
  void hold(std::vector<comm::Arrival> arrivals) { arrivals_ = std::move(arrivals); }
  void set_report(RoundReport report) { report_ = std::move(report); }

  // The plain sum of weighted sources that lie in memory, with oneself among them at `place`.
  static Gathered of_sources(std::vector<kernels::Source> sources, const Own& own, double own_weight,
                             std::size_t place, RoundReport report);

  // A round that is done already: the parts are the mean of what the group published.
  static Gathered of_mean(std::vector<MeanPart> parts, const Own& own, RoundReport report);

 private:
  // scale * sum of weight * source
  struct Formula {
    std::vector<kernels::Source> sources;
    std::vector<std::size_t> own;  // which of them are, or are computed from, Own::values
    double scale = 1;

    void find_own(const Own& own_part);
    kernels::Mix from(std::size_t first, std::vector<kernels::Source>& scratch, const void* own_values) const;
  };
  struct Shard {
    Extent extent;
    Formula formula;  // its sources begin with the extent
    std::optional<comm::Arrival> arrival;
  };

  // Oneself, with this weight and at this place among the sources.
  void add_own(const Own& own, double weight, std::size_t place);

  friend Gathered gather(comm::Window&, const graph::WorkerRound&, const Own&, const GatherOptions&);

  std::vector<comm::Arrival> arrivals_;
  Formula formula_;
  std::vector<Shard> shards_;               // where another formula holds
  std::vector<kernels::Source> published_;  // in rank order
  RoundReport report_;
};

// Note [Mass after a loss]
// On a directed schedule the weights are mass under way: a worker gives each reader a share of its model and
// of its push-sum weight, and keeps the rest. A share for somebody who is gone would leak away in every round
// until nothing is left. So the sender asks, once and before it publishes, which readers are gone. They never
// take that version, and it keeps their shares. What it has published is given away: a reader that leaves
// later may have taken its share and passed it on, so nothing is ever taken back.
//
// The account of a loss is therefore exact. What is lost is the dead worker's own mass and what had been
// published for it and not taken, at most until the loss is known; all other mass stays with the survivors,
// in every later round.

// Of a directed schedule's round: the share of one's own model that is for readers who are gone by now.
double kept_share(const comm::Transport& transport, const Members& members, const graph::WorkerRound& round,
                  Rank self);

// Awaits every neighbour of `round` at options.version in `window` and lines the models up in rank order.
//
// The row of the mixing matrix, plain wire:   x_i <- sum_j w_ij x_j
// On a lossy wire, with q = what was published:  x_i <- x_i + sum_j w_ij (q_j - q_i)
// The second form equals the first when q = x, keeps the mean exactly (for symmetric weights) whatever the
// rounding, and never rounds one's own model, so that steps smaller than the wire's resolution are not lost.
// It is also the one for values that have moved since: q is where they were.
//
// A late or lost neighbour's weight goes to oneself; on directed schedules, where the weights are mass under
// way, it does not: model and push-sum weight miss the same share, and their quotient stays right; `kept`
// goes to oneself instead (Note [Mass after a loss]). Members of a group are summed with weight 1 and scaled
// once, so that every path to the group's mean gives the same bits.
Gathered gather(comm::Window& window, const graph::WorkerRound& round, const Own& own,
                const GatherOptions& options);

// Writes the mix of the first `count` elements to `to`.
template <class T>
void mix_into(const kernels::Destination<T>& to, const Gathered& gathered, std::size_t count,
              kernels::Kernels<T>& kernels);

}  // namespace kith::gossip
