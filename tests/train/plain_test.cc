// What needs no torch: curves of the learning rate, checkpoint files, agreement.
#include <cmath>
#include <fstream>
#include <numbers>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/log.h"
#include "kith/train/checkpoint_folder.h"
#include "kith/train/crc64.h"
#include "kith/train/learning_rate.h"
#include "kith/train/store_report.h"
#include "tests/support/worlds.h"

namespace kith::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

// ---- learning rate

TEST(LearningRate, WarmsUpAlongALineInEveryCurve) {
  for (const std::string& name : rate_curves()) {
    RateOptions o{.curve = name, .lr = 2, .warmup_steps = 10, .total_steps = 100};
    validate(o);
    EXPECT_DOUBLE_EQ(lr_at(o, 0), 0.02) << name;
    EXPECT_DOUBLE_EQ(lr_at(o, 5), 2 * (0.01 + 0.99 * 0.5)) << name;
  }
}

TEST(LearningRate, CosineEndsAtItsFraction) {
  const RateOptions o{
      .curve = "cosine", .lr = 2, .warmup_steps = 10, .total_steps = 110, .final_fraction = 0.1};
  EXPECT_DOUBLE_EQ(lr_at(o, 10), 2);
  EXPECT_NEAR(lr_at(o, 60), 2 * (0.1 + 0.9 * 0.5), 1e-15);
  EXPECT_NEAR(lr_at(o, 35), 2 * (0.1 + 0.45 * (1 + std::cos(std::numbers::pi / 4))), 1e-15);
  EXPECT_NEAR(lr_at(o, 110), 0.2, 1e-15);
  EXPECT_NEAR(lr_at(o, 5000), 0.2, 1e-15);
}

TEST(LearningRate, InverseSquareRootAndSteps) {
  const RateOptions root{.curve = "inverse-sqrt", .lr = 1, .warmup_steps = 4000};
  EXPECT_DOUBLE_EQ(lr_at(root, 15999), 0.5);
  const RateOptions stairs{.curve = "step", .lr = 1, .every = 30, .factor = 0.5};
  EXPECT_DOUBLE_EQ(lr_at(stairs, 29), 1);
  EXPECT_DOUBLE_EQ(lr_at(stairs, 30), 0.5);
  EXPECT_DOUBLE_EQ(lr_at(stairs, 95), 0.125);
  EXPECT_DOUBLE_EQ(lr_at(RateOptions{.lr = 3}, 12345), 3);
}

TEST(LearningRate, NamesWhatIsWrong) {
  EXPECT_THAT(message_of([] { validate(RateOptions{.curve = "cosin"}); }),
              AllOf(HasSubstr("cosin"), HasSubstr("cosine")));
  EXPECT_THAT(message_of([] { validate(RateOptions{.lr = -1}); }), HasSubstr("rate.lr"));
  EXPECT_THAT(
      message_of([] { validate(RateOptions{.curve = "cosine", .warmup_steps = 9, .total_steps = 9}); }),
      HasSubstr("rate.total_steps"));
  EXPECT_THAT(message_of([] { validate(RateOptions{.factor = 0}); }), HasSubstr("rate.factor"));
}

// ---- checkpoint files

std::span<const std::byte> bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(Crc64, IsTheXzChecksum) {
  EXPECT_EQ(crc64(bytes("123456789")), 0x995dc9bbdf1939faULL);
  const std::string text = "a longer text, cut anywhere, has the checksum of the whole";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(crc64(bytes(text.substr(cut)), crc64(bytes(text.substr(0, cut)))), crc64(bytes(text)));
  }
}

void write_checkpoint(const fs::path& root, std::int64_t step, int workers) {
  const fs::path folder = checkpoint_path(root, step);
  fs::create_directories(folder);
  Manifest manifest{"model", step, {}};
  for (int rank = 0; rank < workers; ++rank) {
    const std::string text = cat("state of ", rank, " at ", step);
    const std::vector<NamedTensor> tensors{{"a", "U8", {static_cast<std::int64_t>(text.size())}, bytes(text)},
                                           {"empty", "F32", {0, 3}, {}}};
    manifest.files.push_back(
        write_worker_file(folder / worker_file_name(rank), {step, rank, workers, manifest.run}, tensors));
  }
  write_manifest(folder, manifest);
}

void flip_bit(const fs::path& file, std::size_t at) {
  std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
  out.seekg(static_cast<std::streamoff>(at));
  const int old = out.get();
  out.seekp(static_cast<std::streamoff>(at));
  out.put(static_cast<char>(old ^ 0x10));
}

TEST(CheckpointFolder, GivesBackWhatWasWritten) {
  const support::TempFolder folder;
  write_checkpoint(folder.path(), 120, 3);
  const Manifest manifest = verify_checkpoint(checkpoint_path(folder.path(), 120));
  EXPECT_EQ(manifest.step, 120);
  EXPECT_EQ(manifest.workers(), 3);
  const WorkerFile file = read_worker_file(checkpoint_path(folder.path(), 120), manifest, 2);
  const auto text = file.tensor("a").bytes;
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(text.data()), text.size()), "state of 2 at 120");
  EXPECT_EQ(file.tensor("empty").shape, (std::vector<std::int64_t>{0, 3}));
  EXPECT_THAT(message_of([&] { file.tensor("b"); }),
              AllOf(HasSubstr("'b'"), HasSubstr("worker-2.safetensors")));
}

TEST(CheckpointFolder, AnyDamagedByteRefusesTheWholeAndNamesThePreviousOne) {
  const support::TempFolder folder;
  write_checkpoint(folder.path(), 100, 2);
  write_checkpoint(folder.path(), 120, 2);
  const fs::path newest = checkpoint_path(folder.path(), 120);
  const fs::path file = newest / worker_file_name(1);
  const auto size = static_cast<std::size_t>(fs::file_size(file));
  for (std::size_t at = 0; at < size; ++at) {
    flip_bit(file, at);
    EXPECT_THAT(message_of([&] { verify_checkpoint(newest); }),
                AllOf(HasSubstr("refused"), HasSubstr("ckpt-00000100")))
        << "byte " << at;
    EXPECT_EQ(newest_valid_checkpoint(folder.path()), checkpoint_path(folder.path(), 100));
    flip_bit(file, at);
  }
  EXPECT_EQ(newest_valid_checkpoint(folder.path()), newest);
}

TEST(CheckpointFolder, TruncatedMissingAndMixedFilesAreRefused) {
  const support::TempFolder folder;
  const fs::path newest = checkpoint_path(folder.path(), 120);
  write_checkpoint(folder.path(), 120, 2);
  const auto size = fs::file_size(newest / worker_file_name(0));
  for (std::uintmax_t keep = 0; keep < size; keep += 7) {
    write_checkpoint(folder.path(), 120, 2);
    fs::resize_file(newest / worker_file_name(0), keep);
    EXPECT_THAT(message_of([&] { verify_checkpoint(newest); }),
                AllOf(HasSubstr("worker-0.safetensors"), HasSubstr("no older")));
  }
  write_checkpoint(folder.path(), 120, 2);
  fs::remove(newest / worker_file_name(1));
  EXPECT_THAT(message_of([&] { verify_checkpoint(newest); }), HasSubstr("worker-1.safetensors"));

  write_checkpoint(folder.path(), 120, 2);
  write_checkpoint(folder.path(), 110, 2);
  fs::copy_file(checkpoint_path(folder.path(), 110) / worker_file_name(1), newest / worker_file_name(1),
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(message_of([&] { verify_checkpoint(newest); }),
              AllOf(HasSubstr("manifest"), HasSubstr("ckpt-00000110")));
}

TEST(CheckpointFolder, WithoutAManifestItIsNone) {
  const support::TempFolder folder;
  write_checkpoint(folder.path(), 7, 1);
  const fs::path path = checkpoint_path(folder.path(), 7);
  fs::remove(path / "manifest.json");
  EXPECT_THAT(message_of([&] { verify_checkpoint(path); }), HasSubstr("manifest"));
  EXPECT_TRUE(list_checkpoints(folder.path()).empty());
  write_checkpoint(folder.path(), 7, 1);
  std::ofstream(path / "manifest.json") << "{\"format\": \"kith-checkpoint\", \"version\": 99}";
  EXPECT_THAT(message_of([&] { verify_checkpoint(path); }), HasSubstr("version 99"));
  std::ofstream(path / "manifest.json") << "{\"format\": \"kith-checkpoint\", \"version\": 1}";
  EXPECT_THAT(message_of([&] { verify_checkpoint(path); }), HasSubstr("version 1 is not"));
  std::ofstream(path / "manifest.json") << "{\"format\"";
  EXPECT_THAT(message_of([&] { verify_checkpoint(path); }), HasSubstr("manifest.json"));
}

TEST(CheckpointFolder, PruningKeepsTheNewest) {
  const support::TempFolder folder;
  for (std::int64_t step : {10, 20, 30, 40})
    write_checkpoint(folder.path(), step, 1);
  fs::remove(checkpoint_path(folder.path(), 20) / "manifest.json");  // never completed
  fs::create_directories(checkpoint_path(folder.path(), 50));        // being written
  prune_checkpoints(folder.path(), 0);
  EXPECT_EQ(list_checkpoints(folder.path()).size(), 3u);
  prune_checkpoints(folder.path(), 2);
  EXPECT_EQ(list_checkpoints(folder.path()),
            (std::vector{checkpoint_path(folder.path(), 40), checkpoint_path(folder.path(), 30)}));
  EXPECT_FALSE(fs::exists(checkpoint_path(folder.path(), 20)));
  EXPECT_TRUE(fs::exists(checkpoint_path(folder.path(), 50)));
}

// ---- agreement

TEST(StoreReport, FailsOnEverybodyWhenOnePartFails) {
  for (int failing : {0, 2}) {
    const auto reports = support::run_threads(3, [failing](support::Worker& worker) {
      SteadyClock clock;
      NullLog log;
      const engine::WorldParts world{
          &worker.transport, &worker.store, Members::first(3), &clock, &log, nullptr};
      return message_of([&] {
        StoreReport(world, "x", std::chrono::seconds(20))
            .run(
                [&]() -> std::string {
                  if (worker.rank == failing) throw Error("disk full");
                  return cat(worker.rank);
                },
                [](const std::vector<std::string>&) { return ""; });
      });
    });
    for (const std::string& report : reports)
      EXPECT_THAT(report, HasSubstr("disk full"));
  }
}

TEST(StoreReport, TellsEverybodyWhatRankZeroMadeOfItOrRefusesAlike) {
  support::run_threads(3, [](support::Worker& worker) {
    SteadyClock clock;
    NullLog log;
    const engine::WorldParts world{
        &worker.transport, &worker.store, Members::first(3), &clock, &log, nullptr};
    const auto run = [&](const char* name, const StoreReport::Finish& finish) {
      return StoreReport(world, name, std::chrono::seconds(20)).run([&] { return cat(worker.rank); }, finish);
    };
    EXPECT_EQ(run("good", [](const std::vector<std::string>& all) { return join(all); }), "0, 1, 2");
    EXPECT_THROW(run("refused", [](const auto&) -> std::string { throw InputError("bad input"); }),
                 InputError);
    return std::string();
  });
}

TEST(StoreReport, RankZeroGetsAllPartsAndALostWorkerIsNamedAtOnce) {
  const auto start = SteadyClock().now();
  const auto reports = support::run_threads(3, [](support::Worker& worker) {
    SteadyClock clock;
    NullLog log;
    const engine::WorldParts world{
        &worker.transport, &worker.store, Members::first(3), &clock, &log, nullptr};
    std::vector<std::string> parts;
    StoreReport(world, "x", std::chrono::seconds(20))
        .run([&] { return cat("p", worker.rank); },
             [&](const std::vector<std::string>& all) {
               parts = all;
               return "";
             });
    if (worker.rank == 0) {
      EXPECT_EQ(parts, (std::vector<std::string>{"p0", "p1", "p2"}));
    }
    if (worker.rank == 1) support::die(worker);
    return message_of([&] {
      StoreReport(world, "y", std::chrono::seconds(20))
          .run([] { return ""; }, [](const std::vector<std::string>&) { return ""; });
    });
  });
  EXPECT_THAT(reports[0], HasSubstr("worker 1 is gone"));
  EXPECT_THAT(reports[2], HasSubstr("worker 1 is gone"));
  EXPECT_LT(seconds(SteadyClock().now() - start), 10);
}

}  // namespace
}  // namespace kith::train
