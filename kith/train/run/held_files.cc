#include "kith/train/run/held_files.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::train {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostHeld = 3;
constexpr std::uint64_t kMostManifest = std::uint64_t{1} << 30;

std::string manifest_in(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder / kManifestName, ignored)) return {};
  return read_plain_file(folder / kManifestName, kMostManifest);
}

// Of workers, in the order of their names.
std::vector<fs::path> worker_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("worker-") && name.ends_with(".safetensors")) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

// The worker of a folder "worker-3".
std::optional<int> worker_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  constexpr std::string_view kPrefix = "worker-";
  int worker = 0;
  if (!name.starts_with(kPrefix)) return {};
  const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), worker);
  if (error != std::errc{} || end != name.data() + name.size()) return {};
  return worker;
}

bool same_bytes(const FileDigest& a, const FileDigest& b) {
  return a.bytes == b.bytes && a.crc64 == b.crc64;
}

std::string place_of_part(const Part& part) {
  return cat(part.folder.string(), " on ", part.host);
}

// Distinct texts, in the order of the parts.
template <class Held>
std::vector<std::string> manifests_of(const std::vector<const Held*>& held) {
  std::vector<std::string> texts;
  for (const Held* one : held) {
    if (one != nullptr && !one->manifest.empty() && std::ranges::find(texts, one->manifest) == texts.end())
      texts.push_back(one->manifest);
  }
  return texts;
}

const HeldCheckpoint* at_step(const HeldCheckpoints& held, std::int64_t step) {
  const auto found = std::ranges::find(held, step, &HeldCheckpoint::step);
  return found == held.end() ? nullptr : &*found;
}

// As far as names and sizes tell.
bool looks_complete(const std::vector<HeldCheckpoints>& held, std::int64_t step) {
  std::vector<const HeldCheckpoint*> here;
  for (const HeldCheckpoints& one : held)
    here.push_back(at_step(one, step));
  const auto has = [&](const FileDigest& wanted) {
    return std::ranges::any_of(here, [&](const HeldCheckpoint* one) {
      if (one == nullptr) return false;
      const auto file = one->files.find(wanted.name);
      return file != one->files.end() && file->second == wanted.bytes;
    });
  };
  return std::ranges::any_of(manifests_of(here), [&](const std::string& text) {
    return std::ranges::all_of(parse_manifest(text, cat("ckpt of step ", step)).files, has);
  });
}

std::string older_text(const std::vector<HeldCheckpoints>& held, std::int64_t step) {
  std::set<std::int64_t, std::greater<>> steps;
  for (const HeldCheckpoints& one : held)
    for (const HeldCheckpoint& checkpoint : one)
      if (checkpoint.step < step) steps.insert(checkpoint.step);
  for (const std::int64_t older : steps) {
    if (looks_complete(held, older))
      return cat("the newest older one that is complete is ", checkpoint_path({}, older).string(),
                 ": remove the newer one in every part to go on from it");
  }
  return "no older one is complete either";
}

// The first part that has the file as the manifest says.
const Part* holder_of(const Parts& parts, const std::vector<HeldFiles>& files, const FileDigest& wanted) {
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const auto found = files[p].files.find(wanted.name);
    if (found != files[p].files.end() && same_bytes(found->second, wanted)) return &parts[p];
  }
  return nullptr;
}

std::string missing_text(const Parts& parts, const std::vector<HeldFiles>& files, const FileDigest& wanted,
                         std::size_t rank) {
  std::string damaged;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    if (files[p].files.contains(wanted.name))
      damaged = cat("; the one in ", place_of_part(parts[p]), " is another, or damaged");
  }
  const std::string saved =
      wanted.host.empty() ? std::string() : cat("; it was saved on ", wanted.host, ", in ", wanted.folder);
  return cat("checkpoint refused: worker ", rank, "'s file ", wanted.name, " is on no machine of this run",
             saved, damaged);
}

// What the workers of `part` read of a checkpoint of `saved` workers.
std::vector<std::size_t> ranks_needed(const Part& part, std::size_t saved, std::size_t workers) {
  std::vector<std::size_t> ranks;
  if (saved == workers) {
    ranks.assign(part.workers.begin(), part.workers.end());
  } else {
    for (std::size_t rank = 0; rank < saved; ++rank)
      ranks.push_back(rank);
  }
  return ranks;
}

void plan_metrics(Collected& plan, const Parts& parts, const std::vector<HeldFiles>& files) {
  const auto bytes_in = [&](std::size_t part, int worker) {
    const auto found = files[part].metrics.find(worker);
    return found == files[part].metrics.end() ? std::uint64_t{0} : found->second;
  };
  for (std::size_t p = 0; p < parts.size(); ++p) {
    for (const int worker : parts[p].workers) {
      std::size_t most = p;
      for (std::size_t other = 0; other < parts.size(); ++other)
        if (bytes_in(other, worker) > bytes_in(most, worker)) most = other;
      if (most != p)
        plan.moves.push_back({cat("worker-", worker, "/metrics.jsonl"), bytes_in(most, worker),
                              parts[most].number, parts[p].number});
    }
  }
}

}  // namespace

HeldCheckpoints held_in(const fs::path& root) {
  HeldCheckpoints held;
  for (const std::int64_t step : steps_begun(root)) {
    if (held.size() == kMostHeld) break;
    const fs::path folder = checkpoint_path(root, step);
    HeldCheckpoint checkpoint{step, manifest_in(folder), {}};
    std::error_code problem;
    for (const fs::path& file : worker_files(folder))
      checkpoint.files[file.filename().string()] = fs::file_size(file, problem);
    held.push_back(std::move(checkpoint));
  }
  return held;
}

std::int64_t newest_step(const Parts& parts, const std::vector<HeldCheckpoints>& held) {
  std::int64_t newest = -1;
  std::string run, first;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    for (const HeldCheckpoint& checkpoint : held[p]) {
      if (checkpoint.manifest.empty()) continue;
      const std::string place = place_of_part(parts[p]);
      const std::string of = parse_manifest(checkpoint.manifest, place).run;
      if (run.empty()) {
        run = of;
        first = place;
      } else if (of != run) {
        throw InputError(cat("holds checkpoints of another run, ", of, ", than ", first, ", ", run), place,
                         "move that folder away, or name the right one");
      }
      newest = std::max(newest, checkpoint.step);
    }
  }
  if (newest < 0) {
    throw InputError("there is no checkpoint to go on from", parts_text(parts), "start the run anew");
  }
  return newest;
}

HeldFiles files_in(const RunFolder& folder, std::int64_t step) {
  const fs::path checkpoint = checkpoint_path(folder.checkpoints(), step);
  HeldFiles held{manifest_in(checkpoint), {}, {}};
  for (const fs::path& file : worker_files(checkpoint)) {
    try {
      held.files[file.filename().string()] = digest_of_file(file);
    } catch (const InputError&) {
      // Somebody else may have it: it counts as missing here.
    }
  }
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(folder.path(), problem)) {
    const auto worker = worker_of(entry.path());
    if (worker && fs::is_regular_file(folder.metrics(*worker), problem))
      held.metrics[*worker] = fs::file_size(folder.metrics(*worker), problem);
  }
  return held;
}

Collected plan_moves(const Parts& parts, const std::vector<HeldFiles>& files,
                     const std::vector<HeldCheckpoints>& held, std::int64_t step) {
  std::vector<const HeldFiles*> all;
  std::size_t workers = 0;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    all.push_back(&files[p]);
    workers += parts[p].workers.size();
  }
  const std::string place = checkpoint_path({}, step).string();
  std::string problem = "checkpoint refused: its manifest is gone";
  for (const std::string& text : manifests_of(all)) {
    const Manifest manifest = parse_manifest(text, place);
    Collected plan{step, text, {}};
    std::string missing;
    for (std::size_t rank = 0; rank < manifest.files.size() && missing.empty(); ++rank) {
      if (holder_of(parts, files, manifest.files[rank]) == nullptr)
        missing = missing_text(parts, files, manifest.files[rank], rank);
    }
    if (!missing.empty()) {
      problem = missing;
      continue;
    }
    for (std::size_t p = 0; p < parts.size(); ++p) {
      for (const std::size_t rank : ranks_needed(parts[p], manifest.files.size(), workers)) {
        const FileDigest& wanted = manifest.files[rank];
        const auto own = files[p].files.find(wanted.name);
        if (own != files[p].files.end() && same_bytes(own->second, wanted)) continue;
        plan.moves.push_back({(fs::path("checkpoints") / place / wanted.name).string(), wanted.bytes,
                              holder_of(parts, files, wanted)->number, parts[p].number});
      }
    }
    plan_metrics(plan, parts, files);
    return plan;
  }
  throw InputError(problem, place, older_text(held, step));
}

}  // namespace kith::train
