#include "cli/plan_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <sstream>

namespace kith::cli {
namespace {

constexpr double kCellWidth = 84, kCellHeight = 44, kLeft = 110, kTop = 70, kBelow = 64, kRight = 100;
constexpr double kDeepest = 3;  // the speed-up (or slow-down) at which the colour is full

struct Colour {
  double red, green, blue;
};

constexpr Colour kEven{250, 250, 248};
constexpr Colour kMixing{33, 94, 168};
constexpr Colour kReduce{196, 66, 54};

double depth_of(double speed_up) {
  return std::clamp(std::log(speed_up) / std::log(kDeepest), -1.0, 1.0);
}

std::string colour_of(double speed_up) {
  const double depth = depth_of(speed_up);
  const Colour& end = depth > 0 ? kMixing : kReduce;
  const double way = std::sqrt(std::abs(depth));
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "rgb(%.0f,%.0f,%.0f)", std::lerp(kEven.red, end.red, way),
                std::lerp(kEven.green, end.green, way), std::lerp(kEven.blue, end.blue, way));
  return text.data();
}

const char* ink_on(double speed_up) {
  return std::abs(depth_of(speed_up)) > 0.25 ? "#ffffff" : "#26323d";
}

std::string fixed(double value, int digits) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '<') {
      safe += "&lt;";
    } else if (c == '&') {
      safe += "&amp;";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string axis_title(plan::Swept swept) {
  switch (swept) {
    case plan::Swept::bandwidth:
      return "bandwidth of a node";
    case plan::Swept::workers:
      return "workers";
    case plan::Swept::spread:
      return "spread of batch times (standard deviation / mean)";
  }
  return "";
}

class Drawing {
 public:
  Drawing(const plan::Map& map, const std::string& title)
      : map_(map),
        width_(kCellWidth * static_cast<double>(map.across.values.size())),
        height_(kCellHeight * static_cast<double>(map.down.values.size())) {
    out_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << kLeft + width_ + kRight << " "
         << kTop + height_ + kBelow
         << "\" font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"#26323d\">\n"
         << "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
    text(kLeft, 28, escaped(title), "font-size=\"16\" font-weight=\"600\"");
    text(kLeft, 48, "speed-up of the best topology over the best all-reduce, per iteration (predicted)",
         "fill=\"#5c6b7a\"");
  }

  std::string finish() {
    cells();
    axes();
    scale();
    out_ << "</svg>\n";
    return out_.str();
  }

 private:
  void text(double x, double y, const std::string& words, const std::string& attributes) {
    out_ << "<text x=\"" << fixed(x, 1) << "\" y=\"" << fixed(y, 1) << "\" " << attributes << ">" << words
         << "</text>\n";
  }

  void cells() {
    for (std::size_t row = 0; row < map_.down.values.size(); ++row) {
      for (std::size_t column = 0; column < map_.across.values.size(); ++column) {
        const plan::Cell& cell = map_.cell(row, column);
        const double x = kLeft + kCellWidth * static_cast<double>(column);
        const double y = top_of(row);
        out_ << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << kCellWidth << "\" height=\""
             << kCellHeight << "\" fill=\"" << colour_of(cell.speed_up)
             << "\" stroke=\"#ffffff\"><title>all-reduce " << fixed(cell.all_reduce_s * 1e3, 1) << " ms, "
             << cell.topology << " " << fixed(cell.mixing_s * 1e3, 1) << " ms</title></rect>\n";
        const std::string ink = std::string("text-anchor=\"middle\" fill=\"") + ink_on(cell.speed_up) + "\"";
        text(x + kCellWidth / 2, y + 20, fixed(cell.speed_up, 2) + "x", ink + " font-weight=\"600\"");
        text(x + kCellWidth / 2, y + 35, cell.topology, ink + " font-size=\"10\"");
      }
    }
  }

  // Values grow upwards.
  double top_of(std::size_t row) const { return kTop + height_ - kCellHeight * static_cast<double>(row + 1); }

  void axes() {
    for (std::size_t column = 0; column < map_.across.values.size(); ++column)
      text(kLeft + kCellWidth * (static_cast<double>(column) + 0.5), kTop + height_ + 18,
           map_.across.labels[column], "text-anchor=\"middle\"");
    for (std::size_t row = 0; row < map_.down.values.size(); ++row)
      text(kLeft - 8, top_of(row) + kCellHeight / 2 + 4, map_.down.labels[row], "text-anchor=\"end\"");
    text(kLeft + width_ / 2, kTop + height_ + 44, axis_title(map_.across.swept),
         "text-anchor=\"middle\" font-weight=\"600\"");
    const std::string turned = fixed(kTop + height_ / 2, 1);
    out_ << "<text x=\"18\" y=\"" << turned << "\" transform=\"rotate(-90 18 " << turned
         << ")\" text-anchor=\"middle\" font-weight=\"600\">" << axis_title(map_.down.swept) << "</text>\n";
  }

  void scale() {
    const double x = kLeft + width_ + 24;
    double y = kTop;
    for (const double speed_up : {3.0, 2.0, 1.5, 1.2, 1.0, 0.8, 0.5}) {
      out_ << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"18\" height=\"18\" fill=\""
           << colour_of(speed_up) << "\" stroke=\"#d5dae0\"/>\n";
      text(x + 24, y + 13, fixed(speed_up, 1) + "x", "font-size=\"11\"");
      y += 20;
    }
  }

  const plan::Map& map_;
  const double width_;
  const double height_;
  std::ostringstream out_;
};

}  // namespace

std::string svg_of(const plan::Map& map, const std::string& title) {
  return Drawing(map, title).finish();
}

}  // namespace kith::cli
