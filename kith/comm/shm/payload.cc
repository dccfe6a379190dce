#include "kith/comm/shm/payload.h"

#include "kith/comm/shm/segment.h"

namespace kith::comm::shm {
namespace {

class HostPayloads final : public PayloadMemory {
 public:
  Payload create(const std::string& label, std::size_t bytes) override {
    Segment made = Segment::create(label, bytes, Sharing::read_only);
    return {made.data(), made.memory(), made.take_descriptor()};
  }

  Payload map(const Descriptor& descriptor, std::size_t bytes, const std::string& place) override {
    const Segment mapped = Segment::map(descriptor, bytes, Sharing::read_only, place);
    return {mapped.data(), mapped.memory()};
  }
};

}  // namespace

std::unique_ptr<PayloadMemory> host_payloads() {
  return std::make_unique<HostPayloads>();
}

}  // namespace kith::comm::shm
