#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace kith::observe {

// A worker's metrics.jsonl as `kith train` writes it (docs/seeing.md has the fields). Numbers that a line
// lacks are 0, or NaN where 0 would mean something else. Workers are known by their ids.

struct PeerPart {
  double waited = 0;  // seconds
  double read = 0;    // bytes
};

struct StepLine {
  std::int64_t step = 0;
  double time = 0;
  int view = 0;
  double loss = 0;
  double lr = 0;
  double seconds = 0;
  double waited = 0;
  double held_up = 0;
  double units_per_second = 0;
  double bytes_read = 0;
  double bytes_published = 0;
  double consensus = 0;  // NaN: not told
  std::vector<int> late, lost;
  std::map<int, PeerPart> peers;
};

struct EvalLine {
  std::int64_t step = 0;
  double time = 0;
  double loss = 0;
  double accuracy = 0;
  double consensus_distance = 0;
  double seconds = 0;  // of training
};

struct StartLine {
  std::int64_t step = 0;
  double time = 0;
  int workers = 0;
  int machine = 0;
  std::int64_t steps = 0;
  double seconds = 0;
  std::string unit;
  double units_per_step = 0;
  std::string backend;
  std::vector<std::pair<std::string, std::string>> environment;
};

struct MembersLine {
  std::int64_t step = 0;
  double time = 0;
  int view = 0;
  std::vector<int> members;
};

// What it costs that a worker is gone; everybody who is left tells the same.
struct LossLine {
  std::int64_t step = 0;
  double time = 0;
  int worker = 0;
  std::int64_t heard = 0;
  double mean_shift = 0;  // NaN: not known
  std::int64_t samples_again = 0, samples_unseen = 0;
};

struct LinkPart {
  double waited = 0, longest = 0, held_up = 0;  // seconds
  double read = 0, offered = 0;                 // bytes
  double late = 0, lost = 0;                    // times
  bool across = false;                          // between machines

  LinkPart& operator+=(const LinkPart& other);
};

struct LinksLine {
  std::int64_t step = 0;
  double time = 0;
  std::map<int, LinkPart> peers;
};

struct EndLine {
  std::int64_t step = 0;
  double time = 0;
  std::string ending;
  std::string error;
};

using Line = std::variant<StepLine, EvalLine, StartLine, MembersLine, LossLine, LinksLine, EndLine>;

// Nothing for a line that is none of these: half a line of a killed worker, or a kind of a later kith.
std::optional<Line> parse_line(std::string_view text);

}  // namespace kith::observe
