#include "kith/engine/bucket_state.h"

#include <utility>

#include "kith/base/text.h"

namespace kith::engine {

template <class T>
BucketState<T>::BucketState(BucketModel<T>& model, BucketStateOptions options)
    : model_(model), options_(std::move(options)), steps_(model.parts().size()) {
  for (int k = 0; k < options_.optimizer + options_.algorithm; ++k)
    vectors_.push_back(model.device().allocate(model.count() * sizeof(T)));
}

template <class T>
std::array<T*, 3> BucketState<T>::optimizer(std::size_t first) const {
  std::array<T*, 3> found{};
  for (std::size_t k = 0; k < static_cast<std::size_t>(options_.optimizer); ++k)
    found[k] = vectors_[k].template as<T>() + first;
  return found;
}

template <class T>
T* BucketState<T>::algorithm(int index, std::size_t first) const {
  return vectors_[static_cast<std::size_t>(options_.optimizer + index)].template as<T>() + first;
}

template <class T>
std::vector<typename BucketState<T>::Block> BucketState<T>::blocks() {
  std::vector<Block> all;
  const auto add = [&](const std::string& name, void* data, std::size_t bytes, bool on_device) {
    all.push_back({options_.name + "/" + name, static_cast<std::byte*>(data), bytes, on_device});
  };
  const std::vector<BucketPart>& parts = model_.parts();
  for (std::size_t k = 0; k < parts.size(); ++k)
    add(cat("model", k), model_.home(parts[k]), parts[k].count * sizeof(T), true);
  for (std::size_t k = 0; k < vectors_.size(); ++k) {
    add(cat("state", k), vectors_[k].data(), vectors_[k].bytes(), true);
    all.back().of_algorithm = k >= static_cast<std::size_t>(options_.optimizer);
  }
  add("steps", steps_.data(), steps_.size() * sizeof(steps_[0]), false);
  add("weight", &weight_, sizeof(weight_), false);
  return all;
}

template <class T>
void BucketState<T>::spans(std::vector<StateSpan>& spans) {
  const std::vector<Block> all = blocks();
  const bool elsewhere = !model_.device().host();
  const bool filled = !taken_ && !saved_.empty();
  if (elsewhere) saved_.resize(all.size());
  for (std::size_t k = 0; k < all.size(); ++k) {
    const auto& [name, data, bytes, on_device, of_algorithm] = all[k];
    std::byte* here = data;
    if (on_device && elsewhere) {
      saved_[k].resize(bytes);
      here = saved_[k].data();
      if (!filled) model_.queue().copy_now(here, data, bytes);
    }
    spans.push_back({name, {here, bytes}, of_algorithm});
  }
}

template <class T>
void BucketState<T>::take() {
  const std::vector<Block> all = blocks();
  for (std::size_t k = 0; k < saved_.size(); ++k)
    model_.queue().copy_now(all[k].data, saved_[k].data(), saved_[k].size());
  saved_.clear();
  taken_ = true;
}

template <class T>
std::size_t BucketState<T>::bytes() const {
  std::size_t bytes = 0;
  for (const kernels::Buffer& vector : vectors_)
    bytes += vector.bytes();
  return bytes;
}

template class BucketState<float>;
template class BucketState<double>;

}  // namespace kith::engine
