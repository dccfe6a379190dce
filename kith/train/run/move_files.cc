#include "kith/train/run/move_files.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <span>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/launch/parcel.h"
#include "kith/train/durable_file.h"

namespace kith::train {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kAtOnce = std::uint64_t{64} << 20;  // in memory, at either end

// One file on its way.
class Moving {
 public:
  Moving(const engine::WorldParts& world, const Move& move, std::size_t number, const MoveOptions& options)
      : world_(world), move_(move), number_(number), options_(options), path_(options.folder / move.file) {}

  // What went wrong with the file, or nothing.
  std::string send() {
    std::ifstream in(path_, std::ios::binary);
    std::string problem;
    for (std::uint64_t first = 0; first < move_.bytes || first == 0; first += kAtOnce) {
      std::vector<std::byte> piece(size_at(first));
      in.read(reinterpret_cast<char*>(piece.data()), static_cast<std::streamsize>(piece.size()));
      if (!in && problem.empty()) problem = cat(path_.string(), ": cannot be read");
      if (!problem.empty()) piece.clear();  // so that the other end knows
      launch::send_parcel(*world_.transport, parcel(first), piece);
    }
    return problem;
  }

  std::string receive() {
    std::string problem;
    std::optional<DurableFile> out;
    const auto carefully = [&](auto&& work) {
      try {
        if (problem.empty()) work();
      } catch (const std::exception& error) {
        problem = error.what();
      }
    };
    carefully([&] {
      fs::create_directories(path_.parent_path());
      out.emplace(path_);
    });
    for (std::uint64_t first = 0; first < move_.bytes || first == 0; first += kAtOnce) {
      const std::vector<std::byte> piece = launch::receive_parcel(*world_.transport, parcel(first));
      if (piece.size() != size_at(first) && problem.empty())
        problem = cat(move_.file, ": has not come whole from worker ", move_.from);
      carefully([&] { out->write(piece); });
    }
    carefully([&] { out->commit(); });
    return problem;
  }

 private:
  std::size_t size_at(std::uint64_t first) const {
    return static_cast<std::size_t>(std::min(kAtOnce, move_.bytes - first));
  }

  launch::ParcelOptions parcel(std::uint64_t first) const {
    return {.name = cat(options_.name, "/", number_, "/", first / kAtOnce),
            .from = WorkerId{move_.from},
            .to = WorkerId{move_.to},
            .deadline = options_.deadline};
  }

  const engine::WorldParts& world_;
  const Move& move_;
  const std::size_t number_;
  const MoveOptions& options_;
  const fs::path path_;
};

}  // namespace

std::string move_files(const engine::WorldParts& world, const std::vector<Move>& moves,
                       const MoveOptions& options) {
  const int self = world.self().value;
  std::string first;
  for (std::size_t number = 0; number < moves.size(); ++number) {
    const Move& move = moves[number];
    if (move.from != self && move.to != self) continue;
    Moving moving(world, move, number, options);
    const std::string problem = move.from == self ? moving.send() : moving.receive();
    if (first.empty()) first = problem;
  }
  return first;
}

}  // namespace kith::train
