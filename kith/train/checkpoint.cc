#include "kith/train/checkpoint.h"

#include <charconv>
#include <system_error>
#include <vector>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/state_names.h"
#include "kith/train/store_report.h"

namespace kith::train {
namespace {

namespace fs = std::filesystem;

std::string write_own(DecentralizedDataParallel& model, const fs::path& folder, const std::string& run,
                      std::span<const std::byte> position) {
  const engine::World& world = model.world();
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

FileDigest parse_digest(Rank rank, const std::string& text) {
  const std::vector<std::string> parts = split(text, ' ');
  FileDigest digest{worker_file_name(rank), 0, 0};
  const auto number = [&](const std::string& part) {
    std::uint64_t value = 0;
    std::from_chars(part.data(), part.data() + part.size(), value);
    return value;
  };
  digest.bytes = number(parts.at(0));
  digest.crc64 = number(parts.at(1));
  return digest;
}

}  // namespace

fs::path save_checkpoint(DecentralizedDataParallel& model, const SaveOptions& options) {
  const engine::World& world = model.world();
  const fs::path folder = checkpoint_path(options.root, model.steps());
  const std::string run = model.run_id();
  StoreReport reports(
      world, cat("checkpoint/", model.options().name, "/", model.steps(), "/", model.agreement_number()),
      model.options().patience);
  try {
    reports.run([&] { return write_own(model, folder, run, options.position); },
                [&](const std::vector<std::string>& digests) {
                  Manifest manifest{model.options().name, model.steps(), {}, model.engine().cut(), run};
                  for (Rank rank = 0; rank < world.size(); ++rank) {
                    manifest.files.push_back(parse_digest(rank, digests[static_cast<std::size_t>(rank)]));
                  }
                  write_manifest(folder, manifest);
                  prune_checkpoints(options.root, options.keep);
                });
  } catch (const Error&) {
    if (world.rank() == 0) remove_incomplete(folder);
    throw;
  }
  return folder;
}

}  // namespace kith::train
