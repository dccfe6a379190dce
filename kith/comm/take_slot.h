#pragma once

#include <span>
#include <string_view>

#include "kith/comm/window.h"

namespace kith::comm {

// Window::begin for those who cannot go on without the slot: Error that names who has held it, and for how
// long, when it is not free by the deadline. `who` says for whom, as the place of the error.
std::span<std::byte> take_slot(Window& window, Version v, Deadline deadline, std::string_view who);

}  // namespace kith::comm
