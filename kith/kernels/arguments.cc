#include "kith/kernels/arguments.h"

#include "kith/base/check.h"

namespace kith::kernels {
namespace {

bool is_encoding(DType type) {
  return type == DType::bf16 || type == DType::f16 || type == DType::i8;
}

}  // namespace

template <class T>
void check_mix(const Destination<T>& to, const Mix& mix, std::size_t count) {
  KITH_CHECK_GE(mix.sources.size(), std::size_t{1}, "a mix has at least one source");
  if (count == 0) return;
  KITH_CHECK(to.values != nullptr || to.encoded != nullptr,
             "a mix writes its values, their encoding, or both");
  KITH_CHECK(to.encoded == nullptr || is_encoding(to.encoded_type) || to.encoded_type == dtype_of<T>(),
             "the encoded copy is bf16, fp16, int8 or of the values' own type");
  for (const Source& source : mix.sources) {
    KITH_CHECK(source.data != nullptr, "every source has data");
    KITH_CHECK(source.type != DType::i8 || !source.rounded_to, "an int8 source is rounded already");
    KITH_CHECK(!source.rounded_to || is_encoding(*source.rounded_to),
               "a source is rounded to bf16, fp16 or int8");
  }
}

template <class T>
void check_step(const Destination<T>& to, const Mix& mix, const Gradient& gradient, std::size_t count) {
  check_mix(to, mix, count);
  if (count == 0) return;
  KITH_CHECK(to.values != nullptr, "a step writes its values");
  KITH_CHECK(gradient.data != nullptr, "a step has a gradient; use mix() for a parameter without one");
  check_plain(gradient.type);
}

void check_plain(DType type) {
  KITH_CHECK(type != DType::i8, "int8 is for sources and the encoded copy");
}

template <class T>
void check_sgd(const T* momentum, const SgdOptions& options, std::size_t count) {
  KITH_CHECK(momentum != nullptr || options.momentum == 0 || count == 0, "momentum needs a buffer");
  KITH_CHECK(!options.nesterov || options.momentum != 0, "Nesterov needs momentum");
}

void check_adam(const AdamOptions& options) {
  KITH_CHECK_GE(options.step, std::int64_t{1}, "steps count from 1");
}

void check_accum_adam(const AccumAdamOptions& options) {
  KITH_CHECK_GE(options.commit_every, 1, "steps between commits of the moments");
  check_adam(options.adam);
}

template void check_mix(const Destination<float>&, const Mix&, std::size_t);
template void check_mix(const Destination<double>&, const Mix&, std::size_t);
template void check_step(const Destination<float>&, const Mix&, const Gradient&, std::size_t);
template void check_step(const Destination<double>&, const Mix&, const Gradient&, std::size_t);
template void check_sgd(const float*, const SgdOptions&, std::size_t);
template void check_sgd(const double*, const SgdOptions&, std::size_t);

}  // namespace kith::kernels
