#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kith/engine/bucket.h"
#include "kith/engine/bucketing.h"
#include "kith/engine/channel.h"
#include "kith/engine/gradient_reduction.h"
#include "kith/optim/algorithm.h"

namespace kith::engine {

struct TypedBucketOptions {
  std::string name;  // "model/bucket3"
  BucketPlan plan;
  std::uint64_t digest = 0;
  DType wire = DType::f32;
  Layout layout = Layout::staged;  // alternating or staged
  bool averages_gradients = false;
  bool moved_outside = false;                  // EngineOptions::external_optimizer
  gossip::DeviceReducers* reducers = nullptr;  // of all-reduce; null: through host memory
  Clock::Duration patience{};
  const graph::Schedule* schedule = nullptr;
  CommThreads* threads = nullptr;  // for rounds over machines; null when the schedule has none
  DeviceWork* work = nullptr;      // where the segments lie
};

// A bucket whose arithmetic is in T: fp64 parameters in double, all others in float (16-bit parameters have a
// float master here and receive rounded copies).
//
// Where the model ("home") lies:
//   alternating  in the two slots of channel 0, by turns
//   staged       in the parameters themselves, or in a master block for 16-bit parameters
template <class T>
class TypedBucket final : public Bucket, private optim::BucketStep<T> {
 public:
  TypedBucket(const World& world, const TypedBucketOptions& options, const optim::Algorithm<T>& algorithm,
              const optim::LocalStep<T>& local, std::span<const Segment> segments);

  const std::vector<std::size_t>& indices() const override { return indices_; }
  void begin_step(const StepContext& context, std::span<const SegmentInput> inputs) override;
  int phases() const override { return algorithm_.phases(); }
  void run(int phase) override;
  void end_step(StepReport& report) override;
  void* data(std::size_t segment) const override;
  std::vector<void*> places(std::size_t segment) const override;
  void adopt(std::int64_t step, std::span<const Segment> segments) override;
  void share_start(Collectives& collectives, Deadline deadline) override;
  void publish_first(const StepContext& first) override;
  void reduce_gradients(std::span<const SegmentInput> inputs, const kernels::Mark& ready,
                        Deadline deadline) override;
  void hand_out_means(std::span<void* const> to, std::vector<bool>& there) override;
  void add_gradients(std::span<const SegmentInput> inputs,
                     std::vector<kernels::Vector>& gradients) const override;
  void average(Collectives& collectives, std::span<void* const> to, Deadline deadline) override;
  double squared_consensus_distance(Collectives& collectives, Deadline deadline) override;
  void state(std::vector<StateSpan>& spans) override;
  void add_memory(MemoryUse& use) const override;

 private:
  // One segment, or a range of one, as it lies here.
  struct Part {
    std::size_t first = 0;
    std::size_t from = 0;  // element of the segment
    std::size_t count = 0;
    std::byte* parameter = nullptr;  // where that lies in the user's parameter, when it is not in the window
  };

  // optim::BucketStep
  const std::vector<optim::SegmentView>& segments() const override { return views_; }
  const T* model(const optim::SegmentView& s) const override { return home(part_of(s)); }
  kernels::Destination<T> next_model(const optim::SegmentView& s) override;
  T* state(int index, const optim::SegmentView& s) override;
  double weight() const override { return weight_; }
  void set_weight(double weight) override { weight_ = weight; }
  kernels::Destination<T> outgoing(int channel, const optim::SegmentView& s) override;
  void publish(int channel) override;
  const gossip::Gathered& gather(int channel) override;
  kernels::Mix mix_of(const gossip::Gathered& gathered, int channel, const optim::SegmentView& s) override;
  void step(const optim::SegmentView& s, const kernels::Mix& mix, const kernels::Gradient& gradient,
            const kernels::Destination<T>& to) override;
  void mix(const optim::SegmentView& s, const kernels::Mix& mix, const kernels::Destination<T>& to) override;
  void run_passes() override;

  bool alternating() const { return options_.layout == Layout::alternating; }
  // True when the segments are 16-bit and the model here is their float master.
  bool has_master() const { return options_.plan.type != dtype_of<T>(); }
  // Whether the model that this step makes meets others in the next round: if not, nobody reads its copy.
  bool next_is_shared() const;
  bool carries_model(int channel) const { return channel_specs_[static_cast<std::size_t>(channel)].is_model; }
  const Part& part_of(const optim::SegmentView& s) const {
    return parts_[static_cast<std::size_t>(&s - views_.data())];
  }
  kernels::Device& device() const { return options_.work->device; }
  kernels::Queue& queue() const { return device().compute(); }
  T* home(const Part& part) const;
  static const void* gradient_of(const Part& part, const SegmentInput& input);
  void copy_out();
  // The masters follow parameters that somebody else has moved.
  void copy_in();
  // Whether a step reads the means where the reduction has left them.
  bool reads_means() const { return reduction_ && !means_handed_out_; }
  void add(kernels::Pass<T> pass);
  // Hands over what the passes so far have read and written.
  void finish();

  // The bucket in ranges of at most `most` elements: visit(first, count).
  void for_chunks(std::size_t most, const std::function<void(std::size_t, std::size_t)>& visit) const;
  // The parts that a range overlaps: visit(part, first element in the part, count).
  void for_pieces(std::size_t first, std::size_t count,
                  const std::function<void(std::size_t, std::size_t, std::size_t)>& visit) const;
  // A copy of a range of the model in host memory; padding is zero. Waits for the device, as the next one
  // does.
  std::vector<T> model_piece(std::size_t first, std::size_t count) const;
  void set_model_piece(std::size_t first, const std::vector<T>& piece);

  // The blocks of state where they lie.
  struct StatePlace {
    std::string name;
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    bool on_device = true;
  };
  std::vector<StatePlace> state_places();
  void take_state();
  void open_reduction();

  const World& world_;
  const TypedBucketOptions options_;
  const optim::Algorithm<T>& algorithm_;
  const optim::LocalStep<T>& local_;
  const std::unique_ptr<kernels::Kernels<T>> kernels_;
  const std::vector<optim::ChannelSpec> channel_specs_;
  std::vector<std::unique_ptr<Channel<T>>> channels_;
  std::vector<std::size_t> indices_;
  std::vector<Part> parts_;  // parallel to indices_ and views_
  std::vector<optim::SegmentView> views_;
  std::vector<std::int64_t> steps_;            // of each parameter's own, parallel to parts_
  kernels::Buffer master_;                     // staged 16-bit parameters
  std::vector<kernels::Buffer> states_;        // the optimizer's, then the algorithm's
  std::vector<std::vector<std::byte>> saved_;  // asynchronous devices: what state() gave out
  double weight_ = 1;
  std::uint64_t model_version_ = 0;  // alternating: the version of channel 0 that is the model
  std::vector<kernels::Source> scratch_;
  std::vector<kernels::Pass<T>> passes_;                    // not yet run
  std::vector<std::vector<kernels::Source>> pass_sources_;  // theirs
  const StepContext* context_ = nullptr;                    // during a step
  StepReport tally_;                                        // of the step in progress

  std::unique_ptr<GradientReduction<T>> reduction_;  // all-reduce; null for the other algorithms
  bool means_handed_out_ = false;                    // in the step under way
};

}  // namespace kith::engine
