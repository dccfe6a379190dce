#include "kith/observe/line.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace kith::observe {
namespace {

using Json = nlohmann::json;

double number(const Json& json, const char* key, double otherwise = 0) {
  const auto found = json.find(key);
  if (found == json.end()) return otherwise;
  if (found->is_null()) return NAN;  // JSON has no NaN
  return found->is_number() ? found->get<double>() : otherwise;
}

template <class Int>
Int whole(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number_integer() ? found->get<Int>() : Int{0};
}

std::string text(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::vector<int> ids(const Json& json, const char* key) {
  std::vector<int> all;
  const auto found = json.find(key);
  if (found == json.end() || !found->is_array()) return all;
  for (const Json& id : *found)
    if (id.is_number_integer()) all.push_back(id.get<int>());
  return all;
}

// The entries of an object whose keys are workers.
template <class Take>
void for_each_peer(const Json& json, const Take& take) {
  const auto found = json.find("peers");
  if (found == json.end() || !found->is_object()) return;
  for (const auto& [key, value] : found->items()) {
    int id = -1;
    const char* const end = key.data() + key.size();
    if (std::from_chars(key.data(), end, id).ptr == end && id >= 0 && value.is_object()) take(id, value);
  }
}

StepLine step_of(const Json& json) {
  StepLine line;
  line.step = whole<std::int64_t>(json, "step");
  line.time = number(json, "time");
  line.view = whole<int>(json, "view");
  line.loss = number(json, "loss", NAN);
  line.lr = number(json, "lr");
  line.seconds = number(json, "seconds");
  line.waited = number(json, "waited_seconds");
  line.held_up = number(json, "held_up_seconds");
  line.units_per_second = number(json, "units_per_second");
  line.bytes_read = number(json, "bytes_read");
  line.bytes_published = number(json, "bytes_published");
  line.consensus = number(json, "consensus", NAN);
  line.late = ids(json, "late");
  line.lost = ids(json, "lost");
  for_each_peer(json, [&](int id, const Json& part) {
    line.peers[id] = {number(part, "waited"), number(part, "read")};
  });
  return line;
}

StartLine start_of(const Json& json) {
  StartLine line;
  line.step = whole<std::int64_t>(json, "step");
  line.time = number(json, "time");
  line.workers = whole<int>(json, "workers");
  line.machine = whole<int>(json, "machine");
  line.steps = whole<std::int64_t>(json, "steps");
  line.seconds = number(json, "seconds");
  line.unit = text(json, "unit");
  line.units_per_step = number(json, "units_per_step");
  line.backend = text(json, "backend");
  if (json.contains("environment") && json["environment"].is_object()) {
    for (const auto& [name, value] : json["environment"].items())
      if (value.is_string()) line.environment.emplace_back(name, value.get<std::string>());
  }
  return line;
}

LinksLine links_of(const Json& json) {
  LinksLine line{whole<std::int64_t>(json, "step"), number(json, "time"), {}};
  for_each_peer(json, [&](int id, const Json& part) {
    line.peers[id] = {.waited = number(part, "waited"),
                      .longest = number(part, "longest"),
                      .held_up = number(part, "held_up"),
                      .read = number(part, "read"),
                      .offered = number(part, "offered"),
                      .late = number(part, "late"),
                      .lost = number(part, "lost"),
                      .across = part.value("across", false)};
  });
  return line;
}

}  // namespace

LinkPart& LinkPart::operator+=(const LinkPart& other) {
  waited += other.waited;
  longest = std::max(longest, other.longest);
  held_up += other.held_up;
  read += other.read;
  offered += other.offered;
  late += other.late;
  lost += other.lost;
  across = across || other.across;
  return *this;
}

std::optional<Line> parse_line(std::string_view line) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  const std::string kind = text(json, "kind");
  const auto step = whole<std::int64_t>(json, "step");
  const double time = number(json, "time");
  if (kind == "step") return step_of(json);
  if (kind == "eval")
    return EvalLine{step,
                    time,
                    number(json, "loss", NAN),
                    number(json, "accuracy", NAN),
                    number(json, "consensus_distance", NAN),
                    number(json, "seconds")};
  if (kind == "start") return start_of(json);
  if (kind == "members") return MembersLine{step, time, whole<int>(json, "view"), ids(json, "members")};
  if (kind == "loss")
    return LossLine{step,
                    time,
                    whole<int>(json, "worker"),
                    whole<std::int64_t>(json, "heard"),
                    number(json, "mean_shift", NAN),
                    whole<std::int64_t>(json, "samples_again"),
                    whole<std::int64_t>(json, "samples_unseen")};
  if (kind == "links") return links_of(json);
  if (kind == "end") return EndLine{step, time, text(json, "ending"), text(json, "error")};
  return std::nullopt;
}

}  // namespace kith::observe
