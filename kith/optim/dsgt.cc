#include "kith/optim/algorithms.h"
#include "kith/optim/pass_on.h"

namespace kith::optim {
namespace {

// Gradient tracking with R rounds of consensus (arXiv 2211.00533): h follows the mean gradient.
//   h_i(t)   = sum_j M_t[i,j] ( h_j(t-1) + g_j(t) - g_j(t-1) )        h(-1) = g(-1) = 0
//   x_i(t+1) = sum_j M_t[i,j] ( x_j(t) - lr * direction(h_j(t)) )     M_t = the product of the step's R
//   rounds
// mc-dsgt is the whole of it, dsgt has R = 1. A parameter without a gradient in this step tracks a gradient
// of zero, and is mixed but not moved. In steps without mixing M is the identity.
template <class T>
class Dsgt final : public Algorithm<T> {
 public:
  static constexpr int kModel = 0, kTracker = 1;         // channels
  static constexpr int kTracked = 0, kLastGradient = 1;  // state

  explicit Dsgt(int rounds) : rounds_(rounds) {}

  std::vector<ChannelSpec> channels() const override {
    return {{"adapted", false, true}, {"tracker", false}};
  }
  std::vector<std::string> states() const override { return {"tracker", "last_gradient"}; }
  AtViewChange at_view_change() const override { return AtViewChange::reset; }
  int phases() const override { return 2 * rounds_ + 1; }
  int rounds_per_step() const override { return rounds_; }
  bool mixes_gradients() const override { return true; }

  void run(int phase, BucketStep<T>& b) const override {
    const int rounds = b.rounds();
    if (rounds == 0) return phase == 0 ? alone(b) : void();
    if (phase == 0) return track(b);
    if (phase < rounds) return pass_on(b, kTracker, phase - 1);
    if (phase == rounds) return adapt(b);
    if (phase < 2 * rounds) return pass_on(b, kModel, phase - rounds - 1);
    if (phase > 2 * rounds) return;
    const gossip::Gathered& neighbours = b.gather(kModel, rounds - 1);
    for (const SegmentView& s : b.segments())
      b.mix(s, b.mix_of(neighbours, kModel, s), b.next_model(s));
  }

 private:
  static kernels::Source own(const T* values, double weight) { return {values, dtype_of<T>(), weight}; }

  void track(BucketStep<T>& b) const {
    for (const SegmentView& s : b.segments())
      add_change(b, s, b.outgoing(kTracker, s));
    b.run_passes();
    for (const SegmentView& s : b.segments())
      keep_gradient(b, s);
    b.publish(kTracker);
  }

  void adapt(BucketStep<T>& b) const {
    const gossip::Gathered& neighbours = b.gather(kTracker, b.rounds() - 1);
    for (const SegmentView& s : b.segments())
      b.mix(s, b.mix_of(neighbours, kTracker, s), {b.state(kTracked, s), nullptr, {}});
    b.run_passes();
    for (const SegmentView& s : b.segments())
      move(b, s, b.outgoing(kModel, s));
    b.publish(kModel);
  }

  void alone(BucketStep<T>& b) const {
    for (const SegmentView& s : b.segments())
      add_change(b, s, {b.state(kTracked, s), nullptr, {}});
    b.run_passes();
    for (const SegmentView& s : b.segments()) {
      keep_gradient(b, s);
      move(b, s, b.next_model(s));
    }
  }

  // to = h + g - last g
  void add_change(BucketStep<T>& b, const SegmentView& s, const kernels::Destination<T>& to) const {
    const kernels::Gradient& g = s.input.gradient;
    std::vector<kernels::Source> sum{own(b.state(kTracked, s), 1), own(b.state(kLastGradient, s), -1)};
    if (g.data) sum.push_back({g.data, g.type, g.scale});
    b.mix(s, {sum, 1}, to);
  }

  void keep_gradient(BucketStep<T>& b, const SegmentView& s) const {
    T* const last = b.state(kLastGradient, s);
    const kernels::Gradient& g = s.input.gradient;
    const kernels::Source now = g.data ? kernels::Source{g.data, g.type, g.scale} : own(last, 0);
    b.mix(s, {{&now, 1}, 1}, {last, nullptr, {}});
  }

  // to = x - lr * direction(h)
  void move(BucketStep<T>& b, const SegmentView& s, const kernels::Destination<T>& to) const {
    const kernels::Source x = own(b.model(s), 1);
    const T* const tracked = s.input.gradient.data ? b.state(kTracked, s) : nullptr;
    b.step(s, {{&x, 1}, 1}, {tracked, dtype_of<T>(), 1}, to);
  }

  const int rounds_;
};

}  // namespace

template <class T>
std::unique_ptr<Algorithm<T>> make_dsgt(const MethodOptions&) {
  return std::make_unique<Dsgt<T>>(1);
}
template std::unique_ptr<Algorithm<float>> make_dsgt<float>(const MethodOptions&);
template std::unique_ptr<Algorithm<double>> make_dsgt<double>(const MethodOptions&);

template <class T>
std::unique_ptr<Algorithm<T>> make_mc_dsgt(const MethodOptions& options) {
  return std::make_unique<Dsgt<T>>(options.rounds);
}
template std::unique_ptr<Algorithm<float>> make_mc_dsgt<float>(const MethodOptions&);
template std::unique_ptr<Algorithm<double>> make_mc_dsgt<double>(const MethodOptions&);

}  // namespace kith::optim
