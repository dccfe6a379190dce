#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kith/base/rng.h"
#include "kith/gossip/mixer.h"
#include "kith/graph/matrix.h"
#include "kith/kernels/cpu/cpu_kernels.h"
#include "tests/support/worlds.h"

namespace kith::gossip {

inline std::unique_ptr<graph::Schedule> schedule_for(const std::string& topology, const graph::Shape& shape) {
  graph::ScheduleOptions options;
  options.topology = topology;
  options.shape = shape;
  options.seed = 5;
  return graph::make_schedule(options);
}

// Worker `rank`'s first vector; everybody can compute everybody's.
inline std::vector<double> first_vector(int rank, std::size_t count) {
  Rng rng(hash_words(11, rank));
  std::vector<double> x(count);
  for (double& value : x)
    value = static_cast<float>(rng.uniform() * 2 - 1);
  return x;
}

// Rows are workers.
inline Eigen::MatrixXd first_vectors(int workers, std::size_t count) {
  Eigen::MatrixXd x(workers, static_cast<Eigen::Index>(count));
  for (int rank = 0; rank < workers; ++rank) {
    const std::vector<double> row = first_vector(rank, count);
    x.row(rank) = Eigen::Map<const Eigen::RowVectorXd>(row.data(), static_cast<Eigen::Index>(count));
  }
  return x;
}

// A mixer with everything it stands on.
template <class T>
class Bench {
 public:
  Bench(support::Worker& worker, const graph::Schedule& schedule, MixerOptions options)
      : kernels_(kernels::make_cpu_kernels<T>()),
        mixer_(worker.transport, schedule, Members::first(worker.size), *kernels_, clock_, options) {
    const std::vector<double> x = first_vector(worker.rank, options.count);
    for (std::size_t k = 0; k < x.size(); ++k)
      mixer_.values()[k] = static_cast<T>(x[k]);
  }

  Mixer<T>& operator*() { return mixer_; }
  Mixer<T>* operator->() { return &mixer_; }
  const Clock& clock() const { return clock_; }

 private:
  const SteadyClock clock_;
  const std::unique_ptr<kernels::Kernels<T>> kernels_;
  Mixer<T> mixer_;
};

// Vectors travel from a worker to the test as hexadecimal text, exact to the bit.
template <class T>
std::string bytes_of(std::span<const T> x) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::byte b : std::as_bytes(x)) {
    text += kDigits[std::to_integer<int>(b >> 4)];
    text += kDigits[std::to_integer<int>(b & std::byte{15})];
  }
  return text;
}
template <class T>
std::vector<T> values_of(const std::string& text) {
  std::vector<T> x(text.size() / 2 / sizeof(T));
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  const auto bytes = std::as_writable_bytes(std::span(x));
  for (std::size_t k = 0; k < bytes.size(); ++k) {
    bytes[k] = static_cast<std::byte>(16 * digit(text[2 * k]) + digit(text[2 * k + 1]));
  }
  return x;
}

}  // namespace kith::gossip
