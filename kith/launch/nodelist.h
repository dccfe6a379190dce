#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kith::launch {

// The nodes of a Slurm list, in its order: "a[1-3,07],b" -> a1 a2 a3 a07 b; several brackets in a name are
// all expanded. InputError naming `place` when the list is malformed.
std::vector<std::string> expand_nodelist(std::string_view list, std::string_view place);

// Slurm's tasks per node: "2(x3),1" -> 2 2 2 1. InputError naming `place` when it is malformed.
std::vector<int> expand_tasks_per_node(std::string_view list, std::string_view place);

}  // namespace kith::launch
