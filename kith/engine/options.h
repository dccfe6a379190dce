#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kith/base/clock.h"
#include "kith/base/dtype.h"
#include "kith/graph/schedule.h"
#include "kith/optim/options.h"
#include "kith/optim/trigger.h"

namespace kith::engine {

// alternating  the parameters are the window: two slots, the model reads one, the step writes the other
// staged       the parameters keep their address, the window is a copy
enum class Layout : std::uint8_t { automatic, alternating, staged };

// A bucket's part: elements of a segment. The parts of one segment follow each other.
struct CutPart {
  std::size_t segment = 0;  // index in the table
  std::size_t count = 0;
  bool operator==(const CutPart&) const = default;
};

// A model's buckets.
using Cut = std::vector<std::vector<CutPart>>;

struct EngineOptions {
  std::string name = "model";     // distinguishes several models in one process; the same on every worker
  std::string algorithm = "awc";  // a method: kith/optim/methods.h
  optim::MethodOptions method;    // the numbers it knows
  // What the workers of a node do beside the algorithm.
  //   none       nothing: every worker is a model of its own
  //   allreduce  they average gradients before each step. A node is then one model, with the same bits on all
  //              its workers, and the algorithm runs between nodes (kith/engine/node_schedule.h). Without
  //              `reforms` a step in which a worker is late or lost fails
  std::string inside = "none";
  optim::OptimizerOptions optimizer;
  // Somebody else's optimizer moves the parameters, at their address, before each step; `optimizer` and the
  // gradients are then not used. With awc: x_i(t+1) = y_i + sum_j W[i,j] (x_j(t) - x_i(t)), y_i what it made
  // of x_i(t). Also with atc, allreduce and none.
  bool external_optimizer = false;
  graph::ScheduleOptions schedule = {.topology = "aer"};  // its shape is the shape of the world
  std::size_t bucket_bytes = 25u << 20;
  Cut cut = {};  // Engine::cut() of an engine whose state is to be taken over; empty: cut anew
  // What travels: of models bf16, fp16, int8 (Note [Dither] in kith/kernels/int8.h), of gradients bf16, fp16.
  // Default: the parameters' own type (fp32 for 16-bit parameters).
  std::optional<DType> wire;
  // In place of a wire: differences by this codec travel (kith/kernels/codec.h, Note [Differences] in
  // kith/gossip/replicas.h), such as "sign" or "qsgd 4". Empty: none.
  std::string codec = {};
  double consensus_step = 0;  // with a codec: how far to go toward the replicas' mix; 0: the codec's own
  // automatic: alternating where the algorithm and the wire allow it, but for buckets that split a parameter
  Layout layout = Layout::automatic;
  int mix_every = 1;         // trigger: mix in steps t with (t + 1) mod mix_every == 0
  std::string trigger = {};  // another one, kith/optim/trigger.h; empty: mix_every says it
  // Consensus control, kith/optim/control.h: method.rounds is then the most that a step takes. Empty: none.
  // It and triggers that go by measurements need everybody's word for every decision, so not with `reforms`.
  std::string control = {};
  // Buckets are at different rounds of the schedule: Note [Staggered buckets] in graph/stagger.h.
  bool stagger = true;
  // How long a step waits for a neighbour that is alive before it goes on without it. A dead one is noticed
  // at once.
  Clock::Duration patience = std::chrono::minutes(10);
  // Rounds that average models wait less than that, by what steps take: Note [Deadlines that set themselves]
  // in kith/engine/round_patience.h. Not on directed schedules, where mass would be lost, and not where nodes
  // are models.
  bool patience_adapts = true;
  bool same_start = true;  // everybody starts from rank 0's model
  // What happens when a member is gone. Either way the step under way goes on with its weight put on oneself.
  //   false  so do all later ones
  //   true   the others agree on a new view through the Store and go on without it: a new schedule over those
  //          that are left, each with its model, its moments and its step (Note [Going on without a worker]
  //          in kith/engine/view_follower.h). Not where nodes are models that an optimizer of one's own moves
  bool reforms = false;
};

// InputError for an impossible combination.
void validate(const EngineOptions& options);
// InputError where nodes are models and have one worker each. They may come to that, but do not begin so.
void require_mates(const EngineOptions& options);

// When workers mix. InputError where `trigger` cannot be read, or goes by measurements.
std::unique_ptr<optim::Trigger> make_trigger(const EngineOptions& options);

// Whether measurements decide when workers mix, or how many rounds (Note [Pace] in kith/engine/pace.h).
bool pace_is_measured(const EngineOptions& options);

// What `inside` may be.
std::vector<std::string> inside_names();

// Whether the workers of a node are one model: `inside` is allreduce.
bool nodes_are_models(const EngineOptions& options);

// Where segments begin in their bucket, and where it ends: at multiples of so many elements (bucketing.h).
std::size_t wire_block(const EngineOptions& options);

// Whether workers average gradients before a step: all of them (all-reduce), or those of a node.
bool averages_gradients(const EngineOptions& options);

}  // namespace kith::engine
