#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <sstream>

#include "cli/demo_report.h"
#include "kith/base/text.h"

namespace kith::cli {
namespace {

constexpr std::size_t kColumns = 64, kRows = 14;      // of the plot in a terminal
constexpr std::array kMarks{'o', '*', '+', 'x'};      // a curve each
constexpr std::array kColours{"#c44236", "#215ea8"};  // all-reduce and mixing, as in the planner's maps
constexpr double kWidth = 560, kHeight = 300, kLeft = 64, kTop = 56, kBelow = 52, kRight = 24;

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  double share(double value) const { return high > low ? (value - low) / (high - low) : 0.5; }
  double at(double share) const { return low + share * (high - low); }
};

struct Axes {
  Range seconds{0, 0}, loss;
};

Axes axes_of(const std::vector<DemoResult>& results) {
  Axes axes;
  for (const DemoResult& result : results) {
    for (const CurvePoint& point : result.curve) {
      axes.seconds.add(point.seconds);
      axes.loss.add(point.loss);
    }
  }
  return axes;
}

std::string fixed(double value, int digits) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

// On the straight lines between its points; nothing outside them.
std::optional<double> loss_at(const std::vector<CurvePoint>& curve, double seconds) {
  for (std::size_t i = 1; i < curve.size(); ++i) {
    const CurvePoint &before = curve[i - 1], &after = curve[i];
    if (seconds < before.seconds || seconds > after.seconds) continue;
    const double way = (seconds - before.seconds) / std::max(1e-9, after.seconds - before.seconds);
    return std::lerp(before.loss, after.loss, way);
  }
  return {};
}

}  // namespace

std::string plot_text(const std::vector<DemoResult>& results) {
  const Axes axes = axes_of(results);
  std::vector<std::string> grid(kRows, std::string(kColumns, ' '));
  for (std::size_t r = 0; r < results.size(); ++r) {
    for (std::size_t column = 0; column < kColumns; ++column) {
      const double seconds = axes.seconds.at(static_cast<double>(column) / (kColumns - 1));
      if (const auto loss = loss_at(results[r].curve, seconds)) {
        const double down = 1 - axes.loss.share(*loss);
        grid[static_cast<std::size_t>(std::lround(down * (kRows - 1)))][column] = kMarks[r % kMarks.size()];
      }
    }
  }
  std::ostringstream out;
  out << "validation loss";
  for (std::size_t r = 0; r < results.size(); ++r)
    out << "    " << kMarks[r % kMarks.size()] << " " << results[r].title;
  for (std::size_t row = 0; row < kRows; ++row) {
    const double loss = axes.loss.at(1 - static_cast<double>(row) / (kRows - 1));
    const std::string label = row % 4 == 0 || row == kRows - 1 ? fixed(loss, 2) : "";
    out << "\n" << std::string(6 - std::min<std::size_t>(6, label.size()), ' ') << label << " |" << grid[row];
  }
  out << "\n       +" << std::string(kColumns, '-') << "\n       0" << std::string(kColumns - 16, ' ')
      << fixed(axes.seconds.high, 0) << " s of training\n";
  return out.str();
}

std::string plot_svg(const std::vector<DemoResult>& results, const std::string& title) {
  const Axes axes = axes_of(results);
  const auto x = [&](double seconds) { return kLeft + kWidth * axes.seconds.share(seconds); };
  const auto y = [&](double loss) { return kTop + kHeight * (1 - axes.loss.share(loss)); };
  std::ostringstream out;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << kLeft + kWidth + kRight << " "
      << kTop + kHeight + kBelow << "\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#26323d\">\n"
      << "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
      << "<text x=\"" << kLeft << "\" y=\"22\" font-size=\"15\" font-weight=\"bold\">" << title
      << "</text>\n";
  for (int tick = 0; tick <= 4; ++tick) {
    const double loss = axes.loss.at(tick / 4.0), seconds = axes.seconds.at(tick / 4.0);
    out << "<line x1=\"" << kLeft << "\" x2=\"" << kLeft + kWidth << "\" y1=\"" << fixed(y(loss), 1)
        << "\" y2=\"" << fixed(y(loss), 1) << "\" stroke=\"#dde3e8\"/>\n"
        << "<text x=\"" << kLeft - 8 << "\" y=\"" << fixed(y(loss) + 4, 1) << "\" text-anchor=\"end\">"
        << fixed(loss, 2) << "</text>\n"
        << "<text x=\"" << fixed(x(seconds), 1) << "\" y=\"" << kTop + kHeight + 20
        << "\" text-anchor=\"middle\">" << fixed(seconds, 0) << "</text>\n";
  }
  out << "<text x=\"" << kLeft + kWidth / 2 << "\" y=\"" << kTop + kHeight + 42
      << "\" text-anchor=\"middle\">seconds of training</text>\n";
  for (std::size_t r = 0; r < results.size(); ++r) {
    const char* const colour = kColours[r % kColours.size()];
    const double legend = kLeft + 150 * static_cast<double>(r);
    out << "<polyline fill=\"none\" stroke-width=\"2.5\" stroke=\"" << colour << "\" points=\"";
    for (const CurvePoint& point : results[r].curve)
      out << fixed(x(point.seconds), 1) << "," << fixed(y(point.loss), 1) << " ";
    out << "\"/>\n<line x1=\"" << legend << "\" x2=\"" << legend + 24
        << "\" y1=\"40\" y2=\"40\" stroke-width=\"2.5\" stroke=\"" << colour << "\"/>\n<text x=\""
        << legend + 30 << "\" y=\"44\">" << results[r].title << "</text>\n";
  }
  out << "</svg>\n";
  return out.str();
}

}  // namespace kith::cli
