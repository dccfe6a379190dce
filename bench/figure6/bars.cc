#include "bench/figure6/bars.h"

#include <fstream>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace figure6 {

std::string name_of(Method method) {
  switch (method) {
    case Method::all_reduce:
      return "all-reduce";
    case Method::exp:
      return "exp";
    case Method::aer:
      return "aer";
  }
  return "?";
}

std::string name_of(const Bar& bar) {
  return kith::cat(bar.cluster, " ", name_of(bar.method), "-", bar.workers);
}

std::vector<Bar> read_bars(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw kith::InputError("cannot read the bars", path);
  std::vector<Bar> bars;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.empty() || line.front() == '#' || line.starts_with("cluster,")) continue;
    const std::vector<std::string> cells = kith::split(line, ',');
    const std::string place = kith::cat(path, ":", number);
    if (cells.size() != 5) throw kith::InputError(kith::cat(cells.size(), " cells"), place, "a bar has 5");
    Bar bar{cells[0], std::stoi(cells[1]), Method::all_reduce, std::stod(cells[3]), Split::fit};
    if (cells[2] == "exp") {
      bar.method = Method::exp;
    } else if (cells[2] == "aer") {
      bar.method = Method::aer;
    } else if (cells[2] != "all-reduce") {
      throw kith::InputError(kith::cat("unknown method '", cells[2], "'"), place);
    }
    bar.split = cells[4] == "held" ? Split::held : Split::fit;
    bars.push_back(bar);
  }
  return bars;
}

}  // namespace figure6
