#include "kith/kernels/kernels.h"

namespace kith::kernels {
namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

}  // namespace

template <class T>
void Kernels<T>::run(std::span<const Pass<T>> passes) {
  for (const Pass<T>& p : passes) {
    const auto &s0 = p.state[0], &s1 = p.state[1], &s2 = p.state[2];
    const Overloaded one{
        [&](const MixOnly&) { mix(p.to, p.mix, p.count); },
        [&](const SgdOptions& o) { mix_sgd(p.to, p.mix, p.gradient, s0, o, p.count); },
        [&](const AdamOptions& o) { mix_adam(p.to, p.mix, p.gradient, s0, s1, o, p.count); },
        [&](const AccumAdamOptions& o) { mix_accum_adam(p.to, p.mix, p.gradient, s0, s1, s2, o, p.count); },
    };
    std::visit(one, p.step);
  }
}

template class Kernels<float>;
template class Kernels<double>;

}  // namespace kith::kernels
