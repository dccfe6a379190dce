#include "cli/topo_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <vector>

#include "kith/base/text.h"

namespace kith::cli {
namespace {

using graph::Form;
using graph::Schedule;
using graph::Shape;
using graph::WorkerRound;

constexpr double kPanel = 240, kHeader = 64, kRadius = 82, kMargin = 16;
constexpr std::int64_t kMostPanels = 32;
constexpr int kMostLabels = 32;
constexpr double kNodeGap = 0.8;  // between nodes, in places on the circle
constexpr std::array<const char*, 8> kColours{"#2f6fb0", "#d9772b", "#3f9c62", "#b8456b",
                                              "#7a5fb5", "#1d9a9f", "#a8842c", "#5c6b7a"};

struct Point {
  double x = 0, y = 0;
};

std::string fixed(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

std::string at(const Point& p) {
  return fixed(p.x) + "," + fixed(p.y);
}

const char* colour(int index) {
  return kColours[static_cast<std::size_t>(index) % kColours.size()];
}

// Places of workers on a circle about the origin, with a gap between nodes.
class Layout {
 public:
  explicit Layout(const Shape& shape) : shape_(shape) {
    const bool gaps = shape.nodes() > 1;
    places_ = shape.workers() + (gaps ? kNodeGap * shape.nodes() : 0);
  }

  double angle(double place) const { return 2 * std::numbers::pi * place / places_ - std::numbers::pi / 2; }
  double place(Rank rank) const { return rank + (shape_.nodes() > 1 ? kNodeGap * shape_.node_of(rank) : 0); }
  Point point(double place, double radius) const {
    return {radius * std::cos(angle(place)), radius * std::sin(angle(place))};
  }
  Point of(Rank rank) const { return point(place(rank), kRadius); }

  double dot() const { return std::clamp(0.3 * 2 * std::numbers::pi * kRadius / places_, 1.5, 9.0); }

  // An arc around a node's workers, with its number.
  std::string node_arc(int node) const {
    const double from = place(shape_.first_of(node)) - 0.4, to = place(shape_.first_of(node + 1) - 1) + 0.4;
    const double radius = kRadius + 14;
    const bool large = angle(to) - angle(from) > std::numbers::pi;
    const Point label = point((from + to) / 2, radius + 11);
    return cat("<path d='M", at(point(from, radius)), " A", fixed(radius), ",", fixed(radius), " 0 ",
               large ? 1 : 0, " 1 ", at(point(to, radius)), "' class='node'/><text x='", fixed(label.x),
               "' y='", fixed(label.y + 3), "' class='small'>", node, "</text>");
  }

 private:
  const Shape& shape_;
  double places_ = 1;
};

std::string line(const Point& a, const Point& b, const char* stroke, double weight, bool arrow, double dot) {
  const double length = std::hypot(b.x - a.x, b.y - a.y);
  const double cut = arrow && length > 0 ? (dot + 4) / length : 0;
  const Point end{b.x - (b.x - a.x) * cut, b.y - (b.y - a.y) * cut};
  return cat("<path d='M", at(a), " L", at(end), "' stroke='", stroke, "' stroke-width='",
             fixed(0.6 + 4 * weight), "'", arrow ? " marker-end='url(#arrow)'" : "", " class='edge'/>");
}

std::string polygon(const Layout& layout, const std::vector<Rank>& group, const char* fill) {
  std::string points;
  for (Rank rank : group)
    points += at(layout.of(rank)) + " ";
  return cat("<polygon points='", points, "' fill='", fill, "' stroke='", fill, "' class='group'/>");
}

std::string panel(const Schedule& schedule, std::int64_t t, const Layout& layout) {
  const Shape& shape = schedule.shape();
  std::string edges, dots;
  std::vector<int> colour_of(static_cast<std::size_t>(schedule.workers()), -1);
  int groups = 0;
  for (Rank rank = 0; rank < schedule.workers(); ++rank) {
    const WorkerRound round = schedule.round(rank, t);
    const Point here = layout.of(rank);
    if (round.form == Form::group && round.group.size() > 1 && round.group.front() == rank) {
      for (Rank member : round.group)
        colour_of[static_cast<std::size_t>(member)] = groups;
      edges += round.group.size() > 2
                   ? polygon(layout, round.group, colour(groups))
                   : line(here, layout.of(round.group.back()), colour(groups), 0.5, false, 0);
      ++groups;
    }
    if (round.form == Form::neighbours) {
      for (const graph::Term& term : round.reads) {
        if (!schedule.directed() && term.rank > rank) continue;
        edges += line(layout.of(term.rank), here, colour(0), term.weight, schedule.directed(), layout.dot());
      }
      if (!round.reads.empty() || !round.readers.empty()) colour_of[static_cast<std::size_t>(rank)] = 0;
    }
  }
  for (Rank rank = 0; rank < schedule.workers(); ++rank) {
    const Point here = layout.of(rank);
    const int index = colour_of[static_cast<std::size_t>(rank)];
    dots += cat("<circle cx='", fixed(here.x), "' cy='", fixed(here.y), "' r='", fixed(layout.dot()),
                "' fill='", index < 0 ? "#c3c9d0" : colour(index), "'/>");
    if (schedule.workers() > kMostLabels) continue;
    dots += cat("<text x='", fixed(here.x), "' y='", fixed(here.y + 3), "' class='rank'>", rank, "</text>");
  }
  std::string nodes;
  for (int node = 0; shape.nodes() > 1 && node < shape.nodes(); ++node)
    nodes += layout.node_arc(node);
  return cat(nodes, edges, dots, "<text y='", fixed(kPanel / 2 - 4), "' class='small'>round ", t, "</text>");
}

}  // namespace

std::string svg_of(const Schedule& schedule) {
  const Layout layout(schedule.shape());
  const std::int64_t panels = std::min(schedule.period(), kMostPanels);
  const std::int64_t columns = std::min<std::int64_t>(panels, panels <= 4 ? 4 : panels <= 10 ? 5 : 6);
  const std::int64_t rows = (panels + columns - 1) / columns;
  const double width = std::max(kPanel * static_cast<double>(columns), 1.5 * kPanel) + 2 * kMargin;
  const double height = kPanel * static_cast<double>(rows) + kHeader + kMargin;
  std::string subtitle = cat(schedule.workers(), " workers");
  if (schedule.shape().nodes() > 1) subtitle += cat(" on ", schedule.shape().nodes(), " nodes");
  subtitle += cat(", period ", schedule.period());
  if (panels < schedule.period()) subtitle += cat(" (the first ", panels, " rounds)");

  std::string out =
      cat("<svg xmlns='http://www.w3.org/2000/svg' width='", fixed(width), "' height='", fixed(height),
          "' viewBox='0 0 ", fixed(width), " ", fixed(height),
          "' font-family='system-ui, Helvetica, Arial, sans-serif'>\n",
          "<defs><marker id='arrow' viewBox='0 0 8 8' refX='6' refY='4' markerWidth='7' markerHeight='7' "
          "markerUnits='userSpaceOnUse' orient='auto'><path d='M0,0 L8,4 L0,8 z' "
          "fill='#2f6fb0'/></marker></defs>\n",
          "<style>.edge{fill:none;stroke-linecap:round;opacity:.75}.group{fill-opacity:.22;stroke-width:1.5;"
          "stroke-linejoin:round;stroke-opacity:.8}.node{fill:none;stroke:#c3c9d0;stroke-width:3;stroke-"
          "linecap:round}"
          ".rank{fill:#fff;font-size:8px;text-anchor:middle}.small{fill:#5c6b7a;font-size:11px;text-anchor:"
          "middle}"
          "</style>\n<rect width='100%' height='100%' fill='#fff'/>\n<text x='",
          fixed(kMargin + 8), "' y='30' font-size='20' font-weight='600' fill='#22303c'>", schedule.name(),
          "</text><text x='", fixed(kMargin + 8), "' y='50' font-size='12' fill='#5c6b7a'>", subtitle,
          "</text>\n");
  for (std::int64_t t = 0; t < panels; ++t) {
    const double x = kMargin + kPanel * (static_cast<double>(t % columns) + 0.5);
    const double y = kHeader + kPanel * (static_cast<double>(t / columns) + 0.5) - 6;
    out +=
        cat("<g transform='translate(", fixed(x), ",", fixed(y), ")'>", panel(schedule, t, layout), "</g>\n");
  }
  return out + "</svg>\n";
}

}  // namespace kith::cli
