#include "kith/train/config/renamed.h"

#include <array>

namespace kith::train {
namespace {

struct Renamed {
  std::string_view before, now;
};

constexpr std::array<Renamed, 7> kKeys{{{"schedule.name", "rate.curve"},
                                        {"schedule.lr", "rate.lr"},
                                        {"schedule.warmup", "rate.warmup"},
                                        {"schedule.final_fraction", "rate.final_fraction"},
                                        {"schedule.every", "rate.every"},
                                        {"schedule.factor", "rate.factor"},
                                        {"optimizer.window", "optimizer.commit_every"}}};

}  // namespace

std::string renamed_section(std::string_view section) {
  return section == "schedule" ? "rate" : "";
}

std::string renamed_key(std::string_view key) {
  for (const Renamed& renamed : kKeys)
    if (renamed.before == key) return std::string(renamed.now);
  return "";
}

std::string renamed_value(std::string_view key, std::string_view value) {
  return key == "wire.type" && value == "own" ? "full" : "";
}

}  // namespace kith::train
