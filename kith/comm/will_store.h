#pragma once

#include <string_view>

#include "kith/comm/store.h"

namespace kith::comm {

// A store that can tell when a process that uses it has ended.
class WillStore : public Store {
 public:
  // A last will, one at a time: the key is set, unless it is set already, when this store or its process has
  // ended, however it did.
  virtual void leave_will(std::string_view key, std::string_view value) = 0;
  // Nothing happens at the end then. Never throws: where the store is lost there is nobody to tell.
  virtual void withdraw_will() = 0;
};

}  // namespace kith::comm
