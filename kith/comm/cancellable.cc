#include "kith/comm/cancellable.h"

#include "kith/base/check.h"

namespace kith::comm {

std::unique_ptr<Window> CancellableTransport::open(const WindowOptions& options, Deadline deadline) {
  KITH_CHECK(options.cancellation == nullptr, "a window belongs to one owner");
  WindowOptions own = options;
  own.cancellation = cancellation_;
  own.name = prefix_ + own.name;
  return inner_.open(own, deadline);
}

}  // namespace kith::comm
