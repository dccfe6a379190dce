#include "kith/kernels/cuda/batch.h"

#include <algorithm>

#include "kith/base/check.h"

namespace kith::kernels::cuda {
namespace {

constexpr std::uint64_t kMostTiles = 0x7fffffff;

bool aligned(const void* data, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
}

// For four elements at once, in accesses of 16 bytes at most; nothing at all is aligned. Blocks of i8 with
// their scales are multiples of four bytes.
bool aligned_for_four(const void* data, DType type) {
  return aligned(data, std::min<std::size_t>(16, 4 * size_of(type)));
}

template <class T>
bool aligned_for_four(const Pass<T>& pass) {
  bool all = aligned_for_four(pass.to.values, dtype_of<T>()) &&
             aligned_for_four(pass.to.encoded, pass.to.encoded_type) &&
             aligned_for_four(pass.gradient.data, pass.gradient.type);
  for (const Source& source : pass.mix.sources)
    all = all && aligned_for_four(source.data, source.type);
  for (const T* state : pass.state)
    all = all && aligned_for_four(state, dtype_of<T>());
  return all;
}

template <class T>
void set_step(Item<T>& item, const Pass<T>& pass) {
  if (const auto* sgd = std::get_if<SgdOptions>(&pass.step)) {
    item.kind = sgd->momentum == 0 ? Kind::sgd : sgd->first ? Kind::sgd_first : Kind::sgd_momentum;
    item.scalars.sgd = SgdScalars<T>(pass.gradient, *sgd);
  } else if (const auto* adam = std::get_if<AdamOptions>(&pass.step)) {
    item.kind = Kind::adam;
    item.scalars.adam = AdamScalars<T>(pass.gradient, *adam);
  } else if (const auto* accum = std::get_if<AccumAdamOptions>(&pass.step)) {
    item.kind = accum->commits() ? Kind::accum_adam_commit : Kind::accum_adam;
    item.scalars.adam = AdamScalars<T>(pass.gradient, *accum);
  } else {
    item.kind = Kind::mix;
  }
}

}  // namespace

template <class T, class TableOfT>
void Batch<T, TableOfT>::add(const Pass<T>& pass) {
  if (pass.count == 0) return;
  const std::size_t sources = pass.mix.sources.size();
  const std::uint64_t tiles = (pass.count + kTile - 1) / kTile;
  KITH_CHECK_LE(sources, std::size_t{TableOfT::kMostSources}, "sources of one pass on a GPU");
  KITH_CHECK_LE(tiles, kMostTiles, "tiles of one pass on a GPU");
  const bool full = table_.items == TableOfT::kMostItems ||
                    sources_ + sources > std::size_t{TableOfT::kMostSources} || tiles_ + tiles > kMostTiles;
  if (full) finish();

  Item<T>& item = table_.item[table_.items++];
  item.values = pass.to.values;
  item.encoded = pass.to.encoded;
  item.draw = pass.to.draw;
  item.encoded_type = pass.to.encoded_type;
  item.gradient = pass.gradient.data;
  item.gradient_type = pass.gradient.type;
  item.gradient_scale = pass.gradient.scale;
  item.factor = pass.gradient.factor;
  std::copy(pass.state.begin(), pass.state.end(), item.state);
  item.count = pass.count;
  item.mix_scale = static_cast<T>(pass.mix.scale);
  item.first_tile = static_cast<std::uint32_t>(tiles_);
  item.first_source = static_cast<std::uint16_t>(sources_);
  item.sources = static_cast<std::uint16_t>(sources);
  item.wide = aligned_for_four(pass);
  set_step(item, pass);
  for (const Source& source : pass.mix.sources) {
    table_.source[sources_++] = {source.data, source.draw, static_cast<T>(source.weight), source.type,
                                 source.rounded_to.value_or(kNotRounded)};
  }
  tiles_ += tiles;
}

template <class T, class TableOfT>
void Batch<T, TableOfT>::finish() {
  if (table_.items == 0) return;
  const std::uint16_t sources = table_.item[0].sources;
  const bool same = std::all_of(table_.item, table_.item + table_.items,
                                [&](const Item<T>& item) { return item.sources == sources; });
  require(launch_fused<T>(table_, static_cast<std::uint32_t>(tiles_), same ? sources : 0, stream_),
          "launching a fused pass on the GPU");
  table_.items = 0;
  sources_ = 0;
  tiles_ = 0;
}

template class Batch<float, SmallTable<float>>;
template class Batch<float, LargeTable<float>>;
template class Batch<double, SmallTable<double>>;
template class Batch<double, LargeTable<double>>;

}  // namespace kith::kernels::cuda
