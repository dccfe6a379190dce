#include "kith/kernels/cuda/codec.cuh"
#include "kith/kernels/cuda/launch.cuh"

namespace kith::kernels::cuda {
namespace {

// A coder has kUnit, the elements that a warp takes at once, and encode() and add() of the unit that begins
// with element `first`, with all lanes taking part.

template <class T>
struct FullCoder {
  static constexpr std::size_t kUnit = 128;

  __device__ static void encode(const CodecJob<T>& job, std::size_t first, int lane) {
    const std::size_t at = first + 4 * lane;
    T d[4], replica[4];
    load_difference(job, at, d, replica);
#pragma unroll
    for (int k = 0; k < 4; ++k)
      replica[k] = replica[k] + d[k];
    store_four(d, reinterpret_cast<T*>(job.message), at, job);
    store_four(replica, job.replica, at, job);
  }

  __device__ static void add(const CodecJob<T>& job, std::size_t first, int lane) {
    const std::size_t at = first + 4 * lane;
    T d[4], replica[4];
    load_four(reinterpret_cast<const T*>(job.message), at, job, d);
    load_four(job.replica, at, job, replica);
#pragma unroll
    for (int k = 0; k < 4; ++k)
      replica[k] = replica[k] + d[k];
    store_four(replica, job.replica, at, job);
  }
};

template <class T>
struct Int8Coder {
  static constexpr std::size_t kUnit = kInt8Block;
  static_assert(kUnit == 4 * kWarp);

  __device__ static float* scale_at(const CodecJob<T>& job, std::size_t first) {
    return reinterpret_cast<float*>(job.message + int8_scales_at(job.count)) + first / kInt8Block;
  }
  __device__ static T value(std::uint32_t packed, int k, float scale) {
    return static_cast<T>(float_from_int8(static_cast<std::int8_t>(packed >> (8 * k)), scale));
  }

  __device__ static void encode(const CodecJob<T>& job, std::size_t first, int lane) {
    const std::size_t at = first + 4 * lane;
    T d[4], replica[4];
    load_difference(job, at, d, replica);
    std::uint32_t greatest = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k)
      greatest = max(greatest, magnitude_bits(static_cast<float>(d[k])));
    const Int8Scale scale = int8_scale(greatest_of_lanes<kWarp>(greatest));
    std::uint32_t packed = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const std::int32_t code = int8_from_float(static_cast<float>(d[k]), scale.inverse);
      packed |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(code)) << (8 * k);
      replica[k] = replica[k] + value(packed, k, scale.scale);
    }
    // The elements end with zeros up to the scales.
    if (at < int8_scales_at(job.count)) reinterpret_cast<std::uint32_t*>(job.message)[at / 4] = packed;
    if (lane == 0) *scale_at(job, first) = scale.scale;
    store_four(replica, job.replica, at, job);
  }

  __device__ static void add(const CodecJob<T>& job, std::size_t first, int lane) {
    const std::size_t at = first + 4 * lane;
    T replica[4];
    load_four(job.replica, at, job, replica);
    const std::uint32_t packed =
        at < job.count ? reinterpret_cast<const std::uint32_t*>(job.message)[at / 4] : 0;
    const float scale = *scale_at(job, first);
#pragma unroll
    for (int k = 0; k < 4; ++k)
      replica[k] = replica[k] + value(packed, k, scale);
    store_four(replica, job.replica, at, job);
  }
};

// Two blocks of 64 a warp, 16 lanes each. The codes of a block are 2B words.
template <class T>
struct QsgdCoder {
  static constexpr std::size_t kUnit = 128;
  static_assert(kQsgdBlock == 4 * kQsgdLanes);

  struct Place {
    std::size_t at;     // of the lane's elements
    std::size_t block;  // of the lane
    int lane;           // of the block
    std::byte* packed;  // all codes
    std::size_t bytes;  // of them
    std::size_t word;   // where the block begins in them
    float* scale;
  };

  __device__ static Place place(const CodecJob<T>& job, std::size_t first, int lane) {
    Place p;
    p.at = first + 4 * lane;
    p.block = p.at / kQsgdBlock;
    p.lane = lane % kQsgdLanes;
    p.packed = job.message + blocks_of(job.count, kQsgdBlock) * sizeof(float);
    p.bytes = qsgd_packed_bytes(job.count, job.bits);
    p.word = p.block * (2 * job.bits);
    p.scale = reinterpret_cast<float*>(job.message) + p.block;
    return p;
  }

  __device__ static float scale_of(const CodecJob<T>& job, const T (&d)[4]) {
    double scale = 0;
    if (job.greatest) {
      unsigned long long greatest = 0;
#pragma unroll
      for (int k = 0; k < 4; ++k)
        greatest = max(greatest, static_cast<unsigned long long>(order_of(static_cast<double>(d[k]))));
      scale = __longlong_as_double(static_cast<long long>(greatest_of_lanes<kQsgdLanes>(greatest)));
    } else {
      double sum = 0;
#pragma unroll
      for (int k = 0; k < 4; ++k)
        sum += static_cast<double>(d[k]) * static_cast<double>(d[k]);
      scale = __dsqrt_rn(sum_of_lanes<kQsgdLanes>(sum));
    }
    return number_or_nan(__double2float_ru(scale));
  }

  // Lane w of a block writes word w, whose bits are of the lanes from 32w / 4B on.
  __device__ static void store_codes(const CodecJob<T>& job, const Place& p, std::uint32_t codes) {
    const int width = 4 * job.bits;
    std::uint32_t word = 0;
    const int from = 32 * p.lane / width;
    for (int j = 0; j * width < 32 + width; ++j) {
      const int source = from + j;
      const std::uint32_t theirs = __shfl_sync(kAllLanes, codes, min(source, kQsgdLanes - 1), kQsgdLanes);
      const int shift = source * width - 32 * p.lane;
      if (source >= kQsgdLanes || shift >= 32 || shift <= -32) continue;
      word |= shift >= 0 ? theirs << shift : theirs >> -shift;
    }
    if (p.lane < 2 * job.bits) store_word(word, p.packed, p.bytes, p.word + p.lane);
  }

  __device__ static std::uint32_t load_codes(const CodecJob<T>& job, const Place& p) {
    const int bit = 4 * job.bits * p.lane;
    const std::size_t word = p.word + bit / 32;
    const std::uint32_t low = load_word(p.packed, p.bytes, word);
    const std::uint32_t high = load_word(p.packed, p.bytes, word + 1);
    return __funnelshift_r(low, high, bit % 32);
  }

  __device__ static void encode(const CodecJob<T>& job, std::size_t first, int lane) {
    const Place p = place(job, first, lane);
    T d[4], replica[4];
    load_difference(job, p.at, d, replica);
    const float scale = scale_of(job, d);
    const int levels = qsgd_levels(job.bits);
    const T unit = qsgd_unit<T>(scale, levels);
    std::uint32_t codes = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const double uniform = uniform_at(job.draw, p.at + k);
      unsigned code = qsgd_code(fabs(static_cast<double>(d[k])), d[k] < 0, scale, levels, uniform);
      if (p.at + k >= job.count) code = 0;
      codes |= code << (k * job.bits);
      replica[k] = replica[k] + qsgd_value(code, unit);
    }
    store_codes(job, p, codes);
    if (p.lane == 0 && p.at < job.count) *p.scale = scale;
    store_four(replica, job.replica, p.at, job);
  }

  __device__ static void add(const CodecJob<T>& job, std::size_t first, int lane) {
    const Place p = place(job, first, lane);
    if (p.at >= job.count) return;
    T replica[4];
    load_four(job.replica, p.at, job, replica);
    const std::uint32_t codes = load_codes(job, p);
    const T unit = qsgd_unit<T>(*p.scale, qsgd_levels(job.bits));
    const std::uint32_t mask = (1U << job.bits) - 1;
#pragma unroll
    for (int k = 0; k < 4; ++k)
      replica[k] = replica[k] + qsgd_value((codes >> (k * job.bits)) & mask, unit);
    store_four(replica, job.replica, p.at, job);
  }
};

// A block of 1024 a warp: 8 times 128 elements. Lane w holds word w of its 32 words of signs.
template <class T>
struct SignCoder {
  static constexpr std::size_t kUnit = kSignBlock;
  static constexpr int kParts = kSignBlock / 128;
  static_assert(kSignLanes == kWarp);

  __device__ static std::byte* packed(const CodecJob<T>& job) {
    return job.message + blocks_of(job.count, kSignBlock) * sizeof(float);
  }
  __device__ static std::size_t bytes(const CodecJob<T>& job) { return (job.count + 7) / 8; }

  __device__ static void encode(const CodecJob<T>& job, std::size_t first, int lane) {
    T replica[kParts][4];
    double sum = 0;
    std::uint32_t word = 0, mine = 0;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      T d[4];
      load_difference(job, first + 128 * part + 4 * lane, d, replica[part]);
      std::uint32_t signs = 0;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        sum += fabs(static_cast<double>(d[k]));
        signs |= (d[k] < 0 ? 1U : 0U) << k;
      }
      mine |= signs << (4 * part);
      // Eight lanes make a word, the four words of a part go to lanes 4 part .. 4 part + 3.
      signs <<= 4 * (lane % 8);
#pragma unroll
      for (int step = 4; step > 0; step /= 2)
        signs |= __shfl_xor_sync(kAllLanes, signs, step);
      const std::uint32_t theirs = __shfl_sync(kAllLanes, signs, 8 * (lane % 4));
      if (lane / 4 == part) word = theirs;
    }
    const double elements = static_cast<double>(min(job.count - first, kSignBlock));
    const float scale = number_or_nan(static_cast<float>(sum_of_lanes<kSignLanes>(sum) / elements));
    store_word(word, packed(job), bytes(job), first / 32 + lane);
    if (lane == 0) reinterpret_cast<float*>(job.message)[first / kSignBlock] = scale;
#pragma unroll
    for (int part = 0; part < kParts; ++part)
      follow(job, first + 128 * part + 4 * lane, mine >> (4 * part), static_cast<T>(scale), replica[part]);
  }

  __device__ static void add(const CodecJob<T>& job, std::size_t first, int lane) {
    T replica[kParts][4];
#pragma unroll
    for (int part = 0; part < kParts; ++part)
      load_four(job.replica, first + 128 * part + 4 * lane, job, replica[part]);
    const std::uint32_t word = load_word(packed(job), bytes(job), first / 32 + lane);
    const T scale = static_cast<T>(reinterpret_cast<const float*>(job.message)[first / kSignBlock]);
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const std::uint32_t theirs = __shfl_sync(kAllLanes, word, 4 * part + lane / 8);
      follow(job, first + 128 * part + 4 * lane, theirs >> (4 * (lane % 8)), scale, replica[part]);
    }
  }

  __device__ static void follow(const CodecJob<T>& job, std::size_t at, std::uint32_t signs, T scale,
                                T (&replica)[4]) {
#pragma unroll
    for (int k = 0; k < 4; ++k)
      replica[k] = replica[k] + (((signs >> k) & 1U) != 0 ? -scale : scale);
    store_four(replica, job.replica, at, job);
  }
};

template <class Coder, class T>
__global__ void __launch_bounds__(kThreads) encode_units(const __grid_constant__ CodecJob<T> job) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::size_t warps = std::size_t{gridDim.x} * (kThreads / kWarp);
  std::size_t unit = std::size_t{blockIdx.x} * (kThreads / kWarp) + threadIdx.x / kWarp;
  for (; unit * Coder::kUnit < job.count; unit += warps)
    Coder::encode(job, unit * Coder::kUnit, lane);
}

template <class Coder, class T>
__global__ void __launch_bounds__(kThreads) add_units(const __grid_constant__ CodecJob<T> job) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::size_t warps = std::size_t{gridDim.x} * (kThreads / kWarp);
  std::size_t unit = std::size_t{blockIdx.x} * (kThreads / kWarp) + threadIdx.x / kWarp;
  for (; unit * Coder::kUnit < job.count; unit += warps)
    Coder::add(job, unit * Coder::kUnit, lane);
}

template <class T>
__global__ void __launch_bounds__(kThreads) encode_drawn(const __grid_constant__ CodecJob<T> job) {
  const std::size_t step = std::size_t{gridDim.x} * kThreads;
  for (std::size_t k = std::size_t{blockIdx.x} * kThreads + threadIdx.x; k < job.kept; k += step) {
    const std::size_t place = job.places.at(k, job.count);
    const T replica = job.replica[place];
    const auto value = static_cast<float>(job.x[place] - replica);
    reinterpret_cast<float*>(job.message)[k] = value;
    job.replica[place] = replica + static_cast<T>(value);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) add_drawn(const __grid_constant__ CodecJob<T> job) {
  const std::size_t step = std::size_t{gridDim.x} * kThreads;
  for (std::size_t k = std::size_t{blockIdx.x} * kThreads + threadIdx.x; k < job.kept; k += step)
    job.replica[job.places.at(k, job.count)] +=
        static_cast<T>(reinterpret_cast<const float*>(job.message)[k]);
}

template <class T>
__global__ void __launch_bounds__(kThreads) add_placed(const __grid_constant__ CodecJob<T> job) {
  const std::size_t step = std::size_t{gridDim.x} * kThreads;
  for (std::size_t k = std::size_t{blockIdx.x} * kThreads + threadIdx.x; k < job.kept; k += step) {
    const uint2 placed = reinterpret_cast<const uint2*>(job.message)[k];
    if (placed.x < job.count) job.replica[placed.x] += static_cast<T>(__uint_as_float(placed.y));
  }
}

constexpr std::size_t kMostBlocks = std::size_t{1} << 20;

Grid grid_for(std::size_t count, std::size_t per_block, cudaStream_t stream) {
  const std::size_t blocks = blocks_of(count, per_block);
  return {static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks), kThreads, stream};
}

template <class Coder, class T>
cudaError_t launch_units(const CodecJob<T>& job, cudaStream_t stream) {
  const Grid grid = grid_for(job.count, kThreads / kWarp * Coder::kUnit, stream);
  return launch(job.x != nullptr ? encode_units<Coder, T> : add_units<Coder, T>, grid, job);
}

}  // namespace

template <class T>
cudaError_t launch_codec(CodecSpec::Kind kind, const CodecJob<T>& job, cudaStream_t stream) {
  switch (kind) {
    case CodecSpec::Kind::full:
      return launch_units<FullCoder<T>>(job, stream);
    case CodecSpec::Kind::int8:
      return launch_units<Int8Coder<T>>(job, stream);
    case CodecSpec::Kind::qsgd:
    case CodecSpec::Kind::qsgd_max:
      return launch_units<QsgdCoder<T>>(job, stream);
    case CodecSpec::Kind::sign:
      return launch_units<SignCoder<T>>(job, stream);
    case CodecSpec::Kind::top_k:
      return launch(add_placed<T>, grid_for(job.kept, kThreads, stream), job);
    case CodecSpec::Kind::random_k:
      break;
  }
  return launch(job.x != nullptr ? encode_drawn<T> : add_drawn<T>, grid_for(job.kept, kThreads, stream), job);
}

template cudaError_t launch_codec(CodecSpec::Kind, const CodecJob<float>&, cudaStream_t);
template cudaError_t launch_codec(CodecSpec::Kind, const CodecJob<double>&, cudaStream_t);

}  // namespace kith::kernels::cuda
