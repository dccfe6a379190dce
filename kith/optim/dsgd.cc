#include "kith/optim/algorithms.h"

namespace kith::optim {

// Decentralised SGD (arXiv 1705.09056) and D-Adam (arXiv 2008.10422) differ in the optimizer alone. Its own
// order is adapt_first; mix_first mixes the previous iterate, and the message has a whole step to travel in.
template <class T>
std::unique_ptr<Algorithm<T>> make_dsgd(const MethodOptions& options) {
  return options.order == Order::adapt_first ? make_atc<T>(options) : make_awc<T>(options);
}
template std::unique_ptr<Algorithm<float>> make_dsgd<float>(const MethodOptions&);
template std::unique_ptr<Algorithm<double>> make_dsgd<double>(const MethodOptions&);

}  // namespace kith::optim
