#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "kith/base/dtype.h"

namespace kith::kernels {

// Words: a *source* is one model that takes part in a mix; the *destination* is where the result goes;
// *state* is what the optimizer keeps (always T). T is float or double, the type in which parameters and
// state are held; sources, gradients and the encoded copy may be of another type, converted in registers.
// All memory that a call names is of the device that the kernels run on.
//
// Every function is one pass over memory: it reads each source, the gradient and the state once, and writes
// the destination and the state once. Pointers need the alignment of their elements only (of i8: of its
// scales). A destination may
// equal a source of its own type, or not overlap it at all.
//
// Arithmetic is in T with scalars prepared in double; kith/kernels/scalars.h states the order of operations.
// On one machine the bits of an element depend on its inputs alone: not on the number of threads, on how a
// range is cut into calls, on alignment, or on the type that carried an exact value. Division and square root
// are exactly rounded, denormals are kept, NaN and infinity travel as IEEE 754 says.

struct Source {
  const void* data = nullptr;
  DType type = DType::f32;
  double weight = 1;
  // When set (bf16, f16 or i8), the values take part as a reader of that encoding sees them: as T, rounded to
  // it and back, in registers. What a worker itself published need not be read again.
  std::optional<DType> rounded_to{};
  std::uint64_t draw = 0;  // that they are rounded to i8 with
};

// The mixed value: scale * (w_0 x_0 + w_1 x_1 + ...), accumulated in T in the order given, first by a
// product, then by multiply-adds, fused where the instruction set has them. A group mean is weights 1 and
// scale 1/g, so that every path to it gives the same bits.
struct Mix {
  std::span<const Source> sources;  // at least one
  double scale = 1;
};

// Where the next parameters go. `encoded`, when set, receives them in `encoded_type`: rounded to nearest even
// in bf16 or f16, with the draw in i8 (whole blocks: Note [Dither] in int8.h), copied in T's own. It is a
// wire, or a 16-bit parameter. `values` may be null when only the encoded form is wanted (mix only).
template <class T>
struct Destination {
  T* values = nullptr;
  void* encoded = nullptr;
  DType encoded_type = DType::bf16;
  std::uint64_t draw = 0;  // of an i8 encoding: seeds what is added before rounding
};

// The gradient as it lies in memory; multiplied by `scale` (loss scaling, accumulation) and, where it is set,
// by *factor before use. The factor is read when the pass runs, so that clipping needs no word from the
// device (clip_factor).
struct Gradient {
  const void* data = nullptr;
  DType type = DType::f32;
  double scale = 1;
  const double* factor = nullptr;
};

enum class Decay : std::uint8_t {
  coupled,    // g += decay * mixed            (Adam, SGD)
  decoupled,  // mixed *= 1 - lr * decay       (AdamW)
};

struct SgdOptions {
  double lr = 0;
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;
  double decay = 0;    // coupled
  bool first = false;  // first step of this parameter: the momentum buffer is set to the gradient
};

struct AdamOptions {
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;  // outside the square root
  double decay = 0;
  Decay decay_kind = Decay::coupled;
  std::int64_t step = 1;  // of this parameter, from 1: bias correction
};

// Accumulated Adam (docs/kernels.md): the moments M, V are committed every `commit_every` steps; `step`
// counts this parameter's steps from 1, the bias correction uses ceil(step / commit_every), and a step that
// commits does M <- b1 M + (1-b1) a, V <- b2 V + (1-b2) a^2, a <- 0.
struct AccumAdamOptions {
  AdamOptions adam;
  int commit_every = 4;
  bool commits() const { return adam.step % commit_every == 0; }
};

struct MixOnly {};

// One call of the functions below, as a value: which one is the alternative that `step` holds.
template <class T>
struct Pass {
  Destination<T> to;
  Mix mix;
  Gradient gradient{};        // none for MixOnly
  std::array<T*, 3> state{};  // Sgd: momentum; Adam: m, v; accumulated: m, v, accumulator
  std::variant<MixOnly, SgdOptions, AdamOptions, AccumAdamOptions> step{};
  std::size_t count = 0;
};

// A vector whose norm is asked for; not i8.
struct Vector {
  const void* data = nullptr;
  DType type = DType::f32;
  std::size_t count = 0;
};

// Sums of squares, accumulated in double over fixed blocks of elements and added in block order.
struct Norms {
  double squared_norm = 0;      // sum a_k^2
  double squared_distance = 0;  // sum (a_k - b_k)^2
};

// The operations, the same for every device. Implementations: reference/ (plain loops in double, for tests),
// cpu/ (SIMD with run-time dispatch) and cuda/ (one launch per batch; calls return before the work is done).
// Stateless apart from a thread pool or stream; not for concurrent calls.
template <class T>
class Kernels {
 public:
  virtual ~Kernels() = default;

  // destination = mix
  virtual void mix(const Destination<T>& to, const Mix& mix, std::size_t count) = 0;

  // destination = mix - lr * direction(gradient), with torch.optim.SGD's direction. `momentum` may be null
  // when options.momentum is 0.
  virtual void mix_sgd(const Destination<T>& to, const Mix& mix, const Gradient& gradient, T* momentum,
                       const SgdOptions& options, std::size_t count) = 0;

  virtual void mix_adam(const Destination<T>& to, const Mix& mix, const Gradient& gradient, T* m, T* v,
                        const AdamOptions& options, std::size_t count) = 0;

  virtual void mix_accum_adam(const Destination<T>& to, const Mix& mix, const Gradient& gradient, T* m, T* v,
                              T* accumulator, const AccumAdamOptions& options, std::size_t count) = 0;

  // All passes, in any order or at once. REQUIRES: none writes what another reads or writes.
  virtual void run(std::span<const Pass<T>> passes);

  // Squared norm of a, and squared distance to b unless b is null. The only call that waits for its result.
  virtual Norms norms(const T* a, const T* b, std::size_t count) = 0;

  // *sum = the sum of the squares of all elements of all vectors, in double and in a fixed order.
  virtual void sum_squares(std::span<const Vector> vectors, double* sum) = 0;
  // *found = 1 where an element of a vector is inf or NaN, else 0.
  virtual void find_non_finite(std::span<const Vector> vectors, float* found) = 0;
  // *factor = min(1, most / (sqrt(*sum) + 1e-6)): the Gradient::factor that clips to the norm `most`, as
  // torch's clip_grad_norm_ has it; NaN where the sum is.
  virtual void clip_factor(const double* sum, double most, double* factor) = 0;

  // Element conversion between any two types but i8 (which mix() encodes and decodes), rounding to nearest
  // even.
  virtual void convert(void* to, DType to_type, const void* from, DType from_type, std::size_t count) = 0;
};

}  // namespace kith::kernels
