#include "kith/optim/algorithms.h"
#include "kith/optim/pass_on.h"

namespace kith::optim {
namespace {

// Adapt then combine, R rounds:
//   y_i      = x_i(t) - lr * direction( gradient at x_i(t) )
//   x_i(t+1) = sum_j M_t[i,j] y_j                             M_t = the product of the step's R rounds
template <class T>
class Atc final : public Algorithm<T> {
 public:
  explicit Atc(int rounds) : rounds_(rounds) {}

  std::vector<ChannelSpec> channels() const override { return {{"adapted", false, true}}; }
  int phases() const override { return rounds_ + 1; }
  int rounds_per_step() const override { return rounds_; }

  void run(int phase, BucketStep<T>& b) const override {
    if (phase == 0) {
      for (const SegmentView& s : b.segments()) {
        const kernels::Source own{b.model(s), dtype_of<T>(), 1};
        b.step(s, {{&own, 1}, 1}, b.mixes() ? b.outgoing(0, s) : b.next_model(s));
      }
      if (b.mixes()) b.publish(0);
      return;
    }
    if (phase > b.rounds()) return;
    if (phase < b.rounds()) return pass_on(b, 0, phase - 1);
    const gossip::Gathered& neighbours = b.gather(0, phase - 1);
    for (const SegmentView& s : b.segments())
      b.mix(s, b.mix_of(neighbours, 0, s), b.next_model(s));
  }

 private:
  const int rounds_;
};

}  // namespace

template <class T>
std::unique_ptr<Algorithm<T>> make_atc(const MethodOptions& options) {
  return std::make_unique<Atc<T>>(options.rounds);
}
template std::unique_ptr<Algorithm<float>> make_atc<float>(const MethodOptions&);
template std::unique_ptr<Algorithm<double>> make_atc<double>(const MethodOptions&);

}  // namespace kith::optim
