#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "kith/comm/cancellation.h"

namespace kith::python {

// Who can end the waits of a world's windows, to end them all. Safe from any thread.
class Waits {
 public:
  // The waits of this owner's windows can be ended here. Once cancelled, they are.
  void remember(const std::shared_ptr<comm::Cancellation>& owner);
  // Ends all of them, for good.
  void cancel();

 private:
  std::mutex mutex_;  // guards what follows
  std::vector<std::weak_ptr<comm::Cancellation>> owners_;
  bool cancelled_ = false;
};

}  // namespace kith::python
