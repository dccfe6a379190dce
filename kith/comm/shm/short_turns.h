#pragma once

namespace kith::comm::shm {

// Asks for short turns of the calling thread on the processor, which a scheduler
// of deadlines (Linux 6.12 and later) gives soon after a wake-up even when all
// cores are busy. Older ones ignore it. For threads that do next to nothing.
void ask_for_short_turns();

}  // namespace kith::comm::shm
