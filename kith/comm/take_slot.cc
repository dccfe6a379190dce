#include "kith/comm/take_slot.h"

#include <variant>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::comm {

std::span<std::byte> take_slot(Window& window, Version v, Deadline deadline, std::string_view who) {
  const auto begun = window.begin(v, deadline);
  if (const auto* slot = std::get_if<std::span<std::byte>>(&begun)) return *slot;
  const Late& held = std::get<Late>(begun);
  if (window.cancelled())
    throw Error(cat("the wait for ", held.peer, " in ", window.options().name, " was cancelled"), who);
  throw Error(cat(held.peer, " has held ", window.options().name, " version ", held.version, " for ",
                  seconds(held.waited), " s"),
              who, "the peer hangs: look at its log, or end it");
}

}  // namespace kith::comm
