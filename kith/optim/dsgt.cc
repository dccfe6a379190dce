#include "kith/optim/algorithms.h"

namespace kith::optim {
namespace {

// Gradient tracking (arXiv 2211.00533 with one consensus round): h follows the mean gradient.
//   h_i(t)   = sum_j W_t[i,j] ( h_j(t-1) + g_j(t) - g_j(t-1) )        h(-1) = g(-1) = 0
//   x_i(t+1) = sum_j W_t[i,j] ( x_j(t) - lr * direction(h_j(t)) )
// A parameter without a gradient in this step tracks a gradient of zero, and is mixed but not moved.
template <class T>
class Dsgt final : public Algorithm<T> {
 public:
  static constexpr int kModel = 0, kTracker = 1;         // channels
  static constexpr int kTracked = 0, kLastGradient = 1;  // state

  std::vector<ChannelSpec> channels() const override { return {{"adapted", false}, {"tracker", false}}; }
  int states() const override { return 2; }
  int phases() const override { return 3; }
  bool mixes_gradients() const override { return true; }

  void run(int phase, BucketStep<T>& b) const override {
    if (phase == 0) return track(b);
    if (phase == 1) return adapt(b);
    const gossip::Gathered& neighbours = b.gather(kModel);
    for (const SegmentView& s : b.segments())
      b.mix(s, b.mix_of(neighbours, kModel, s), b.next_model(s));
  }

 private:
  static kernels::Source own(const T* values, double weight) { return {values, dtype_of<T>(), weight}; }

  void track(BucketStep<T>& b) const {
    for (const SegmentView& s : b.segments()) {
      const kernels::Gradient& g = s.input.gradient;
      std::vector<kernels::Source> sum{own(b.state(kTracked, s), 1), own(b.state(kLastGradient, s), -1)};
      if (g.data) sum.push_back({g.data, g.type, g.scale});
      b.mix(s, {sum, 1}, b.outgoing(kTracker, s));
    }
    b.run_passes();
    for (const SegmentView& s : b.segments()) {
      T* const last = b.state(kLastGradient, s);
      const kernels::Gradient& g = s.input.gradient;
      const kernels::Source now = g.data ? kernels::Source{g.data, g.type, g.scale} : own(last, 0);
      b.mix(s, {{&now, 1}, 1}, {last, nullptr, {}});
    }
    b.publish(kTracker);
  }

  void adapt(BucketStep<T>& b) const {
    const gossip::Gathered& neighbours = b.gather(kTracker);
    for (const SegmentView& s : b.segments())
      b.mix(s, b.mix_of(neighbours, kTracker, s), {b.state(kTracked, s), nullptr, {}});
    b.run_passes();
    for (const SegmentView& s : b.segments()) {
      const kernels::Source x = own(b.model(s), 1);
      const bool moves = s.input.gradient.data != nullptr;
      const T* const tracked = moves ? b.state(kTracked, s) : nullptr;
      b.step(s, {{&x, 1}, 1}, {tracked, dtype_of<T>(), 1}, b.outgoing(kModel, s));
    }
    b.publish(kModel);
  }
};

}  // namespace

template <class T>
std::unique_ptr<Algorithm<T>> make_dsgt() {
  return std::make_unique<Dsgt<T>>();
}
template std::unique_ptr<Algorithm<float>> make_dsgt<float>();
template std::unique_ptr<Algorithm<double>> make_dsgt<double>();

}  // namespace kith::optim
