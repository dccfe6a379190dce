#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kith/kernels/kernels.h"
#include "tests/kernels/memory.h"

namespace kith::kernels {

// One call of a kernel with seeded inputs, to be run by several implementations and compared.
struct Shape {
  std::size_t count = 1;
  std::size_t offset = 0;  // elements between the start of each allocation and its span
  std::vector<DType> sources{DType::f32};
  DType gradient = DType::f32;
  std::optional<DType> encoded{};
  std::uint64_t seed = 1;
  // Appends the first source once more, rounded to this.
  std::optional<DType> rounded{};
};

std::string describe(const Shape& shape);

struct Step {
  std::string name;
  enum class Kind { mix, sgd, adam, accum_adam } kind = Kind::mix;
  SgdOptions sgd{};
  AdamOptions adam{};
  int commit_every = 1;
  double gradient_scale = 1;
  double mix_scale = 1;
};

// Every algorithm with each of its branches.
std::vector<Step> all_steps();

// Of an int8 copy, and of a source rounded to int8.
inline constexpr std::uint64_t kEncodedDraw = 77, kRoundedDraw = 1'000'000'007;

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
  // The same through memory of the kernels' device, where they have their own.
  void run(Kernels<T>& kernels, const Step& step, Memory& memory);

  // The call on elements begin .. end as a value. The sources live in `sources`.
  Pass<T> pass(const Step& step, std::size_t begin, std::size_t end, int destination, Memory& memory,
               std::vector<Source>& sources);

  std::vector<T> values(int destination = -1) const;
  std::vector<T> state(std::size_t k) const;
  std::vector<std::uint16_t> encoded() const;
  // Where it is of the values' own type.
  std::vector<T> copy() const;
  // An int8 copy: its blocks.
  const std::vector<std::byte>& encoded_blocks() const { return encoded_; }
  // All results as bytes.
  std::vector<std::byte> bits(int destination = -1) const;

  const Shape& shape() const { return shape_; }

 private:
  using Bytes = std::vector<std::byte>;

  Bytes draw(DType type, std::uint64_t stream, bool positive) const;
  void draw_int8(std::uint64_t stream, std::size_t source);
  // The byte at which element i of a vector lies; blocks of int8 know no offset.
  std::size_t place(DType type, std::size_t i) const;
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
