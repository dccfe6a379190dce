#include "kith/optim/algorithm.h"

#include <array>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/optim/algorithms.h"

namespace kith::optim {
namespace {

template <class T>
struct Entry {
  std::string_view name;
  std::unique_ptr<Algorithm<T>> (*make)();
};

template <class T>
constexpr std::array<Entry<T>, 6> kTable{{{"awc", make_awc<T>},
                                          {"atc", make_atc<T>},
                                          {"dsgt", make_dsgt<T>},
                                          {"sgp", make_sgp<T>},
                                          {"allreduce", make_allreduce<T>},
                                          {"none", make_none<T>}}};

}  // namespace

std::vector<std::string> algorithm_names() {
  std::vector<std::string> names;
  for (const auto& entry : kTable<float>)
    names.emplace_back(entry.name);
  return names;
}

Exchange exchange_of(std::string_view name) {
  return make_algorithm<float>(name)->exchange();
}

template <class T>
std::unique_ptr<Algorithm<T>> make_algorithm(std::string_view name) {
  for (const Entry<T>& entry : kTable<T>) {
    if (entry.name == name) return entry.make();
  }
  throw InputError(cat("'", name, "' is not an algorithm"), "algorithm", suggest(name, algorithm_names()));
}

template std::unique_ptr<Algorithm<float>> make_algorithm<float>(std::string_view);
template std::unique_ptr<Algorithm<double>> make_algorithm<double>(std::string_view);

}  // namespace kith::optim
