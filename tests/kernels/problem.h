#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kith/kernels/kernels.h"

namespace kith::kernels {

// One call of a kernel with seeded inputs, to be run by several implementations and compared.
struct Shape {
  std::size_t count = 1;
  std::size_t offset = 0;  // elements between the start of each allocation and its span
  std::vector<DType> sources{DType::f32};
  DType gradient = DType::f32;
  std::optional<DType> encoded{};
  std::uint64_t seed = 1;
};

std::string describe(const Shape& shape);

struct Step {
  std::string name;
  enum class Kind { mix, sgd, adam, accum_adam } kind = Kind::mix;
  SgdOptions sgd{};
  AdamOptions adam{};
  int window = 1;
  double gradient_scale = 1;
  double mix_scale = 1;
};

// Every algorithm with each of its branches.
std::vector<Step> all_steps();

template <class T>
class Problem {
 public:
  // Models and gradients of order 1, second moments positive.
  explicit Problem(const Shape& shape);

  // Element i of every source, of the gradient, and of the first state array becomes `value`.
  void poison(std::size_t i, double value);

  // Elements begin .. end, in place. `destination` k >= 0 writes over source k (REQUIRES: it is of type T).
  void run(Kernels<T>& kernels, const Step& step, std::size_t begin, std::size_t end, int destination = -1);
  void run(Kernels<T>& kernels, const Step& step) { run(kernels, step, 0, shape_.count); }

  std::vector<T> values(int destination = -1) const;
  std::vector<T> state(std::size_t k) const;
  std::vector<std::uint16_t> encoded() const;
  // All results as bytes.
  std::vector<std::byte> bits(int destination = -1) const;

  const Shape& shape() const { return shape_; }

 private:
  using Bytes = std::vector<std::byte>;

  Bytes draw(DType type, std::uint64_t stream, bool positive) const;
  template <class Word>
  std::vector<Word> words(const Bytes& bytes) const;

  Shape shape_;
  std::vector<Bytes> sources_;
  Bytes gradient_;
  std::vector<Bytes> state_;
  Bytes values_;
  Bytes encoded_;
};

}  // namespace kith::kernels
