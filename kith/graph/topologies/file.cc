// A user's own rounds, from JSON; docs/topologies.md has the format.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "kith/base/error.h"
#include "kith/base/input_text.h"
#include "kith/base/text.h"
#include "kith/graph/connectivity.h"
#include "kith/graph/topologies/static_schedule.h"
#include "kith/graph/topologies/topologies.h"

namespace kith::graph {
namespace {

using Json = nlohmann::json;
using Rounds = std::vector<std::vector<WorkerRound>>;  // by round, then by rank

// Hand-written decimals are allowed this much; rows are then completed to one by the self weight.
constexpr double kSumTolerance = 1e-9;

class FileSchedule final : public Schedule {
 public:
  FileSchedule(const Shape& shape, bool directed, Rounds rounds)
      : Schedule("file", shape), directed_(directed), rounds_(std::move(rounds)) {}

  bool directed() const override { return directed_; }
  std::int64_t period() const override { return static_cast<std::int64_t>(rounds_.size()); }
  WorkerRound round(Rank rank, std::int64_t t) const override {
    return rounds_[static_cast<std::size_t>(t % period())].at(static_cast<std::size_t>(rank));
  }

 private:
  const bool directed_;
  const Rounds rounds_;
};

// Reads one round; `place` is "FILE, round R".
class RoundReader {
 public:
  RoundReader(int workers, bool directed, std::string place)
      : n_(workers), directed_(directed), place_(std::move(place)) {}

  std::vector<WorkerRound> read(const Json& json) const {
    if (json.is_object() && json.size() == 1) {
      if (json.contains("groups")) return groups(json["groups"]);
      if (json.contains("edges")) return edges(json["edges"]);
      if (json.contains("matrix")) return matrix(json["matrix"]);
    }
    fail(cat("a round that is ", json.dump().substr(0, 60)), "an object with one of groups, edges, matrix");
  }

 private:
  [[noreturn]] void fail(const std::string& problem, const std::string& remedy) const {
    throw InputError(problem, place_, remedy);
  }

  Rank rank_in(const Json& json, const std::string& what) const {
    if (!json.is_number_integer()) fail(cat(what, " names rank ", json.dump()), "ranks are whole numbers");
    const auto value = json.get<std::int64_t>();
    if (value < 0 || value >= n_) {
      fail(cat(what, " names rank ", value), cat("there are ", n_, " workers: ranks 0 to ", n_ - 1));
    }
    return static_cast<Rank>(value);
  }

  const Json& array_in(const Json& json, const std::string& what) const {
    if (!json.is_array()) fail(cat(what, " is ", json.dump().substr(0, 60)), "a list is needed");
    return json;
  }

  std::vector<WorkerRound> groups(const Json& json) const {
    std::vector<WorkerRound> rounds(static_cast<std::size_t>(n_));
    std::vector<int> group_of(static_cast<std::size_t>(n_), -1);
    int index = 0;
    for (const Json& list : array_in(json, "groups")) {
      const std::string what = cat("group ", index);
      std::vector<Rank> members;
      for (const Json& entry : array_in(list, what)) {
        const Rank rank = rank_in(entry, what);
        int& seen = group_of[static_cast<std::size_t>(rank)];
        if (seen >= 0)
          fail(cat("rank ", rank, " is in group ", seen, " and in group ", index), "once per round");
        seen = index;
        members.push_back(rank);
      }
      std::sort(members.begin(), members.end());
      for (Rank rank : members)
        rounds[static_cast<std::size_t>(rank)].group = members;
      ++index;
    }
    const auto missing = std::find(group_of.begin(), group_of.end(), -1);
    if (missing != group_of.end()) {
      fail(cat("rank ", missing - group_of.begin(), " is in none of the ", index, " groups"),
           "an idle worker is a group of one");
    }
    return rounds;
  }

  std::vector<WorkerRound> edges(const Json& json) const {
    std::vector<std::vector<Rank>> out(static_cast<std::size_t>(n_)), in(static_cast<std::size_t>(n_));
    int index = 0;
    for (const Json& edge : array_in(json, "edges")) {
      const std::string what = cat("edge ", index++);
      if (array_in(edge, what).size() != 2) fail(cat(what, " is ", edge.dump()), "two ranks");
      const Rank a = rank_in(edge[0], what), b = rank_in(edge[1], what);
      if (a == b)
        fail(cat(what, " joins rank ", a, " to itself"), "leave it out: everybody keeps a part of itself");
      out[static_cast<std::size_t>(a)].push_back(b);
      in[static_cast<std::size_t>(b)].push_back(a);
      if (!directed_) {
        out[static_cast<std::size_t>(b)].push_back(a);
        in[static_cast<std::size_t>(a)].push_back(b);
      }
    }
    for (auto* lists : {&out, &in}) {
      for (std::vector<Rank>& list : *lists) {
        std::sort(list.begin(), list.end());
        list.erase(std::unique(list.begin(), list.end()), list.end());
      }
    }
    return directed_ ? pushing(out, in) : metropolis(out);
  }

  std::vector<WorkerRound> metropolis(const std::vector<std::vector<Rank>>& neighbours) const {
    std::vector<WorkerRound> rounds;
    for (Rank rank = 0; rank < n_; ++rank) {
      rounds.push_back(metropolis_round(rank, neighbours[static_cast<std::size_t>(rank)], [&](Rank other) {
        return neighbours[static_cast<std::size_t>(other)].size();
      }));
    }
    return rounds;
  }

  std::vector<WorkerRound> pushing(const std::vector<std::vector<Rank>>& out,
                                   const std::vector<std::vector<Rank>>& in) const {
    const auto share = [&](Rank rank) {
      return 1.0 / static_cast<double>(1 + out[static_cast<std::size_t>(rank)].size());
    };
    std::vector<WorkerRound> rounds(static_cast<std::size_t>(n_));
    for (Rank rank = 0; rank < n_; ++rank) {
      WorkerRound& round = rounds[static_cast<std::size_t>(rank)];
      round.form = Form::neighbours;
      round.self_weight = share(rank);
      round.readers = out[static_cast<std::size_t>(rank)];
      round.shares.assign(round.readers.size(), share(rank));
      for (Rank from : in[static_cast<std::size_t>(rank)])
        round.reads.push_back({from, share(from)});
    }
    return rounds;
  }

  std::vector<WorkerRound> matrix(const Json& json) const {
    Eigen::MatrixXd w(n_, n_);
    require_length(array_in(json, "matrix"), "the matrix has", "rows");
    for (Rank i = 0; i < n_; ++i) {
      const Json& row = array_in(json[static_cast<std::size_t>(i)], cat("row of rank ", i));
      require_length(row, cat("the row of rank ", i, " has"), "entries");
      for (Rank j = 0; j < n_; ++j) {
        const Json& entry = row[static_cast<std::size_t>(j)];
        if (!entry.is_number())
          fail(cat("rank ", i, " takes ", entry.dump(), " of rank ", j), "a number is needed");
        w(i, j) = entry.get<double>();
        if (!(w(i, j) >= 0))
          fail(cat("rank ", i, " takes ", w(i, j), " of rank ", j), "weights are not negative");
      }
    }
    for (Rank i = 0; i < n_; ++i) {
      if (!directed_) require_one(w.row(i).sum(), cat("the row of rank ", i));
      require_one(w.col(i).sum(), cat("the column of rank ", i));
    }
    return from_matrix(w);
  }

  void require_length(const Json& list, const std::string& what, const std::string& unit) const {
    if (static_cast<int>(list.size()) != n_)
      fail(cat(what, " ", list.size(), " ", unit), cat("there are ", n_, " workers"));
  }

  void require_one(double sum, const std::string& what) const {
    if (std::abs(sum - 1) > kSumTolerance) {
      fail(cat(what, " sums to ", sum, ", not 1"),
           directed_ ? "columns must sum to one: nothing may be lost" : "rows and columns must sum to one");
    }
  }

  std::vector<WorkerRound> from_matrix(const Eigen::MatrixXd& w) const {
    std::vector<WorkerRound> rounds(static_cast<std::size_t>(n_));
    for (Rank i = 0; i < n_; ++i) {
      WorkerRound& round = rounds[static_cast<std::size_t>(i)];
      round.form = Form::neighbours;
      round.self_weight = w(i, i);
      for (Rank j = 0; j < n_; ++j) {
        if (i == j) continue;
        if (w(i, j) > 0) round.reads.push_back({j, w(i, j)});
        if (w(j, i) == 0) continue;
        round.readers.push_back(j);
        if (directed_) round.shares.push_back(w(j, i));
      }
    }
    return rounds;
  }

  const int n_;
  const bool directed_;
  const std::string place_;
};

Json parse(const std::string& path) {
  if (path.empty())
    throw InputError("topology 'file' without a file", "topology", "name its JSON, as in --file rounds.json");
  const std::string text = read_input(path);
  require_shallow_json(text, path);
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw InputError(cat("is not JSON: ", json_problem(error.what())), path,
                     "see docs/topologies.md for the format");
  }
}

void check_keys(const Json& json, const std::string& path) {
  const std::vector<std::string> known{"rounds", "edges", "workers", "directed"};
  if (!json.is_object() || json.contains("rounds") == json.contains("edges")) {
    throw InputError("needs either 'rounds' or 'edges'", path, "see docs/topologies.md for the format");
  }
  for (const auto& [key, value] : json.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      throw InputError(cat("unknown key '", key, "'"), path, suggest(key, known));
    }
  }
  if (json.contains("directed") && !json["directed"].is_boolean()) {
    throw InputError(cat("'directed' is ", json["directed"].dump()), path, "true or false");
  }
}

void require_connected(const Schedule& schedule, const std::string& path) {
  const std::vector<Rank> lonely = cut_off(schedule);
  if (lonely.empty()) return;
  throw InputError(cat("over rounds 0 to ", schedule.period() - 1, " rank ", lonely.front(),
                       " never mixes with rank 0, not even through others: ", lonely.size(), " of ",
                       schedule.workers(), " workers are cut off"),
                   path, "join them in some round");
}

}  // namespace

std::unique_ptr<Schedule> make_file(const ScheduleOptions& options) {
  const Json json = parse(options.file);
  check_keys(json, options.file);
  const int n = options.shape.workers();
  if (json.contains("workers") && json["workers"] != n) {
    throw InputError(cat("is for ", json["workers"].dump(), " workers"), options.file,
                     cat("the shape has ", n));
  }
  const Json listed = json.contains("rounds") ? json["rounds"] : Json::array({{{"edges", json["edges"]}}});
  if (!listed.is_array() || listed.empty()) {
    throw InputError("'rounds' is not a list of at least one round", options.file, "see docs/topologies.md");
  }
  const bool directed = json.value("directed", false);
  Rounds rounds;
  for (const Json& one : listed) {
    rounds.push_back(RoundReader(n, directed, cat(options.file, ", round ", rounds.size())).read(one));
  }
  auto schedule = std::make_unique<FileSchedule>(options.shape, directed, std::move(rounds));
  require_connected(*schedule, options.file);
  return schedule;
}

}  // namespace kith::graph
