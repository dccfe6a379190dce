#include "kith/engine/bucket_model.h"

#include <algorithm>
#include <array>

namespace kith::engine {

template <class T>
BucketModel<T>::BucketModel(const BucketPlan& plan, Layout layout, std::span<const Segment> segments,
                            kernels::Device& device)
    : plan_(plan), layout_(layout), device_(device), kernels_(kernels::make_kernels<T>(device.compute())) {
  for (const Placed& placed : plan.segments) {
    const Segment& segment = segments[placed.segment];
    indices_.push_back(placed.segment);
    auto* const parameter = static_cast<std::byte*>(segment.data) + placed.from * size_of(segment.type);
    parts_.push_back({placed.first, placed.from, placed.count, parameter});
  }
  if (!alternating() && has_master()) master_ = device.allocate(plan.count * sizeof(T));
}

template <class T>
T* BucketModel<T>::home(const BucketPart& part) const {
  if (alternating()) return slots_->slot(version_) + part.first;
  if (has_master()) return master_.as<T>() + part.first;
  return reinterpret_cast<T*>(part.parameter);
}

template <class T>
const BucketPart& BucketModel<T>::part_of(std::size_t segment) const {
  return parts_[static_cast<std::size_t>(std::find(indices_.begin(), indices_.end(), segment) -
                                         indices_.begin())];
}

template <class T>
void* BucketModel<T>::data(std::size_t segment) const {
  const BucketPart& part = part_of(segment);
  return has_master() ? static_cast<void*>(part.parameter) : home(part);
}

template <class T>
std::vector<void*> BucketModel<T>::places(std::size_t segment) const {
  const BucketPart& part = part_of(segment);
  if (!alternating() || has_master()) return {part.parameter};
  return {slots_->slot(0) + part.first, slots_->slot(1) + part.first};
}

template <class T>
void BucketModel<T>::take(std::span<const Segment> segments) {
  if (!alternating() && !has_master()) return;
  for (std::size_t k = 0; k < parts_.size(); ++k) {
    const BucketPart& part = parts_[k];
    const auto* const given = static_cast<const std::byte*>(segments[indices_[k]].data);
    kernels_->convert(home(part), dtype_of<T>(), given + part.from * size_of(plan_.type), plan_.type,
                      part.count);
  }
}

template <class T>
void BucketModel<T>::copy_out() {
  if (!has_master()) return;
  for (const BucketPart& part : parts_)
    kernels_->convert(part.parameter, plan_.type, home(part), dtype_of<T>(), part.count);
}

// A parameter was its master rounded; the master moves by as much as the parameter did.
template <class T>
void BucketModel<T>::follow_parameters() {
  if (!has_master()) return;
  for (const BucketPart& part : parts_) {
    const std::array<kernels::Source, 3> sources{kernels::Source{home(part), dtype_of<T>(), 1},
                                                 kernels::Source{home(part), dtype_of<T>(), -1, plan_.type},
                                                 kernels::Source{part.parameter, plan_.type, 1}};
    kernels_->mix({home(part), nullptr, {}}, {sources, 1}, part.count);
  }
}

template <class T>
void BucketModel<T>::for_chunks(std::size_t most,
                                const std::function<void(std::size_t, std::size_t)>& visit) const {
  for (std::size_t first = 0; first < plan_.count; first += most)
    visit(first, std::min(most, plan_.count - first));
}

template <class T>
void BucketModel<T>::for_pieces(
    std::size_t first, std::size_t count,
    const std::function<void(std::size_t, std::size_t, std::size_t)>& visit) const {
  for (std::size_t k = 0; k < parts_.size(); ++k) {
    const std::size_t low = std::max(first, parts_[k].first);
    const std::size_t high = std::min(first + count, parts_[k].first + parts_[k].count);
    if (low < high) visit(k, low - parts_[k].first, high - low);
  }
}

template <class T>
std::vector<T> BucketModel<T>::read(std::size_t first, std::size_t count) const {
  std::vector<T> values(count);
  for_pieces(first, count, [&](std::size_t k, std::size_t from, std::size_t n) {
    queue().copy_now(values.data() + (parts_[k].first + from - first), home(parts_[k]) + from, n * sizeof(T));
  });
  return values;
}

template <class T>
void BucketModel<T>::write(std::size_t first, const std::vector<T>& values) {
  for_pieces(first, values.size(), [&](std::size_t k, std::size_t from, std::size_t n) {
    queue().copy_now(home(parts_[k]) + from, values.data() + (parts_[k].first + from - first), n * sizeof(T));
  });
}

template class BucketModel<float>;
template class BucketModel<double>;

}  // namespace kith::engine
