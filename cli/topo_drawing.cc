#include "cli/topo_drawing.h"

#include <algorithm>
#include <array>
#include <iomanip>
#include <optional>
#include <ostream>
#include <string>

#include "kith/base/text.h"

namespace kith::cli {
namespace {

using graph::Form;
using graph::Schedule;
using graph::Shape;
using graph::WorkerRound;

constexpr int kMostWorkers = 64;
constexpr std::int64_t kMostLines = 32;
constexpr std::int64_t kMostMaps = 2;

std::vector<WorkerRound> whole_round(const Schedule& schedule, std::int64_t t) {
  std::vector<WorkerRound> rounds;
  for (Rank rank = 0; rank < schedule.workers(); ++rank)
    rounds.push_back(schedule.round(rank, t));
  return rounds;
}

char letter(int index, char first) {
  return static_cast<char>(first + index % 26);
}

// One character per worker, or nothing when the round is not made of groups and exchanges between two.
std::optional<std::string> letters(const std::vector<WorkerRound>& rounds) {
  std::string line(rounds.size(), ' ');
  int groups = 0;
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    const auto self = static_cast<Rank>(i);
    std::vector<Rank> others = reads_of(rounds[i], self);
    if (rounds[i].form == Form::neighbours) {
      if (others.size() != 1) return std::nullopt;
      const auto peer = static_cast<std::size_t>(others.front());
      if (reads_of(rounds[peer], others.front()) != std::vector<Rank>{self}) return std::nullopt;
    }
    if (line[i] != ' ') continue;
    if (others.empty()) {
      line[i] = '.';
      continue;
    }
    const char mark = letter(groups++, rounds[i].form == Form::group ? 'a' : 'A');
    line[i] = mark;
    for (Rank other : others)
      line[static_cast<std::size_t>(other)] = mark;
  }
  return line;
}

// "ab ab | cd" : spaces between workers, a bar between nodes.
std::string by_node(const Shape& shape, const std::string& marks) {
  std::string line;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    if (i > 0) line += shape.same_node(static_cast<Rank>(i) - 1, static_cast<Rank>(i)) ? " " : " | ";
    line += marks[i];
  }
  return line;
}

void draw_map(std::ostream& out, const std::vector<WorkerRound>& rounds, std::int64_t t) {
  constexpr std::array<const char*, 5> kShades{"\u00b7 ", "\u2591\u2591", "\u2592\u2592", "\u2593\u2593",
                                               "\u2588\u2588"};
  out << "round " << t << ", the mixing matrix (darker is more of that worker)\n";
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    std::vector<std::size_t> shades(rounds.size(), 0);
    for (const graph::Term& term : row_of(rounds[i], static_cast<Rank>(i))) {
      const int shade = static_cast<int>(term.weight * 4 + 0.999);
      shades[static_cast<std::size_t>(term.rank)] = static_cast<std::size_t>(std::clamp(shade, 1, 4));
    }
    out << std::setw(7) << i << "  ";
    for (std::size_t shade : shades)
      out << kShades[shade];
    out << "\n";
  }
}

}  // namespace

void draw_rounds(std::ostream& out, const Schedule& schedule) {
  out << "\n";
  if (schedule.workers() > kMostWorkers) {
    out << "(no drawing of more than " << kMostWorkers << " workers; --svg FILE makes a picture)\n";
    return;
  }
  std::string digits;
  for (Rank rank = 0; rank < schedule.workers(); ++rank)
    digits += static_cast<char>('0' + rank % 10);
  bool header = false;
  std::int64_t maps = 0, t = 0;
  for (; t < std::min(schedule.period(), kMostLines) && maps < kMostMaps; ++t) {
    const std::vector<WorkerRound> rounds = whole_round(schedule, t);
    const std::optional<std::string> marks = letters(rounds);
    if (!marks) {
      draw_map(out, rounds, t);
      ++maps;
      header = false;
      continue;
    }
    if (!header) out << " worker  " << by_node(schedule.shape(), digits) << "\n";
    header = true;
    out << "round" << std::setw(3) << t << " " << by_node(schedule.shape(), *marks) << "\n";
  }
  if (t < schedule.period()) out << "    ...  " << schedule.period() - t << " more rounds\n";
}

}  // namespace kith::cli
