#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kith/engine/bucketing.h"
#include "kith/gossip/channel.h"
#include "kith/kernels/device.h"
#include "kith/kernels/kernels.h"

namespace kith::engine {

// One segment, or a range of one, as it lies in a bucket.
struct BucketPart {
  std::size_t first = 0;  // element of the bucket
  std::size_t from = 0;   // element of the segment
  std::size_t count = 0;
  std::byte* parameter = nullptr;  // where that lies in the user's parameter, when it is not in the window
};

// A bucket's model, whose arithmetic is in T: fp64 parameters in double, all others in float (16-bit
// parameters have a float master here and receive rounded copies).
//
// Where the values ("home") lie:
//   alternating  in the two slots of a channel, by turns
//   staged       in the parameters themselves, or in a master block for 16-bit parameters
template <class T>
class BucketModel {
 public:
  BucketModel(const BucketPlan& plan, Layout layout, std::span<const Segment> segments,
              kernels::Device& device);

  const BucketPlan& plan() const { return plan_; }
  std::size_t count() const { return plan_.count; }  // elements, padding included
  const std::vector<std::size_t>& indices() const { return indices_; }
  const std::vector<BucketPart>& parts() const { return parts_; }  // parallel to indices()
  bool alternating() const { return layout_ == Layout::alternating; }
  // True when the segments are 16-bit and the model here is their float master.
  bool has_master() const { return plan_.type != dtype_of<T>(); }
  std::size_t master_bytes() const { return master_.bytes(); }

  // Alternating: the slots it lies in, from before the first use on, and the version that it is now.
  void lie_in(const gossip::Channel<T>& slots) { slots_ = &slots; }
  void set_version(std::uint64_t version) { version_ = version; }

  T* home(const BucketPart& part) const;
  void* data(std::size_t segment) const;
  std::vector<void*> places(std::size_t segment) const;

  // The values are what the segments hold.
  void take(std::span<const Segment> segments);
  // 16-bit parameters receive their master, rounded.
  void copy_out();
  // The masters follow parameters that somebody else has moved.
  void follow_parameters();

  // The bucket in ranges of at most `most` elements: visit(first, count).
  void for_chunks(std::size_t most, const std::function<void(std::size_t, std::size_t)>& visit) const;
  // The parts that a range overlaps: visit(part, first element in the part, count).
  void for_pieces(std::size_t first, std::size_t count,
                  const std::function<void(std::size_t, std::size_t, std::size_t)>& visit) const;
  // A copy of a range in host memory; padding is zero. Waits for the device, as the next one does.
  std::vector<T> read(std::size_t first, std::size_t count) const;
  void write(std::size_t first, const std::vector<T>& values);

  kernels::Device& device() const { return device_; }
  kernels::Queue& queue() const { return device_.compute(); }
  kernels::Kernels<T>& kernels() const { return *kernels_; }

 private:
  const BucketPart& part_of(std::size_t segment) const;

  const BucketPlan plan_;
  const Layout layout_;
  kernels::Device& device_;
  const std::unique_ptr<kernels::Kernels<T>> kernels_;
  std::vector<std::size_t> indices_;
  std::vector<BucketPart> parts_;
  kernels::Buffer master_;  // staged 16-bit parameters
  const gossip::Channel<T>* slots_ = nullptr;
  std::uint64_t version_ = 0;
};

}  // namespace kith::engine
