#include "kith/plan/sweep.h"

#include <charconv>
#include <cmath>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/graph/limits.h"
#include "kith/plan/units.h"

namespace kith::plan {
namespace {

constexpr int kMostPoints = 64;

double parse_number(std::string_view text, std::string_view place) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || end != text.data() + text.size() || !std::isfinite(value) || value < 0)
    throw InputError(cat("'", text, "' is not a number"), place);
  return value;
}

Swept parse_swept(std::string_view text, std::string_view place) {
  const std::vector<std::string> names{"bandwidth", "workers", "spread"};
  for (const Swept swept : {Swept::bandwidth, Swept::workers, Swept::spread}) {
    if (text == name_of(swept)) return swept;
  }
  throw InputError(cat("cannot sweep '", text, "'"), place, suggest(text, names));
}

double parse_value(Swept swept, std::string_view text, std::string_view place) {
  const double value = swept == Swept::bandwidth ? parse_bytes_per_s(text, place) : parse_number(text, place);
  const bool whole = value >= 1 && value <= graph::kMostWorkers && value == std::floor(value);
  if (swept == Swept::workers && !whole)
    throw InputError(cat("'", text, "' workers"), place, cat("a whole number, 1 to ", graph::kMostWorkers));
  if (swept == Swept::bandwidth && value == 0) throw InputError("a bandwidth of zero", place);
  return value;
}

std::vector<double> spaced(Swept swept, double low, double high, int points) {
  std::vector<double> values;
  if (swept == Swept::workers && points == 0) {
    for (double n = low; n <= high; n *= 2)
      values.push_back(n);
    return values;
  }
  points = points == 0 ? 8 : points;
  for (int i = 0; i < points; ++i) {
    const double way = points == 1 ? 0 : static_cast<double>(i) / (points - 1);
    const double value = swept == Swept::spread ? std::lerp(low, high, way) : low * std::pow(high / low, way);
    values.push_back(swept == Swept::workers ? std::round(value) : value);
  }
  return values;
}

}  // namespace

std::string_view name_of(Swept swept) {
  switch (swept) {
    case Swept::bandwidth:
      return "bandwidth";
    case Swept::workers:
      return "workers";
    case Swept::spread:
      return "spread";
  }
  return "?";
}

Axis parse_axis(std::string_view text, std::string_view place) {
  const auto equals = text.find('=');
  const auto dots = text.find("..");
  if (equals == std::string_view::npos || dots == std::string_view::npos || dots < equals)
    throw InputError(cat("'", text, "' is not a sweep"), place,
                     "as bandwidth=1gbit..100gbit or workers=8..256");
  Axis axis;
  axis.swept = parse_swept(text.substr(0, equals), place);
  std::string_view last = text.substr(dots + 2);
  int points = 0;
  if (const auto colon = last.find(':'); colon != std::string_view::npos) {
    const double asked = parse_number(last.substr(colon + 1), place);
    if (asked < 1 || asked > kMostPoints || asked != std::floor(asked))
      throw InputError(cat(asked, " points"), place, cat("1 to ", kMostPoints));
    points = static_cast<int>(asked);
    last = last.substr(0, colon);
  }
  const double low = parse_value(axis.swept, text.substr(equals + 1, dots - equals - 1), place);
  const double high = parse_value(axis.swept, last, place);
  if (high < low) throw InputError(cat("'", text, "' goes down"), place, "the smaller value comes first");
  axis.values = spaced(axis.swept, low, high, points);
  for (const double value : axis.values)
    axis.labels.push_back(axis.swept == Swept::bandwidth ? human_rate(value)
                                                         : cat(std::round(value * 1000) / 1000));
  return axis;
}

Profile at(const Profile& profile, const Axis& axis, std::size_t index) {
  const double value = axis.values[index];
  switch (axis.swept) {
    case Swept::bandwidth:
      return with_link(profile, value);
    case Swept::spread:
      return with_batch_spread(profile, value);
    case Swept::workers:
      break;
  }
  const int each = profile.nodes.size_of(0);
  std::vector<int> nodes;
  for (int left = static_cast<int>(value); left > 0; left -= each)
    nodes.push_back(std::min(left, each));
  return with_nodes(profile, graph::Shape(std::move(nodes)));
}

Map sweep(const Profile& profile, const Axis& across, const Axis& down, const SimulationOptions& simulation) {
  if (across.swept == down.swept)
    throw InputError(cat("both sweeps vary ", name_of(down.swept)), "--sweep", "give two different ones");
  Map map{across, down, {}};
  for (std::size_t row = 0; row < down.values.size(); ++row) {
    const Profile in_row = at(profile, down, row);
    for (std::size_t column = 0; column < across.values.size(); ++column) {
      const Profile here = at(in_row, across, column);
      const Prediction reduce = best_all_reduce(here, simulation);
      const Prediction mixing = best_mixing(here, simulation);
      map.cells.push_back({reduce.time.iteration_s / mixing.time.iteration_s, mixing.candidate.topology,
                           reduce.time.iteration_s, mixing.time.iteration_s});
    }
  }
  return map;
}

}  // namespace kith::plan
