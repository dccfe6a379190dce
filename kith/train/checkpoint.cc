#include "kith/train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <vector>

#include "kith/base/error.h"
#include "kith/base/host_name.h"
#include "kith/base/text.h"
#include "kith/train/state_names.h"
#include "kith/train/store_report.h"

namespace kith::train {
namespace {

namespace fs = std::filesystem;

std::string write_own(DecentralizedDataParallel& model, const fs::path& folder, const std::string& run,
                      std::span<const std::byte> position) {
  const engine::WorldParts& world = model.world();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw Error(cat("cannot be created: ", error.message()), folder.string(),
                "look at the rights of its parent");
  const auto state = model.state();
  std::vector<NamedTensor> tensors;
  for (const auto& block : state)
    tensors.push_back({block.name, block.type, block.shape, block.bytes});
  tensors.push_back({kPosition, "U8", {static_cast<std::int64_t>(position.size())}, position});
  const FileDigest digest = write_worker_file(folder / worker_file_name(world.rank()),
                                              {model.steps(), world.rank(), world.size(), run}, tensors);
  return cat(digest.bytes, " ", digest.crc64);
}

// What a worker reports of its file: size and checksum, then where it lies, a line each.
struct Saved {
  FileDigest digest;
  int part = 0;
};

std::string report_of(const std::string& digest, const SaveOptions& options) {
  return cat(digest, " ", options.part, "\n", host_name(), "\n", fs::absolute(options.root).string());
}

Saved parse_report(Rank rank, const std::string& text) {
  const std::vector<std::string> lines = split(text, '\n');
  const std::vector<std::string> parts = split(lines.at(0), ' ');
  const auto number = [&](const std::string& part) {
    std::uint64_t value = 0;
    std::from_chars(part.data(), part.data() + part.size(), value);
    return value;
  };
  return {{worker_file_name(rank), number(parts.at(0)), number(parts.at(1)), lines.at(1), lines.at(2)},
          static_cast<int>(number(parts.at(2)))};
}

// The first worker of each part but rank 0's: they put the manifest beside their files.
std::vector<std::string> heads_of_others(const std::vector<Saved>& saved) {
  std::vector<int> seen{saved.front().part};
  std::vector<std::string> ranks;
  for (std::size_t rank = 1; rank < saved.size(); ++rank) {
    if (std::ranges::find(seen, saved[rank].part) != seen.end()) continue;
    seen.push_back(saved[rank].part);
    ranks.push_back(std::to_string(rank));
  }
  return ranks;
}

// One save on one worker.
class Save {
 public:
  Save(DecentralizedDataParallel& model, const SaveOptions& options)
      : model_(model),
        world_(model.world()),
        options_(options),
        folder_(checkpoint_path(options.root, model.steps())),
        run_(model.run_id()),
        name_(cat("checkpoint/", model.options().name, "/", model.steps(), "/", model.agreement_number())) {}

  fs::path run() {
    StoreReport reports(world_, name_, model_.options().patience);
    std::string heads;
    try {
      heads = reports.run(
          [&] { return report_of(write_own(model_, folder_, run_, options_.position), options_); },
          [&](const std::vector<std::string>& all) { return complete(all); });
    } catch (const Error&) {
      clean_up();
      throw;
    }
    const std::vector<std::string> ranks = split(heads, ' ');
    if (std::ranges::find(ranks, std::to_string(world_.rank())) != ranks.end()) write_manifest_here();
    return folder_;
  }

 private:
  std::string manifest_key() const { return name_ + "/manifest"; }

  // Rank 0, once every file is on its disk. Returns who else writes the manifest.
  std::string complete(const std::vector<std::string>& reports) const {
    std::vector<Saved> saved;
    for (Rank rank = 0; rank < world_.size(); ++rank)
      saved.push_back(parse_report(rank, reports[static_cast<std::size_t>(rank)]));
    const std::vector<std::string> heads = heads_of_others(saved);
    Manifest manifest{model_.options().name, model_.steps(), {}, model_.engine().cut(), run_};
    for (Saved& one : saved) {
      if (heads.empty()) one.digest.host = one.digest.folder = {};
      manifest.files.push_back(one.digest);
    }
    const std::string text = manifest_text(manifest);
    if (!heads.empty()) world_.store->set(manifest_key(), text);
    write_manifest(folder_, text);
    prune_checkpoints(options_.root, options_.keep);
    return join(heads, " ");
  }

  // The checkpoint is whole without it: rank 0's part has it. So a failure here is told, and no more.
  void write_manifest_here() const {
    try {
      const auto text = world_.store->get(manifest_key());
      if (!text) throw Error("rank 0 has not told it", folder_.string());
      write_manifest(folder_, *text);
      prune_checkpoints(options_.root, options_.keep);
    } catch (const Error& error) {
      world_.log->warning(
          cat("no manifest of step ", model_.steps(), " in this part of the run: ", error.what()));
    }
  }

  // What a save that failed has left takes room on a full disk. Where rank 0 is gone it may have been the
  // last to know that nothing failed.
  void clean_up() const {
    if (world_.rank() == 0) return remove_incomplete(folder_);
    std::error_code ignored;
    if (world_.transport->lost(world_.members.at(0)) || fs::exists(folder_ / kManifestName, ignored)) return;
    fs::remove(folder_ / worker_file_name(world_.rank()), ignored);
    fs::remove(folder_, ignored);  // unless others' files are there
  }

  DecentralizedDataParallel& model_;
  const engine::WorldParts& world_;
  const SaveOptions& options_;
  const fs::path folder_;
  const std::string run_;
  const std::string name_;
};

}  // namespace

fs::path save_checkpoint(DecentralizedDataParallel& model, const SaveOptions& options) {
  return Save(model, options).run();
}

}  // namespace kith::train
