#include "kith/comm/ucx/settings.h"

#include <filesystem>

#include "kith/base/text.h"

namespace kith::comm::ucx {
namespace {

// "mlx5_0:1" for every port of the RDMA devices behind the interface.
std::vector<std::string> rdma_ports(const std::string& interface) {
  namespace fs = std::filesystem;
  std::vector<std::string> ports;
  std::error_code none;
  for (const auto& device :
       fs::directory_iterator(cat("/sys/class/net/", interface, "/device/infiniband"), none)) {
    for (const auto& port : fs::directory_iterator(device.path() / "ports", none))
      ports.push_back(cat(device.path().filename().string(), ":", port.path().filename().string()));
  }
  return ports;
}

}  // namespace

Settings settings_for(const std::string& interface) {
  std::vector<std::string> devices = rdma_ports(interface);
  devices.push_back(interface);
  return {{"TLS", "^shm", "UCX_TLS"},
          {"NET_DEVICES", join(devices, ","), "UCX_NET_DEVICES"},
          // A stripe of a part (peer.cc) fits one segment. UCX's own sizes, 8 and 64 KiB, cost half as much
          // again in processor time.
          {"TX_SEG_SIZE", "256k", "UCX_TCP_TX_SEG_SIZE"},
          {"RX_SEG_SIZE", "256k", "UCX_TCP_RX_SEG_SIZE"},
          // From here on a message is not copied before it is sent.
          {"ZCOPY_THRESH", "32k", "UCX_ZCOPY_THRESH"}};
}

}  // namespace kith::comm::ucx
