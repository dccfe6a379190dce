#include "bench/common/order.h"

#include <istream>
#include <sstream>

namespace kith::bench {

std::optional<Order> next_order(std::istream& in) {
  std::string line;
  if (!std::getline(in, line)) return {};
  std::istringstream words(line);
  Order order;
  words >> order.verb >> order.mode >> order.untimed >> order.timed;
  return order;
}

}  // namespace kith::bench
