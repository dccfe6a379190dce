#pragma once

#include <map>
#include <string>
#include <vector>

namespace kith::launch {

// Environment variables by name. Libraries take it as an argument; only programs read the process's own.
using Environment = std::map<std::string, std::string, std::less<>>;

// The process's own. REQUIRES: no other thread changes the environment meanwhile.
Environment read_environment();

}  // namespace kith::launch
