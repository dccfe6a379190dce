#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "kith/train/config/job.h"
#include "kith/train/run/run_lock.h"

namespace kith::train {

// What a run leaves behind:
//   config.toml               every setting, as resolved
//   lock                      who works in it (run_lock.h)
//   summary.json              how it ended
//   checkpoints/ckpt-STEP/    to go on from
//   model.pt, model-state.pt, model.safetensors
//                             the averaged model, once the run is finished
//   worker-K/metrics.jsonl    one line per step and per evaluation
//   worker-K/trace.json       Chrome trace, on request; trace.json holds all workers'
class RunFolder {
 public:
  // Makes a folder that holds nothing. `path` empty: FOLDER/NAME-YYYYMMDD-HHMMSS of the job's output section.
  // InputError when it already holds something: a run is never overwritten.
  static std::filesystem::path reserve(const Job& job, const std::filesystem::path& path);
  // A new run, in a folder reserved for it. Locked for as long as a copy of the result lives.
  static RunFolder create(const Job& job, const std::filesystem::path& path);
  // One that exists. InputError when it is none.
  static RunFolder open(const std::filesystem::path& path);
  // The same, locked like a new one. InputError names who works in it.
  static RunFolder take(const std::filesystem::path& path);
  // The same on a machine that may have nothing of the run yet (Note [Parts of a run] in parts.h): a folder
  // that is not there, or empty, becomes the job's.
  static RunFolder take_part(const Job& job, const std::filesystem::path& path);
  // One that another worker makes or takes.
  static RunFolder at(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path config() const { return path_ / "config.toml"; }
  std::filesystem::path summary() const { return path_ / "summary.json"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path model() const { return path_ / "model"; }
  std::filesystem::path trace() const { return path_ / "trace.json"; }
  std::filesystem::path metrics(int worker) const { return of(worker) / "metrics.jsonl"; }
  std::filesystem::path trace(int worker) const { return of(worker) / "trace.json"; }

  // Whether the exported model is there.
  bool has_model() const;

  // Replaces the file as a whole, or leaves the old one.
  void write_config(const Job& job) const;
  // For a folder that was removed while the run went on.
  void restore_config(const Job& job) const;
  void write_summary(std::string_view json) const;

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path of(int worker) const { return path_ / ("worker-" + std::to_string(worker)); }

  std::filesystem::path path_;
  std::shared_ptr<const RunLock> lock_;  // null: somebody else's business
};

}  // namespace kith::train
