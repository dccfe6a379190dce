#include "kith/optim/algorithms.h"

namespace kith::optim {
namespace {

// Adapt then combine:
//   y_i      = x_i(t) - lr * direction( gradient at x_i(t) )
//   x_i(t+1) = sum_j W_t[i,j] y_j
template <class T>
class Atc final : public Algorithm<T> {
 public:
  std::vector<ChannelSpec> channels() const override { return {{"adapted", false}}; }
  int phases() const override { return 2; }

  void run(int phase, BucketStep<T>& b) const override {
    if (phase == 0) {
      for (const SegmentView& s : b.segments()) {
        const kernels::Source own{b.model(s), dtype_of<T>(), 1};
        b.step(s, {{&own, 1}, 1}, b.outgoing(0, s));
      }
      b.publish(0);
      return;
    }
    const gossip::Gathered& neighbours = b.gather(0);
    for (const SegmentView& s : b.segments())
      b.mix(s, b.mix_of(neighbours, 0, s), b.next_model(s));
  }
};

}  // namespace

template <class T>
std::unique_ptr<Algorithm<T>> make_atc() {
  return std::make_unique<Atc<T>>();
}
template std::unique_ptr<Algorithm<float>> make_atc<float>();
template std::unique_ptr<Algorithm<double>> make_atc<double>();

}  // namespace kith::optim
