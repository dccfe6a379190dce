#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

#include "kith/kernels/kernels.h"
#include "kith/kernels/scalars.h"

namespace kith::kernels::cuda {

// A batch of passes as the device gets it: a table that travels with the launch itself, so that nothing on
// the host has to outlive the call. Work is cut into tiles of kTile elements of one pass; one thread block
// takes one tile, and each of its warps takes blocks of kBlock elements.

inline constexpr int kWarp = 32;
inline constexpr int kThreads = 256;
inline constexpr std::size_t kBlock = 128;  // four elements a lane; also the block of int8
inline constexpr std::size_t kTile = 2048;
inline constexpr DType kNotRounded = static_cast<DType>(0xff);

enum class Kind : std::uint8_t { mix, sgd, sgd_first, sgd_momentum, adam, accum_adam, accum_adam_commit };

template <class T>
struct DeviceSource {
  const void* data;
  std::uint64_t draw;
  T weight;
  DType type;
  DType rounded_to;
};

template <class T>
union StepScalars {
  StepScalars() : none(0) {}
  char none;
  SgdScalars<T> sgd;
  AdamScalars<T> adam;
};

template <class T>
struct Item {
  T* values;
  void* encoded;
  std::uint64_t draw;
  const void* gradient;
  const double* factor;
  T* state[3];
  std::size_t count;
  double gradient_scale;
  StepScalars<T> scalars;
  T mix_scale;
  std::uint32_t first_tile;
  std::uint16_t first_source;
  std::uint16_t sources;
  Kind kind;
  DType encoded_type;
  DType gradient_type;
  bool wide;  // every pointer is aligned for four elements at once
};

template <class T, int kItems, int kSources>
struct Table {
  static constexpr int kMostItems = kItems;
  static constexpr int kMostSources = kSources;

  std::uint32_t items = 0;
  Item<T> item[kItems];
  DeviceSource<T> source[kSources];
};

template <class T>
using SmallTable = Table<T, 8, 48>;
template <class T>
using LargeTable = Table<T, sizeof(T) == 4 ? 150 : 100, sizeof(T) == 4 ? 450 : 300>;
static_assert(sizeof(LargeTable<float>) <= 32764 && sizeof(LargeTable<double>) <= 32764,
              "what a launch takes along (CUDA 12.1 and later)");

// Runs a table over `tiles` tiles. `sources` is the number of every item's sources, or 0 where they differ.
template <class T, class TableOfT>
cudaError_t launch_fused(const TableOfT& table, std::uint32_t tiles, int sources, cudaStream_t stream);

}  // namespace kith::kernels::cuda
