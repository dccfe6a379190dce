#include "kith/kernels/cuda/codec.cuh"
#include "kith/kernels/cuda/launch.cuh"

namespace kith::kernels::cuda {
namespace {

// top-k without sorting. An element's key is order_of(x - replica). The least key that is kept is found digit
// by digit from the top: a histogram of the digit among the keys that begin with what is known, and the digit
// in whose bin the last one kept lies. Then tiles count their keys above the least and equal to it, one block
// adds the counts up, and tiles write what they keep at their place: of equal ones the first.
//
// Integers alone decide, so the message does not vary.

constexpr int kDigitBits = 11;
constexpr int kBins = 1 << kDigitBits;
constexpr int kCopies = 4;  // of a block's histogram, so that its warps meet less often
constexpr std::size_t kTopTile = 4096;
constexpr int kGroup = 4 * kThreads;  // elements that a block looks at at once

struct Counts {
  std::uint32_t above = 0;
  std::uint32_t equal = 0;

  __device__ Counts operator+(const Counts& other) const {
    return {above + other.above, equal + other.equal};
  }
};

struct Found {
  unsigned long long key;  // the digits found, zeros below
  std::uint32_t wanted;    // of the elements whose keys begin with them, so many are kept
};

// In device memory.
struct Memory {
  Found* found;
  std::uint32_t* bins;
  Counts* tiles;
};

template <class T>
__device__ unsigned long long key_of(T difference) {
  return order_of(difference);
}

template <class T>
__global__ void begin(const __grid_constant__ CodecJob<T> job, Memory memory) {
  for (int bin = static_cast<int>(threadIdx.x); bin < kBins; bin += kThreads)
    memory.bins[bin] = 0;
  if (threadIdx.x == 0) *memory.found = {0, static_cast<std::uint32_t>(job.kept)};
}

// Which bits of the keys are looked at: those of a digit, and above them those that are known.
struct Digit {
  int first;
  int end;

  __device__ unsigned of(unsigned long long key) const {
    return static_cast<unsigned>(key >> first) & ((1U << (end - first)) - 1);
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    count_digits(const __grid_constant__ CodecJob<T> job, Memory memory, Digit digit) {
  __shared__ std::uint32_t bins[kCopies][kBins];
  for (int bin = static_cast<int>(threadIdx.x); bin < kCopies * kBins; bin += kThreads)
    bins[0][bin] = 0;
  __syncthreads();
  std::uint32_t* const mine = bins[threadIdx.x / kWarp % kCopies];
  const unsigned long long known = memory.found->key >> digit.end;
  const std::size_t step = std::size_t{gridDim.x} * kGroup;
  for (std::size_t at = std::size_t{blockIdx.x} * kGroup + 4 * threadIdx.x; at < job.count; at += step) {
    T d[4], replica[4];
    load_difference(job, at, d, replica);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const unsigned long long key = key_of(d[k]);
      if (at + k < job.count && key >> digit.end == known) atomicAdd(mine + digit.of(key), 1U);
    }
  }
  __syncthreads();
  for (int bin = static_cast<int>(threadIdx.x); bin < kBins; bin += kThreads) {
    std::uint32_t sum = 0;
#pragma unroll
    for (int copy = 0; copy < kCopies; ++copy)
      sum += bins[copy][bin];
    if (sum != 0) atomicAdd(memory.bins + bin, sum);
  }
}

// One block; thread t looks at the t-th highest kBins / kThreads bins.
__global__ void __launch_bounds__(kThreads) find_digit(Memory memory, Digit digit) {
  constexpr int kEach = kBins / kThreads;
  __shared__ std::uint32_t sums[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  std::uint32_t own[kEach];
  std::uint32_t mine = 0;
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    std::uint32_t& bin = memory.bins[kBins - 1 - (thread * kEach + k)];
    own[k] = bin;
    bin = 0;
    mine += own[k];
  }
  sums[thread] = mine;
  __syncthreads();
  for (int distance = 1; distance < kThreads; distance *= 2) {
    const std::uint32_t before = thread >= distance ? sums[thread - distance] : 0;
    __syncthreads();
    sums[thread] += before;
    __syncthreads();
  }
  const Found found = *memory.found;
  __syncthreads();
  std::uint32_t above = sums[thread] - mine;
  if (above >= found.wanted || sums[thread] < found.wanted) return;
  for (int k = 0; k < kEach; ++k) {
    if (above + own[k] >= found.wanted) {
      const auto bin = static_cast<unsigned long long>(kBins - 1 - (thread * kEach + k));
      *memory.found = {found.key | bin << digit.first, found.wanted - above};
      return;
    }
    above += own[k];
  }
}

__device__ Counts shuffled_up(const Counts& counts, int distance) {
  return {__shfl_up_sync(kAllLanes, counts.above, distance),
          __shfl_up_sync(kAllLanes, counts.equal, distance)};
}

// What the threads before this one bring, and what all do.
struct Before {
  Counts mine;
  Counts all;
};
__device__ Before sum_before(const Counts& counts) {
  __shared__ Counts of_warp[kThreads / kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  Counts upto = counts;
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const Counts before = shuffled_up(upto, distance);
    if (lane >= distance) upto = upto + before;
  }
  __syncthreads();  // the last call's sums were read
  if (lane == kWarp - 1) of_warp[warp] = upto;
  __syncthreads();
  Before result;
  for (int w = 0; w < kThreads / kWarp; ++w) {
    if (w < warp) result.mine = result.mine + of_warp[w];
    result.all = result.all + of_warp[w];
  }
  result.mine = result.mine + Counts{upto.above - counts.above, upto.equal - counts.equal};
  return result;
}

template <class T>
__device__ Counts count_four(const CodecJob<T>& job, std::size_t at, const T (&d)[4],
                             unsigned long long least) {
  Counts counts;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (at + k >= job.count) continue;
    counts.above += key_of(d[k]) > least ? 1 : 0;
    counts.equal += key_of(d[k]) == least ? 1 : 0;
  }
  return counts;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    count_tiles(const __grid_constant__ CodecJob<T> job, Memory memory) {
  const unsigned long long least = memory.found->key;
  const std::size_t first = std::size_t{blockIdx.x} * kTopTile;
  Counts mine;
  for (std::size_t at = first + 4 * threadIdx.x; at < min(first + kTopTile, job.count); at += kGroup) {
    T d[4], replica[4];
    load_difference(job, at, d, replica);
    mine = mine + count_four(job, at, d, least);
  }
  const Counts all = sum_before(mine).all;
  if (threadIdx.x == 0) memory.tiles[blockIdx.x] = all;
}

// One block: what all tiles before a tile have, in place of what it has.
__global__ void __launch_bounds__(kThreads) add_up_tiles(Memory memory, std::uint32_t tiles) {
  Counts before;
  for (std::uint32_t first = 0; first < tiles; first += kThreads) {
    const std::uint32_t tile = first + threadIdx.x;
    const Before sums = sum_before(tile < tiles ? memory.tiles[tile] : Counts{});
    if (tile < tiles) memory.tiles[tile] = before + sums.mine;
    before = before + sums.all;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    write_tiles(const __grid_constant__ CodecJob<T> job, Memory memory) {
  const Found found = *memory.found;
  const std::size_t first = std::size_t{blockIdx.x} * kTopTile;
  Counts before = memory.tiles[blockIdx.x];
  for (std::size_t group = first; group < min(first + kTopTile, job.count); group += kGroup) {
    const std::size_t at = group + 4 * threadIdx.x;
    T d[4]{}, replica[4]{};
    if (at < job.count) load_difference(job, at, d, replica);
    const Before sums = sum_before(count_four(job, at, d, found.key));
    Counts upto = before + sums.mine;
    before = before + sums.all;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (at + k >= job.count) continue;
      const bool above = key_of(d[k]) > found.key, equal = key_of(d[k]) == found.key;
      if (above || (equal && upto.equal < found.wanted)) {
        const auto value = static_cast<float>(d[k]);
        const std::size_t place = upto.above + min(upto.equal, found.wanted);
        reinterpret_cast<uint2*>(job.message)[place] =
            make_uint2(static_cast<unsigned>(at + k), __float_as_uint(value));
        job.replica[at + k] = replica[k] + static_cast<T>(value);
      }
      upto.above += above ? 1 : 0;
      upto.equal += equal ? 1 : 0;
    }
  }
}

constexpr std::size_t kBinsAt = 64;
constexpr std::size_t kTilesAt = kBinsAt + kBins * sizeof(std::uint32_t);
static_assert(sizeof(Found) <= kBinsAt);

}  // namespace

std::size_t top_bytes(std::size_t count) {
  return kTilesAt + blocks_of(count, kTopTile) * sizeof(Counts);
}

template <class T>
cudaError_t launch_top(const CodecJob<T>& job, std::byte* bytes, cudaStream_t stream) {
  const Memory memory{reinterpret_cast<Found*>(bytes), reinterpret_cast<std::uint32_t*>(bytes + kBinsAt),
                      reinterpret_cast<Counts*>(bytes + kTilesAt)};
  const auto tiles = static_cast<unsigned>(blocks_of(job.count, kTopTile));
  constexpr unsigned kCounting = 132 * 6;  // blocks: a histogram of 32 KB each
  const Grid counting{tiles < kCounting ? tiles : kCounting, kThreads, stream};
  const Grid one{1, kThreads, stream}, each{tiles, kThreads, stream};
  cudaError_t status = launch(begin<T>, one, job, memory);
  for (int end = 8 * sizeof(T) - 1; status == cudaSuccess && end > 0; end -= kDigitBits) {
    const Digit digit{end > kDigitBits ? end - kDigitBits : 0, end};
    status = launch(count_digits<T>, counting, job, memory, digit);
    if (status == cudaSuccess) status = launch(find_digit, one, memory, digit);
  }
  if (status == cudaSuccess) status = launch(count_tiles<T>, each, job, memory);
  if (status == cudaSuccess) status = launch(add_up_tiles, one, memory, tiles);
  if (status == cudaSuccess) status = launch(write_tiles<T>, each, job, memory);
  return status;
}

template cudaError_t launch_top(const CodecJob<float>&, std::byte*, cudaStream_t);
template cudaError_t launch_top(const CodecJob<double>&, std::byte*, cudaStream_t);

}  // namespace kith::kernels::cuda
