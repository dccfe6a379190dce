#include "cli/placement.h"

#include <vector>

#include "kith/base/text.h"

namespace kith::cli {

std::string nodes_of(const comm::Transport& transport) {
  const std::vector<int>& machines = transport.machines();
  std::vector<int> sizes;
  for (std::size_t i = 0; i < machines.size(); ++i) {
    const auto machine = static_cast<std::size_t>(machines[i]);
    if (machine == sizes.size()) sizes.push_back(0);
    if (machine + 1 != sizes.size()) return {};
    ++sizes[machine];
  }
  if (sizes.size() < 2) return {};
  std::string text;
  for (int size : sizes)
    text += cat(text.empty() ? "" : ",", size);
  return text;
}

}  // namespace kith::cli
