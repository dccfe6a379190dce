#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "kith/engine/world_parts.h"
#include "kith/gossip/tree.h"

namespace kith::engine {

struct CollectivesOptions {
  std::string name;  // of the windows
  Clock::Duration patience{};
  std::size_t count = std::size_t{1} << 19;  // elements of a vector, at most
};

// Rare operations with every member of a world, for both types an engine computes in. Windows are opened at
// the first use, which all members come to in the same order.
class Collectives {
 public:
  // `world` outlives this.
  Collectives(const WorldParts& world, CollectivesOptions options);
  ~Collectives();

  template <class T>
  gossip::Tree<T>& of() {
    if constexpr (std::is_same_v<T, float>) {
      return opened(f32_);
    } else {
      return opened(f64_);
    }
  }

 private:
  template <class T>
  struct Opened {
    std::unique_ptr<kernels::Kernels<T>> kernels;  // of the host
    std::unique_ptr<gossip::Tree<T>> tree;
  };
  template <class T>
  gossip::Tree<T>& opened(Opened<T>& of_type);

  const WorldParts& world_;
  const CollectivesOptions options_;
  Opened<float> f32_;
  Opened<double> f64_;
};

// Error naming `what` and the first who is missing, unless everybody took part.
void require_everybody(const gossip::RoundReport& report, std::string_view what);

}  // namespace kith::engine
