#include "bench/common/lap.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::bench {

std::string Lap::text() const {
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(), "done %.9f %.9f %.9f %.9f", seconds, loss, waited, stepped);
  return text.data();
}

Lap Lap::parse(const std::string& text, const std::string& who) {
  std::istringstream words(text);
  std::string done;
  Lap lap;
  words >> done >> lap.seconds >> lap.loss;
  if (done != "done" || !words) throw Error(cat("'", text, "' is not an answer"), who);
  words >> lap.waited >> lap.stepped;
  return lap;
}

Lap together(std::span<const Lap> laps) {
  Lap all;
  const auto workers = static_cast<double>(laps.size());
  for (const Lap& lap : laps) {
    all.seconds = std::max(all.seconds, lap.seconds);
    all.loss += lap.loss / workers;
    all.waited += lap.waited / workers;
    all.stepped += lap.stepped / workers;
  }
  return all;
}

}  // namespace kith::bench
