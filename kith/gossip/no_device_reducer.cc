#include "kith/gossip/device_reducer.h"

namespace kith::gossip {

std::unique_ptr<DeviceReducers> make_device_reducers(const DeviceReducersOptions&) {
  return nullptr;
}

}  // namespace kith::gossip
