#include "kith/engine/bucket_average.h"

#include <algorithm>
#include <vector>

#include "kith/engine/collectives.h"

namespace kith::engine {

template <class T>
void share_start(BucketModel<T>& model, gossip::Tree<T>& all, Deadline deadline) {
  model.for_chunks(all.capacity(), [&](std::size_t first, std::size_t count) {
    std::vector<T> piece = model.read(first, count);
    all.broadcast(piece, 0, deadline);
    model.write(first, piece);
  });
}

template <class T>
double average(const BucketModel<T>& model, gossip::Tree<T>& all, std::span<void* const> to,
               const std::string& what, Deadline deadline) {
  kernels::Queue& queue = model.queue();
  const DType type = model.plan().type;
  double distance = 0;
  kernels::Buffer scratch;
  if (!model.device().host())
    scratch = model.device().allocate(std::min(all.capacity(), model.count()) * sizeof(T));
  model.for_chunks(all.capacity(), [&](std::size_t first, std::size_t count) {
    const std::vector<T> own = model.read(first, count);
    std::vector<T> averaged = own;
    require_everybody(all.mean(averaged, deadline), what);
    distance += all.squared_consensus_distance(own, averaged, deadline);
    if (to.empty()) return;
    const T* mean = averaged.data();
    if (!scratch.empty()) {
      queue.copy_now(scratch.data(), averaged.data(), count * sizeof(T));
      mean = scratch.as<T>();
    }
    model.for_pieces(first, count, [&](std::size_t k, std::size_t from, std::size_t n) {
      const BucketPart& part = model.parts()[k];
      auto* const out = static_cast<std::byte*>(to[model.indices()[k]]) + (part.from + from) * size_of(type);
      model.kernels().convert(out, type, mean + (part.first + from - first), dtype_of<T>(), n);
    });
    kernels::wait(queue.mark());  // the piece goes
  });
  return distance;
}

template <class T>
double squared_consensus_distance(const BucketModel<T>& model, gossip::Tree<T>& all, Deadline deadline) {
  double sum = 0;
  model.for_chunks(all.capacity(), [&](std::size_t first, std::size_t count) {
    const std::vector<T> piece = model.read(first, count);
    sum += all.squared_consensus_distance(piece, deadline);
  });
  return sum;
}

template void share_start(BucketModel<float>&, gossip::Tree<float>&, Deadline);
template void share_start(BucketModel<double>&, gossip::Tree<double>&, Deadline);
template double average(const BucketModel<float>&, gossip::Tree<float>&, std::span<void* const>,
                        const std::string&, Deadline);
template double average(const BucketModel<double>&, gossip::Tree<double>&, std::span<void* const>,
                        const std::string&, Deadline);
template double squared_consensus_distance(const BucketModel<float>&, gossip::Tree<float>&, Deadline);
template double squared_consensus_distance(const BucketModel<double>&, gossip::Tree<double>&, Deadline);

}  // namespace kith::engine
