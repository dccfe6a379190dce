#pragma once

#include <memory>
#include <string>
#include <type_traits>

#include "kith/engine/world.h"
#include "kith/gossip/collective.h"

namespace kith::engine {

// An engine's rare operations with everybody, for both types it computes in. Windows are opened at the first
// use, which all members come to in the same order.
class Collectives {
 public:
  // `name` is the engine's; `world` outlives this.
  Collectives(const World& world, std::string name, Clock::Duration patience);
  ~Collectives();

  template <class T>
  gossip::Collective<T>& of() {
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
    std::unique_ptr<gossip::Collective<T>> collective;
  };
  template <class T>
  gossip::Collective<T>& opened(Opened<T>& of_type);

  const World& world_;
  const std::string name_;
  const Clock::Duration patience_;
  Opened<float> f32_;
  Opened<double> f64_;
};

}  // namespace kith::engine
