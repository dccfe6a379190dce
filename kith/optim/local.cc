#include "kith/optim/algorithms.h"

namespace kith::optim {
namespace {

// No neighbours: x(t+1) = x(t) - lr * direction(gradient). Local-only training, and all-reduce, whose
// gradients are everybody's mean when they come here.
template <class T>
class Local final : public Algorithm<T> {
 public:
  explicit Local(Exchange exchange) : exchange_(exchange) {}

  Exchange exchange() const override { return exchange_; }
  std::vector<ChannelSpec> channels() const override { return {}; }

  void run(int, BucketStep<T>& b) const override {
    for (const SegmentView& s : b.segments()) {
      if (!s.input.gradient.data) continue;
      const kernels::Source own{b.model(s), dtype_of<T>(), 1};
      b.step(s, {{&own, 1}, 1}, b.next_model(s));
    }
  }

 private:
  const Exchange exchange_;
};

}  // namespace

template <class T>
std::unique_ptr<Algorithm<T>> make_allreduce(const MethodOptions&) {
  return std::make_unique<Local<T>>(Exchange::gradients);
}
template std::unique_ptr<Algorithm<float>> make_allreduce<float>(const MethodOptions&);
template std::unique_ptr<Algorithm<double>> make_allreduce<double>(const MethodOptions&);

template <class T>
std::unique_ptr<Algorithm<T>> make_none(const MethodOptions&) {
  return std::make_unique<Local<T>>(Exchange::nothing);
}
template std::unique_ptr<Algorithm<float>> make_none<float>(const MethodOptions&);
template std::unique_ptr<Algorithm<double>> make_none<double>(const MethodOptions&);

}  // namespace kith::optim
