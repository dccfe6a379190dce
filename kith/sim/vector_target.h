#pragma once

// Compiles one loop body for several instruction sets and picks at run time. The bodies use no fused
// multiply-add, so the choice changes the speed and never a bit of the result.
//
//   KITH_SIM_INLINE void body(...) { ... }
//   KITH_SIM_AVX512 void wide(...) { body(...); }
//   KITH_SIM_AVX2 void middle(...) { body(...); }
#define KITH_SIM_INLINE [[gnu::always_inline]] inline

#if defined(__x86_64__)
#define KITH_SIM_AVX512 [[gnu::target("avx512f,avx512dq,avx512vl,avx512bw,prefer-vector-width=512")]]
#define KITH_SIM_AVX2 [[gnu::target("avx2")]]
#else
#define KITH_SIM_AVX512
#define KITH_SIM_AVX2
#endif

namespace kith::sim {

enum class VectorTarget { plain, avx2, avx512 };

inline VectorTarget vector_target() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw"))
    return VectorTarget::avx512;
  if (__builtin_cpu_supports("avx2")) return VectorTarget::avx2;
#endif
  return VectorTarget::plain;
}

}  // namespace kith::sim
