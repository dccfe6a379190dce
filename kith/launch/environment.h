#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kith::launch {

// Environment variables by name. Libraries take it as an argument; only programs read the process's own.
using Environment = std::map<std::string, std::string, std::less<>>;

// Set for a process that joins a running job: KITH_WORKER is then an id that nobody had, KITH_WORKERS how
// many the job began with.
inline constexpr std::string_view kNewcomer = "KITH_NEWCOMER";

// Set by a launcher that wants to know: the file that a worker makes which leaves a run whose others go on.
inline constexpr std::string_view kLeftFile = "KITH_LEFT_FILE";

// The process's own. REQUIRES: no other thread changes the environment meanwhile.
Environment read_environment();

}  // namespace kith::launch
