#include "kith/engine/gradient_reduction.h"

#include <exception>
#include <utility>

#include "kith/base/check.h"
#include "kith/engine/tally.h"

namespace kith::engine {

template <class T>
GradientReduction<T>::GradientReduction(const WorldParts& world, const GradientReductionOptions& options)
    : world_(world),
      options_(options),
      direct_(options.reducers ? options.reducers->make() : nullptr),
      queue_(direct_ ? nullptr : options.device->make_queue()),
      kernels_(kernels::make_kernels<T>(queue())) {
  kernels::Device& device = *options.device;
  host_ = device.allocate_pinned((direct_ ? options.firsts.size() : elements()) * sizeof(T));
  flags_ = {host_.as<T>() + (direct_ ? 0 : options.count), options.firsts.size()};
  host_kernels_ = kernels::make_kernels<T>(kernels::host_device().compute());
  if (direct_) {
    means_ = device.allocate(elements() * sizeof(T));
    outgoing_ = lossy() ? device.allocate(wire_bytes(elements())) : means_;
    travelling_ = device.allocate_pinned(wire_bytes(options.firsts.size()));
    return;
  }
  means_ = host_;
  if (!device.host()) {
    outgoing_ = device.allocate(wire_bytes(options.count));
    means_ = device.allocate(options.count * sizeof(T));
  }
  collective_ = std::make_unique<gossip::Collective<T>>(
      *world.transport, world.members, *host_kernels_, *world.clock,
      gossip::CollectiveOptions{options.name, elements(), options.patience, device.pinner(), options.wire});
}

template <class T>
GradientReduction<T>::~GradientReduction() {
  try {
    if (direct_) {
      direct_->wait(world_.clock->now() + options_.patience);
    } else {
      kernels::wait(queue_->mark());
    }
  } catch (const std::exception& e) {
    world_.log->error(cat(world_.self(), ", end of ", options_.name, ": ", e.what()));
  }
}

template <class T>
void GradientReduction<T>::reduce(std::span<const kernels::Vector> gradients, const kernels::Mark& ready,
                                  Deadline deadline) {
  KITH_CHECK_EQ(gradients.size(), options_.firsts.size(), "one per segment");
  queue().after(ready);
  if (direct_) {
    reduce_directly(gradients, deadline);
  } else {
    reduce_through_host(gradients, deadline);
  }
  mark_ = queue().mark();
}

template <class T>
void GradientReduction<T>::collect(std::span<const kernels::Vector> gradients, std::byte* to,
                                   std::byte* flags) {
  for (std::size_t k = 0; k < gradients.size(); ++k) {
    std::byte* const place = to + wire_bytes(options_.firsts[k]);
    if (gradients[k].data) {
      kernels_->convert(place, options_.wire, gradients[k].data, gradients[k].type, gradients[k].count);
    } else {
      queue().zero(place, wire_bytes(gradients[k].count));
    }
    flags_[k] = gradients[k].data ? T{1} : T{0};
  }
  host_kernels_->convert(flags, options_.wire, flags_.data(), dtype_of<T>(), flags_.size());
}

template <class T>
void GradientReduction<T>::reduce_directly(std::span<const kernels::Vector> gradients, Deadline deadline) {
  std::byte* const flags_here = outgoing_.data() + wire_bytes(options_.count);
  collect(gradients, outgoing_.data(), travelling_.data());
  queue().copy(flags_here, travelling_.data(), travelling_.bytes());
  const Clock::Time begin = world_.clock->now();
  direct_->mean(outgoing_.data(), options_.wire, elements(), deadline);
  queue().copy(travelling_.data(), flags_here, travelling_.bytes());
  if (lossy())
    kernels_->convert(means_.data(), dtype_of<T>(), outgoing_.data(), options_.wire, options_.count);
  direct_->wait(deadline);
  host_kernels_->convert(flags_.data(), dtype_of<T>(), travelling_.data(), options_.wire, flags_.size());
  tally_.waited += world_.clock->now() - begin;
  tally_.bytes_published += wire_bytes(elements());
}

template <class T>
void GradientReduction<T>::reduce_through_host(std::span<const kernels::Vector> gradients,
                                               Deadline deadline) {
  const std::span<std::byte> out = collective_->outgoing(elements(), deadline);
  std::byte* const first = outgoing_.empty() ? out.data() : outgoing_.data();
  collect(gradients, first, out.data() + wire_bytes(options_.count));
  if (first != out.data()) {
    queue_->copy(out.data(), first, outgoing_.bytes());
    kernels::wait(queue_->mark());
  }
  const gossip::RoundReport report = collective_->mean_of_outgoing({host_.as<T>(), elements()}, deadline);
  note(tally_, report);
  if (!missing_) missing_ = report.missing();
  if (report.lacking) tally_.late.push_back(*report.lacking);
  tally_.bytes_published += out.size();
  if (means_.data() != host_.data()) queue_->copy(means_.data(), host_.data(), options_.count * sizeof(T));
}

template <class T>
const T* GradientReduction<T>::mean(std::size_t k) const {
  return flags_[k] > 0 ? means_.as<T>() + options_.firsts[k] : nullptr;
}

template <class T>
StepReport GradientReduction<T>::take_tally() {
  missing_.reset();
  return std::exchange(tally_, {});
}

template <class T>
void GradientReduction<T>::add_memory(MemoryUse& use) const {
  use.staging += host_.bytes() + travelling_.bytes();
  if (means_.data() != host_.data()) use.staging += means_.bytes();
  if (outgoing_.data() != means_.data()) use.staging += outgoing_.bytes();
  if (collective_) use.windows += collective_->window_bytes();
}

template class GradientReduction<float>;
template class GradientReduction<double>;

}  // namespace kith::engine
