#pragma once

#include <cstdint>
#include <string_view>

namespace kith::cli {

// What the workers of this machine can have.
struct Room {
  std::int64_t memory_bytes = 0;  // that nobody uses now
  std::int64_t files = 0;         // that this process may hold open
};

// What one worker takes at the least.
struct WorkerNeeds {
  std::int64_t memory_bytes = 0;
  std::int64_t files = 0;  // of the process that starts it
};

// A process with LibTorch, its own part of it, before it has a model.
inline constexpr WorkerNeeds kTrainingWorker{.memory_bytes = std::int64_t{64} << 20};

// Of this machine, or of the container that this process is in. Allows this process all the files it may
// have.
Room room_here();

// Before the first of them is started: InputError naming `place`, with what is needed and what there is.
void require_room(int workers, const WorkerNeeds& needs, const Room& room, std::string_view place);

}  // namespace kith::cli
