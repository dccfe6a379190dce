#include "kith/optim/algorithms.h"

namespace kith::optim {
namespace {

// Adapt while communicate (arXiv 2410.11998):
//   x_i(t+1) = sum_j W_t[i,j] x_j(t) - lr * direction( gradient at x_i(t) )
template <class T>
class Awc final : public Algorithm<T> {
 public:
  std::vector<ChannelSpec> channels() const override { return {{"model", true}}; }

  void run(int, BucketStep<T>& b) const override {
    const gossip::Gathered& neighbours = b.gather(0);
    for (const SegmentView& s : b.segments())
      b.step(s, b.mix_of(neighbours, 0, s), b.next_model(s));
    b.publish(0);
  }
};

}  // namespace

template <class T>
std::unique_ptr<Algorithm<T>> make_awc(const MethodOptions&) {
  return std::make_unique<Awc<T>>();
}
template std::unique_ptr<Algorithm<float>> make_awc<float>(const MethodOptions&);
template std::unique_ptr<Algorithm<double>> make_awc<double>(const MethodOptions&);

}  // namespace kith::optim
