#pragma once

#include <string>
#include <vector>

namespace kith::train::study {

struct ChartPoint {
  double x = 0, y = 0;
  double low = 0, high = 0;  // of its error bar; NaN: none
  bool marked = false;
};

struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;  // ascending
};

struct Chart {
  std::string title, x_title, y_title;
  std::vector<ChartSeries> series;
  std::vector<double> ticks;  // of x
  double level = 0;           // a dashed line across; NaN: none
};

// As SVG, x on a logarithmic scale. Points that are not finite are left out.
std::string chart_svg(const Chart& chart);

}  // namespace kith::train::study
