#include "kith/optim/algorithms.h"

namespace kith::optim {
namespace {

// Stochastic gradient push (arXiv 2002.09964 without quantisation): a directed schedule, a weight y travels
// along. The model is the de-biased z; w is what is pushed.
//   x_i      = w_i(t) - lr * direction( gradient at z_i(t) )          w(0) = z(0), y(0) = 1
//   w_i(t+1) = sum_j A_t[i,j] x_j        y_i(t+1) = sum_j A_t[i,j] y_j        z_i(t+1) = w_i(t+1) / y_i(t+1)
template <class T>
class Sgp final : public Algorithm<T> {
 public:
  std::vector<ChannelSpec> channels() const override { return {{"pushed", false, true}}; }
  int phases() const override { return 2; }
  bool needs_directed_schedule() const override { return true; }

  void run(int phase, BucketStep<T>& b) const override {
    if (phase == 0) {
      for (const SegmentView& s : b.segments()) {
        const kernels::Source w{b.model(s), dtype_of<T>(), b.weight()};  // w = y z
        b.step(s, {{&w, 1}, 1}, b.mixes() ? b.outgoing(0, s) : b.next_model(s));
      }
      if (b.mixes()) return b.publish(0);
      b.run_passes();
      for (const SegmentView& s : b.segments()) {
        const kernels::Source w{b.model(s), dtype_of<T>(), 1 / b.weight()};
        b.mix(s, {{&w, 1}, 1}, b.next_model(s));
      }
      return;
    }
    if (!b.mixes()) return;
    const gossip::Gathered& neighbours = b.gather(0);
    const double y = neighbours.report().weight;
    for (const SegmentView& s : b.segments()) {
      const kernels::Mix w = b.mix_of(neighbours, 0, s);
      b.mix(s, {w.sources, w.scale / y}, b.next_model(s));
    }
    b.set_weight(y);
  }
};

}  // namespace

template <class T>
std::unique_ptr<Algorithm<T>> make_sgp(const MethodOptions&) {
  return std::make_unique<Sgp<T>>();
}
template std::unique_ptr<Algorithm<float>> make_sgp<float>(const MethodOptions&);
template std::unique_ptr<Algorithm<double>> make_sgp<double>(const MethodOptions&);

}  // namespace kith::optim
