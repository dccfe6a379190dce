#include "kith/train/run/gather_parts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/launch/parcel.h"
#include "kith/train/run/move_files.h"

namespace kith::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr auto kPatience = std::chrono::minutes(5);
constexpr auto kLook = std::chrono::milliseconds(100);
constexpr std::string_view kPlan = "train/gather/plan";  // who gathers, then who sends for each other part

std::string ended_key(WorkerId worker) {
  return cat("train/gather/ended/", worker.value);
}

class Gathering {
 public:
  Gathering(const launch::World& world, const RunFolder& folder, const Parts& parts)
      : world_(world),
        seen_(engine::seen_by_engine(world)),
        folder_(folder),
        parts_(parts),
        deadline_(world.clock().now() + kPatience) {}

  bool run() {
    world_.store().set(ended_key(world_.self()), "yes");
    while (true) {
      const WorkerId lowest = lowest_left();
      if (lowest == world_.self()) return gather();
      const auto plan = told_by(lowest, kPlan);
      if (plan) {
        send_if_asked(Json::parse(*plan));
        return false;
      }
      if (world_.clock().now() >= deadline_) throw Error("does not gather them", cat(lowest));
    }
  }

 private:
  bool left(WorkerId worker) const { return worker == world_.self() || !world_.transport().lost(worker); }

  WorkerId lowest_left() const {
    return *std::ranges::find_if(members(), [&](WorkerId w) { return left(w); });
  }
  // Newcomers too.
  const std::vector<WorkerId>& members() const { return world_.transport().workers(); }

  // What a worker that is left sets; nothing when it is gone without, and at the deadline.
  std::optional<std::string> told_by(WorkerId worker, std::string_view key) const {
    while (true) {
      const bool gone = !left(worker);  // before the look: what it set still counts
      const Clock::Time now = world_.clock().now();
      const auto value = world_.store().wait(key, now + (gone ? Clock::Duration{} : Clock::Duration(kLook)));
      if (value || gone || now >= deadline_) return value;
    }
  }

  bool gather() const {
    Json plan{{"to", world_.self().value}, {"from", Json::object()}};
    for (const WorkerId worker : members()) {
      if (worker == world_.self() || !told_by(worker, ended_key(worker))) continue;
      const Part& part = part_of(parts_, worker.value);
      const std::string number = std::to_string(part.number);
      if (part.number != own_part() && !plan["from"].contains(number)) plan["from"][number] = worker.value;
    }
    // Somebody lower may have done all this and ended.
    if (world_.store().set_once(kPlan, plan.dump()) != plan.dump()) return false;
    for (const Part& part : parts_) {
      const std::string number = std::to_string(part.number);
      if (part.number == own_part()) continue;
      if (!plan["from"].contains(number)) {
        say_missing(part, "nobody there has ended well");
        continue;
      }
      try {
        const std::string problem = receive(part.number, plan["from"][number]);
        if (!problem.empty()) say_missing(part, problem);
      } catch (const std::exception& error) {
        say_missing(part, error.what());
      }
    }
    return true;
  }

  int own_part() const { return part_of(parts_, world_.self().value).number; }

  void say_missing(const Part& part, const std::string& why) const {
    world_.log().warning(cat("metrics of ", part.folder.string(), " on ", part.host, " stay there: ", why));
  }

  launch::ParcelOptions list_parcel(int part, int from, int to) const {
    return {.name = cat("train/gather/list/", part),
            .from = WorkerId{from},
            .to = WorkerId{to},
            .deadline = deadline_};
  }

  MoveOptions moving(int part) const {
    return {.name = cat("train/gather/move/", part), .folder = folder_.path(), .deadline = deadline_};
  }

  // What may come of a part, within the run folder: of those who began in it, the dead included.
  std::vector<std::string> names_in(int number) const {
    std::vector<std::string> names;
    for (const int worker : std::ranges::find(parts_, number, &Part::number)->workers) {
      for (const fs::path& file : {folder_.metrics(worker), folder_.trace(worker)})
        names.push_back(file.lexically_relative(folder_.path()).string());
    }
    return names;
  }

  std::vector<Move> moves_of(int part, const Json& list, int from, int to) const {
    const std::vector<std::string> names = names_in(part);
    std::vector<Move> moves;
    for (const Json& file : list) {
      moves.push_back({file.at(0), file.at(1), from, to});
      if (std::ranges::find(names, moves.back().file) == names.end())
        throw Error(cat("offers '", moves.back().file, "'"), cat("worker ", from));
    }
    return moves;
  }

  std::string receive(int part, int from) const {
    const int self = world_.self().value;
    const std::vector<std::byte> bytes =
        launch::receive_parcel(world_.transport(), list_parcel(part, from, self));
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return move_files(seen_, moves_of(part, Json::parse(text), from, self), moving(part));
  }

  void send_if_asked(const Json& plan) const {
    const int self = world_.self().value;
    const int to = plan.at("to");
    for (const auto& [number, from] : plan.at("from").items()) {
      if (from != self) continue;
      const int part = std::stoi(number);
      const Json list = own_files(part);
      const std::string text = list.dump();
      launch::send_parcel(world_.transport(), list_parcel(part, self, to), std::as_bytes(std::span(text)));
      move_files(seen_, moves_of(part, list, self, to), moving(part));
    }
  }

  Json own_files(int number) const {
    Json list = Json::array();
    for (const std::string& name : names_in(number)) {
      std::error_code problem;
      const auto bytes = fs::file_size(folder_.path() / name, problem);
      if (!problem) list.push_back({name, bytes});
    }
    return list;
  }

  const launch::World& world_;
  const engine::WorldParts seen_;
  const RunFolder& folder_;
  const Parts& parts_;
  const Deadline deadline_;
};

}  // namespace

bool gather_parts(const launch::World& world, const RunFolder& folder, const Parts& parts) {
  try {
    return Gathering(world, folder, parts).run();
  } catch (const std::exception& error) {
    world.log().warning(cat("the parts' metrics are not gathered: ", error.what()));
    return false;
  }
}

}  // namespace kith::train
