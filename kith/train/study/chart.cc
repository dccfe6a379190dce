#include "kith/train/study/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <sstream>

namespace kith::train::study {
namespace {

constexpr double kChartWidth = 560, kChartHeight = 300, kChartLeft = 64, kChartTop = 40, kChartBelow = 52;
constexpr double kLegendLine = 18, kChartRight = 24, kSpace = 0.06;  // above and below the curves
constexpr std::array<const char*, 8> kSeriesColours{"#c44236", "#215ea8", "#3f9c62", "#d9772b",
                                                    "#7a5fb5", "#1d9a9f", "#a8842c", "#5c6b7a"};

struct Bounds {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  double share(double value) const { return high > low ? (value - low) / (high - low) : 0.5; }
};

std::string short_number(const char* pattern, double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), pattern, value);
  return text.data();
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return out;
}

class Drawing {
 public:
  explicit Drawing(const Chart& chart)
      : chart_(chart), top_(kChartTop + kLegendLine * static_cast<double>(chart.series.size())) {
    for (const ChartSeries& series : chart.series) {
      for (const ChartPoint& point : series.points) {
        if (!std::isfinite(point.y)) continue;
        x_.add(std::log(point.x));
        for (const double y : {point.y, point.low, point.high})
          y_.add(y);
      }
    }
    y_.add(chart.level);
    const double space = kSpace * (y_.high - y_.low);
    y_ = {y_.low - space, y_.high + space};
  }

  std::string svg() {
    out_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 "
         << kChartLeft + kChartWidth + kChartRight << " " << top_ + kChartHeight + kChartBelow
         << "\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#26323d\">\n"
         << "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
    text({kChartLeft, 22}, "start",
         "<tspan font-size=\"15\" font-weight=\"bold\">" + escaped(chart_.title) + "</tspan>");
    if (std::isfinite(y_.low)) axes();
    for (std::size_t i = 0; i < chart_.series.size(); ++i)
      series(chart_.series[i], kSeriesColours[i % kSeriesColours.size()], i);
    out_ << "</svg>\n";
    return out_.str();
  }

 private:
  struct At {
    double x, y;
  };
  double across(double x) const { return kChartLeft + 16 + (kChartWidth - 32) * x_.share(std::log(x)); }
  double down(double y) const { return top_ + kChartHeight * (1 - y_.share(y)); }

  void text(At at, const char* anchor, const std::string& what) {
    out_ << "<text x=\"" << at.x << "\" y=\"" << at.y << "\" text-anchor=\"" << anchor << "\">" << what
         << "</text>\n";
  }
  void line(At from, At to, const std::string& style) {
    out_ << "<line x1=\"" << from.x << "\" y1=\"" << from.y << "\" x2=\"" << to.x << "\" y2=\"" << to.y
         << "\" " << style << "/>\n";
  }

  void axes() {
    for (int tick = 0; tick <= 4; ++tick) {
      const double y = std::lerp(y_.low, y_.high, tick / 4.0);
      line({kChartLeft, down(y)}, {kChartLeft + kChartWidth, down(y)}, "stroke=\"#dde3e8\"");
      text({kChartLeft - 8, down(y) + 4}, "end", short_number("%.3f", y));
    }
    for (const double x : chart_.ticks)
      text({across(x), top_ + kChartHeight + 20}, "middle", short_number("%g", x));
    if (std::isfinite(chart_.level))
      line({kChartLeft, down(chart_.level)}, {kChartLeft + kChartWidth, down(chart_.level)},
           "stroke=\"#5c6b7a\" stroke-dasharray=\"6 4\"");
    text({kChartLeft + kChartWidth / 2, top_ + kChartHeight + 42}, "middle", escaped(chart_.x_title));
    text({kChartLeft - 44, top_ - 10}, "start", escaped(chart_.y_title));
  }

  void series(const ChartSeries& series, const std::string& colour, std::size_t index) {
    // Colours come round again with broken lines.
    constexpr std::array<const char*, 3> kBreaks{"", " stroke-dasharray=\"7 4\"",
                                                 " stroke-dasharray=\"2 3\""};
    const std::string stroke = "stroke=\"" + colour + "\" stroke-width=\"2\"" +
                               kBreaks[index / kSeriesColours.size() % kBreaks.size()];
    out_ << "<polyline fill=\"none\" " << stroke << " points=\"";
    for (const ChartPoint& point : series.points)
      if (std::isfinite(point.y)) out_ << across(point.x) << "," << down(point.y) << " ";
    out_ << "\"/>\n";
    for (const ChartPoint& point : series.points) {
      if (!std::isfinite(point.y)) continue;
      if (std::isfinite(point.low) && std::isfinite(point.high))
        line({across(point.x), down(point.low)}, {across(point.x), down(point.high)}, stroke);
      out_ << "<circle cx=\"" << across(point.x) << "\" cy=\"" << down(point.y) << "\" r=\""
           << (point.marked ? 6 : 3) << "\" fill=\"" << colour << "\"/>\n";
    }
    const double y = kChartTop + kLegendLine * static_cast<double>(index);
    line({kChartLeft, y}, {kChartLeft + 24, y}, stroke);
    text({kChartLeft + 30, y + 4}, "start", escaped(series.name));
  }

  const Chart& chart_;
  const double top_;
  Bounds x_, y_;
  std::ostringstream out_;
};

}  // namespace

std::string chart_svg(const Chart& chart) {
  return Drawing(chart).svg();
}

}  // namespace kith::train::study
