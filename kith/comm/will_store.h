#pragma once

#include <string>
#include <string_view>

#include "kith/comm/store.h"

namespace kith::comm {

// A store that can tell when a process that uses it has ended.
class WillStore : public Store {
 public:
  // A last will, one at a time (a new one takes the place of the old): when this store or its process has
  // ended, however it did, the value is on the list. The list is the keys LIST/1, LIST/2, ... in the order in
  // which they came true, without a gap. REQUIRES: nobody else leaves the same value to the list.
  virtual void leave_will(std::string_view list, std::string_view value) = 0;
  // Nothing happens at the end then. Never throws: where the store is lost there is nobody to tell.
  virtual void withdraw_will() = 0;
};

// The key of a list's entry, and the list of a key: "kith/ended/3" is of "kith/ended".
std::string list_key(std::string_view list, int number);
std::string_view list_of(std::string_view key);

// Puts the value on the list, once however often it is done, and returns its key. How stores carry out wills.
std::string put_on_list(Store& store, std::string_view list, std::string_view value);

}  // namespace kith::comm
