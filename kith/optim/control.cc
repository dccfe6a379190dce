#include "kith/optim/control.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kith/optim/text_reader.h"

namespace kith::optim {
namespace {

constexpr const char* kControlRemedy =
    "'distance 0.5', 'share 0.25 of 3.2', 'update 2', or 'from 0 distance 0.5, from 300 none'";
constexpr std::int64_t kMostRounds = std::numeric_limits<std::int32_t>::max();

}  // namespace

Control::Control(std::string_view text) {
  TextReader reader(text, "control", kControlRemedy);
  do {
    Phase phase;
    if (reader.word("from")) {
      phase.first = reader.number(phases_.empty() ? 0 : phases_.back().first + 1);
    } else if (!phases_.empty()) {
      reader.fail();
    }
    if (reader.word("distance")) {
      phase.distance = reader.real();
    } else if (reader.word("share")) {
      const double share = reader.real();
      if (!reader.word("of")) reader.fail();
      phase.distance = share * reader.real();
    } else if (reader.word("update")) {
      phase.updates = reader.real();
    } else if (!reader.word("none")) {
      reader.fail();
    }
    phases_.push_back(phase);
  } while (reader.word(","));
  if (!reader.ends()) reader.fail();
}

std::optional<double> Control::target(std::int64_t step, double update) const {
  const auto after = std::ranges::find_if(phases_, [&](const Phase& phase) { return phase.first > step; });
  if (after == phases_.begin()) return {};
  const Phase& phase = *std::prev(after);
  if (phase.updates) return *phase.updates * update;
  return phase.distance;
}

bool Control::reads_updates() const {
  return std::ranges::any_of(phases_, [](const Phase& phase) { return phase.updates.has_value(); });
}

std::int64_t rounds_for(double target, double found, double contraction) {
  if (!(found > 0) || std::isinf(target) || contraction <= 0) return 1;
  if (!(target > 0) || !(contraction < 1)) return kMostRounds;
  const double rounds = std::log(target / (target + found)) / std::log(contraction);
  return rounds < static_cast<double>(kMostRounds)
             ? std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(rounds)))
             : kMostRounds;
}

}  // namespace kith::optim
