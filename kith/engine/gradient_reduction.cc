#include "kith/engine/gradient_reduction.h"

#include <exception>
#include <utility>

#include "kith/base/check.h"
#include "kith/engine/tally.h"

namespace kith::engine {

template <class T>
GradientReduction<T>::GradientReduction(const World& world, const GradientReductionOptions& options)
    : world_(world),
      options_(options),
      direct_(options.reducers ? options.reducers->make() : nullptr),
      queue_(direct_ ? nullptr : options.device->make_queue()),
      kernels_(kernels::make_kernels<T>(queue())) {
  kernels::Device& device = *options.device;
  if (direct_) {
    host_ = device.allocate_pinned(options.firsts.size() * sizeof(T));
    means_ = device.allocate(elements() * sizeof(T));
    flags_ = host_.as<T>();
    return;
  }
  host_ = device.allocate_pinned(elements() * sizeof(T));
  flags_ = host_.as<T>() + options.count;
  means_ = host_;
  if (!device.host()) {
    outgoing_ = device.allocate(options.count * sizeof(T));
    means_ = device.allocate(options.count * sizeof(T));
  }
  host_kernels_ = kernels::make_kernels<T>(kernels::host_device().compute());
  collective_ = std::make_unique<gossip::Collective<T>>(
      *world.transport, world.members, *host_kernels_, *world.clock,
      gossip::CollectiveOptions{options.name, elements(), options.patience, device.pinner()});
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
void GradientReduction<T>::reduce(std::span<const Part> parts, const kernels::Mark& ready,
                                  Deadline deadline) {
  KITH_CHECK_EQ(parts.size(), options_.firsts.size(), "one part per segment");
  queue().after(ready);
  if (direct_) {
    reduce_directly(parts, deadline);
  } else {
    reduce_through_host(parts, deadline);
  }
  mark_ = queue().mark();
}

template <class T>
void GradientReduction<T>::collect(std::span<const Part> parts, T* to, T* flags) {
  for (std::size_t k = 0; k < parts.size(); ++k) {
    T* const place = to + options_.firsts[k];
    if (parts[k].gradient) {
      kernels_->convert(place, dtype_of<T>(), parts[k].gradient, parts[k].type, parts[k].count);
    } else {
      queue().zero(place, parts[k].count * sizeof(T));
    }
    flags[k] = parts[k].gradient ? T{1} : T{0};
  }
}

template <class T>
void GradientReduction<T>::reduce_directly(std::span<const Part> parts, Deadline deadline) {
  T* const flags_here = means_.as<T>() + options_.count;
  collect(parts, means_.as<T>(), host_.as<T>());
  queue().copy(flags_here, host_.data(), host_.bytes());
  const Clock::Time begin = world_.clock->now();
  direct_->mean(means_.data(), dtype_of<T>(), elements(), deadline);
  queue().copy(host_.data(), flags_here, host_.bytes());
  direct_->wait(deadline);
  tally_.waited += world_.clock->now() - begin;
  tally_.bytes_published += elements() * sizeof(T);
}

template <class T>
void GradientReduction<T>::reduce_through_host(std::span<const Part> parts, Deadline deadline) {
  const std::span<T> out = collective_->outgoing(elements(), deadline);
  const std::size_t bytes = options_.count * sizeof(T);
  T* const first = outgoing_.empty() ? out.data() : outgoing_.as<T>();
  collect(parts, first, out.data() + options_.count);
  if (first != out.data()) {
    queue_->copy(out.data(), first, bytes);
    kernels::wait(queue_->mark());
  }
  note(tally_, collective_->mean_of_outgoing({host_.as<T>(), out.size()}, deadline));
  tally_.bytes_published += out.size_bytes();
  if (means_.data() != host_.data()) queue_->copy(means_.data(), host_.data(), bytes);
}

template <class T>
const T* GradientReduction<T>::mean(std::size_t k) const {
  return flags_[k] > 0 ? means_.as<T>() + options_.firsts[k] : nullptr;
}

template <class T>
StepReport GradientReduction<T>::take_tally() {
  return std::exchange(tally_, {});
}

template <class T>
void GradientReduction<T>::add_memory(MemoryUse& use) const {
  use.staging += host_.bytes() + outgoing_.bytes();
  if (means_.data() != host_.data()) use.staging += means_.bytes();
  if (collective_) use.windows += collective_->window_bytes();
}

template class GradientReduction<float>;
template class GradientReduction<double>;

}  // namespace kith::engine
