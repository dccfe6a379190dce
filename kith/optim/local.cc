#include "kith/optim/algorithms.h"

namespace kith::optim {
namespace {

// No neighbours: x(t+1) = x(t) - lr * direction(gradient). Local-only training, and the local half of
// all-reduce.
template <class T>
class Local final : public Algorithm<T> {
 public:
  std::vector<ChannelSpec> channels() const override { return {}; }

  void run(int, BucketStep<T>& b) const override {
    for (const SegmentView& s : b.segments()) {
      if (!s.input.gradient.data) continue;
      const kernels::Source own{b.model(s), dtype_of<T>(), 1};
      b.step(s, {{&own, 1}, 1}, b.next_model(s));
    }
  }
};

}  // namespace

template <class T>
std::unique_ptr<Algorithm<T>> make_local() {
  return std::make_unique<Local<T>>();
}
template std::unique_ptr<Algorithm<float>> make_local<float>();
template std::unique_ptr<Algorithm<double>> make_local<double>();

}  // namespace kith::optim
