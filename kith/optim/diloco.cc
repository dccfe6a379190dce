#include "kith/optim/algorithms.h"

namespace kith::optim {
namespace {

// Outer steps between inner ones: DiLoCo (arXiv 2311.08105) and NoLoCo (arXiv 2506.10911). Between two steps
// that mix, theta follows the optimizer alone; phi is where it began. In a step that mixes, after the
// optimizer's:
//   D_i      = theta_i - phi_i
//   delta_i <- a delta_i + b sum_j W[i,j] D_j + g (sum_j W[i,j] phi_j - phi_i)
//   phi_i   <- phi_i + delta_i        theta_i <- phi_i
// With everybody in one group all phi are equal, and g has nothing to act on: diloco. In pairs, noloco, g
// keeps them together. phi is known as soon as the inner steps begin, and travels meanwhile: only the
// differences are urgent.
template <class T>
class OuterSteps final : public Algorithm<T> {
 public:
  static constexpr int kDifference = 0, kSlow = 1;  // channels
  static constexpr int kPhi = 0, kDelta = 1;        // state

  OuterSteps(double momentum, double rate, double pull) : momentum_(momentum), rate_(rate), pull_(pull) {}

  std::vector<ChannelSpec> channels() const override {
    if (pull_ == 0) return {{"difference", false}};
    return {{"difference", false}, {.name = "slow", .early_state = kPhi}};
  }
  std::vector<std::string> states() const override { return {"slow_model", "outer_momentum"}; }
  int phases() const override { return 2; }

  void run(int phase, BucketStep<T>& b) const override {
    if (phase == 0) return inner_step(b);
    if (b.mixes()) outer_step(b);
  }

 private:
  static kernels::Source own(const T* values, double weight) { return {values, dtype_of<T>(), weight}; }

  // to = the sum of the sources
  static void sum(BucketStep<T>& b, const SegmentView& s, const std::vector<kernels::Source>& sources,
                  const kernels::Destination<T>& to) {
    b.mix(s, {sources, 1}, to);
  }

  void inner_step(BucketStep<T>& b) const {
    for (const SegmentView& s : b.segments())
      if (b.first()) sum(b, s, {own(b.model(s), 1)}, {b.state(kPhi, s), nullptr, {}});
    b.run_passes();
    for (const SegmentView& s : b.segments()) {
      const kernels::Source x = own(b.model(s), 1);
      b.step(s, {{&x, 1}, 1}, b.next_model(s));
    }
    if (!b.mixes()) return;
    b.run_passes();
    for (const SegmentView& s : b.segments())
      sum(b, s, {own(b.model(s), 1), own(b.state(kPhi, s), -1)}, b.outgoing(kDifference, s));
    b.publish(kDifference);
  }

  void outer_step(BucketStep<T>& b) const {
    const gossip::Gathered& differences = b.gather(kDifference);
    const gossip::Gathered* const slow = pull_ != 0 ? &b.gather(kSlow) : nullptr;
    for (const SegmentView& s : b.segments()) {
      std::vector<kernels::Source> sources{own(b.state(kDelta, s), momentum_)};
      add(sources, b.mix_of(differences, kDifference, s), rate_);
      if (slow) {
        add(sources, b.mix_of(*slow, kSlow, s), pull_);
        sources.push_back(own(b.state(kPhi, s), -pull_));
      }
      sum(b, s, sources, {b.state(kDelta, s), nullptr, {}});
    }
    b.run_passes();
    for (const SegmentView& s : b.segments())
      sum(b, s, {own(b.state(kPhi, s), 1), own(b.state(kDelta, s), 1)}, b.next_model(s));
    b.run_passes();
    for (const SegmentView& s : b.segments()) {
      sum(b, s, {own(b.model(s), 1)}, {b.state(kPhi, s), nullptr, {}});
      if (slow) sum(b, s, {own(b.model(s), 1)}, b.outgoing(kSlow, s));
    }
    if (slow) b.publish(kSlow);
  }

  static void add(std::vector<kernels::Source>& sources, const kernels::Mix& mix, double factor) {
    for (kernels::Source source : mix.sources) {
      source.weight *= mix.scale * factor;
      sources.push_back(source);
    }
  }

  const double momentum_, rate_, pull_;
};

}  // namespace

template <class T>
std::unique_ptr<Algorithm<T>> make_diloco(const MethodOptions& options) {
  return std::make_unique<OuterSteps<T>>(options.outer_momentum.value_or(0.9), options.outer_rate, 0);
}
template std::unique_ptr<Algorithm<float>> make_diloco<float>(const MethodOptions&);
template std::unique_ptr<Algorithm<double>> make_diloco<double>(const MethodOptions&);

template <class T>
std::unique_ptr<Algorithm<T>> make_noloco(const MethodOptions& options) {
  return std::make_unique<OuterSteps<T>>(options.outer_momentum.value_or(0.5), options.outer_rate,
                                         options.outer_pull.value_or(options.outer_rate));
}
template std::unique_ptr<Algorithm<float>> make_noloco<float>(const MethodOptions&);
template std::unique_ptr<Algorithm<double>> make_noloco<double>(const MethodOptions&);

}  // namespace kith::optim
