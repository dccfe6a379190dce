#include "kith/graph/shape.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/graph/limits.h"

namespace kith::graph {
namespace {

constexpr std::string_view kRemedy = "for example 4,4,2 or 8x4 (8 nodes of 4)";

int parse_count(std::string_view part, std::string_view text, std::string_view place) {
  int count = 0;
  const auto [end, status] = std::from_chars(part.data(), part.data() + part.size(), count);
  if (status != std::errc{} || end != part.data() + part.size() || count < 1) {
    throw InputError(cat("'", part, "' in '", text, "' is not a number of workers from 1 up"), place,
                     kRemedy);
  }
  return count;
}

void check_total(std::int64_t workers, std::string_view place) {
  if (workers > kMostWorkers)
    throw InputError(cat(workers, " workers"), place, cat("at most ", kMostWorkers));
}

}  // namespace

Shape::Shape(std::vector<int> workers_per_node) {
  if (workers_per_node.empty()) throw InputError("a shape of no nodes", "shape", kRemedy);
  long long total = 0;
  first_.reserve(workers_per_node.size() + 1);
  first_.push_back(0);
  for (std::size_t node = 0; node < workers_per_node.size(); ++node) {
    const int workers = workers_per_node[node];
    if (workers < 1)
      throw InputError(cat("node ", node, " has ", workers, " workers"), "shape", "at least 1");
    total += workers;
    if (total > std::numeric_limits<int>::max())
      throw InputError(cat(total, " workers"), "shape", "too many");
    first_.push_back(static_cast<int>(total));
  }
}

Shape Shape::single_node(int workers) {
  return Shape({workers});
}

std::optional<Shape> Shape::of_machines(std::span<const int> machines) {
  std::vector<int> sizes;
  for (int machine : machines) {
    const auto node = static_cast<std::size_t>(machine);
    if (node == sizes.size()) sizes.push_back(0);
    if (node + 1 != sizes.size()) return std::nullopt;
    ++sizes[node];
  }
  return Shape(std::move(sizes));
}

Shape Shape::parse(std::string_view text, std::string_view place) {
  if (const auto times = text.find('x'); times != std::string_view::npos) {
    const int nodes = parse_count(text.substr(0, times), text, place);
    const int each = parse_count(text.substr(times + 1), text, place);
    check_total(std::int64_t{nodes} * each, place);
    return Shape(std::vector<int>(static_cast<std::size_t>(nodes), each));
  }
  std::vector<int> sizes;
  std::int64_t total = 0;
  for (const std::string& part : split(text, ',')) {
    sizes.push_back(parse_count(part, text, place));
    check_total(total += sizes.back(), place);
  }
  return Shape(std::move(sizes));
}

int Shape::node_of(Rank rank) const {
  KITH_CHECK_LE(0, rank, "rank");
  KITH_CHECK_LT(rank, workers(), "rank");
  return static_cast<int>(std::upper_bound(first_.begin(), first_.end(), rank) - first_.begin()) - 1;
}

std::string Shape::text() const {
  std::vector<std::string> parts;
  for (int node = 0; node < nodes(); ++node)
    parts.push_back(std::to_string(size_of(node)));
  return join(parts, ",");
}

}  // namespace kith::graph
