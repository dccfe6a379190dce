// Checkpoints of workers that do not share a file system: saved in parts, collected, gone on with.
#include "kith/train/run/parts.h"

#include <fstream>

#include <gmock/gmock.h>

#include "kith/train/checkpoint.h"
#include "kith/train/run/collect_checkpoint.h"
#include "kith/train/run/move_files.h"
#include "tests/train/normalised.h"

namespace kith::train {
namespace {

using namespace testing;
using support::Worker;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
namespace fs = std::filesystem;

const Variant kVariant{"awc", "accum-adamw", "ring"};

// The machines of a test: each has a folder of its own.
class Machines {
 public:
  RunFolder run(int machine) const { return RunFolder::at(folder_.path() / cat("machine-", machine)); }
  fs::path checkpoint(int machine, std::int64_t step) const {
    return checkpoint_path(run(machine).checkpoints(), step);
  }
  std::vector<std::string> files(int machine, std::int64_t step) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(checkpoint(machine, step)))
      names.push_back(entry.path().filename().string());
    return names;
  }

 private:
  const support::TempFolder folder_{};
};

// Which machine each worker is on.
using Placement = std::vector<int>;

// A part has the number of its first worker.
int part_on(const Placement& placement, int machine) {
  return static_cast<int>(std::ranges::find(placement, machine) - placement.begin());
}

Parts parts_on(const Machines& machines, const Placement& placement) {
  std::vector<std::string> reports;
  for (const int machine : placement)
    reports.push_back(
        encode(PartReport{part_on(placement, machine), cat("host", machine), machines.run(machine).path()}));
  return parts_of(reports);
}

// Trains, saving after these steps; returns everybody's model after `last`.
std::vector<std::string> train_and_save(const Machines& machines, const Placement& placement,
                                        const std::vector<std::int64_t>& saves, std::int64_t last) {
  return support::run_threads(static_cast<int>(placement.size()), [&](Worker& worker) {
    TestWorld here(worker);
    Normalised network;
    DecentralizedDataParallel model(network.ptr(), here.world, options_of(kVariant));
    const int machine = placement[static_cast<std::size_t>(worker.rank)];
    for (const std::int64_t step : saves) {
      train_normalised(model, network, static_cast<int>(step - model.steps()));
      save_checkpoint(
          model,
          {.root = machines.run(machine).checkpoints(), .keep = 2, .part = part_on(placement, machine)});
    }
    train_normalised(model, network, static_cast<int>(last - model.steps()));
    return everything(*network);
  });
}

// Goes on from the newest checkpoint to step `last`; what each worker ends with, or what it was told.
std::vector<std::string> go_on(const Machines& machines, const Placement& placement, std::int64_t last) {
  const Parts parts = parts_on(machines, placement);
  return support::run_threads(static_cast<int>(placement.size()), [&](Worker& worker) {
    TestWorld here(worker);
    const RunFolder folder = machines.run(placement[static_cast<std::size_t>(worker.rank)]);
    Options options = options_of(kVariant);
    try {
      options.resume_from = collect_checkpoint({here.world, folder, parts, [](const Manifest&) {}});
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    Normalised network;
    DecentralizedDataParallel model(network.ptr(), here.world, options);
    train_normalised(model, network, static_cast<int>(last - model.steps()));
    return everything(*network);
  });
}

std::string manifest_on(const Machines& machines, int machine, std::int64_t step) {
  return read_plain_file(machines.checkpoint(machine, step) / kManifestName, 1 << 20);
}

TEST(Parts, EachMachineHasItsFilesAndTheManifestAndKeepsTheNewest) {
  const Machines machines;
  train_and_save(machines, {0, 0, 1, 2}, {2, 4, 6}, 6);
  EXPECT_THAT(machines.files(0, 6),
              UnorderedElementsAre("worker-0.safetensors", "worker-1.safetensors", "manifest.json"));
  EXPECT_THAT(machines.files(1, 6), UnorderedElementsAre("worker-2.safetensors", "manifest.json"));
  EXPECT_THAT(machines.files(2, 6), UnorderedElementsAre("worker-3.safetensors", "manifest.json"));
  const Manifest manifest = read_manifest(machines.checkpoint(0, 6));
  EXPECT_FALSE(manifest.files[3].host.empty());
  EXPECT_EQ(manifest.files[3].folder, machines.run(2).checkpoints());
  for (const int machine : {0, 1, 2}) {
    EXPECT_EQ(manifest_on(machines, machine, 6), manifest_on(machines, 0, 6));
    EXPECT_TRUE(fs::exists(machines.checkpoint(machine, 4)));
    EXPECT_FALSE(fs::exists(machines.checkpoint(machine, 2)));
  }
  EXPECT_THAT(
      message_of([&] { verify_checkpoint(machines.checkpoint(0, 6)); }),
      AllOf(HasSubstr("worker 2's file is not here"), HasSubstr(machines.run(1).checkpoints().string())));
}

TEST(Parts, OfOneFolderHaveAManifestLikeBefore) {
  const Machines machines;
  train_and_save(machines, {0, 0}, {2}, 2);
  EXPECT_EQ(manifest_on(machines, 0, 2).find("host"), std::string::npos);
}

TEST(Parts, InAManifestArePlainTexts) {
  Manifest manifest{"model", 3, {{"worker-0.safetensors", 1, 2, "a7", "/runs \xff"}}};
  const std::string text = manifest_text(manifest);
  EXPECT_EQ(parse_manifest(text, "here").files[0].host, "a7");
  const auto at = text.find("\"a7\"");
  std::string changed = text;
  changed.replace(at, 4, "[7]");
  EXPECT_THAT(message_of([&] { parse_manifest(changed, "here"); }),
              AllOf(HasSubstr("here"), HasSubstr("host")));
}

TEST(Parts, GoOnBitForBitWhereverTheWorkersAre) {
  for (const Placement& now : {Placement{0, 0, 1, 2},     // as before
                               Placement{2, 0, 1, 0},     // others on the same machines
                               Placement{7, 7, 2, 8}}) {  // two machines are gone, two are new
    const Machines machines;
    const auto whole = train_and_save(machines, {0, 0, 1, 2}, {3, 5}, 9);
    const bool gone = now[0] == 7;
    if (gone) {
      // What machines 0 and 1 had is on a disk that a new one has.
      fs::rename(machines.run(0).path(), machines.run(7).path());
      fs::rename(machines.run(1).path(), machines.run(8).path());
    }
    EXPECT_EQ(go_on(machines, now, 9), whole);
  }
}

TEST(Parts, OfAnotherNumberOfWorkersAllGetAllFiles) {
  const Machines machines, together;
  train_and_save(machines, {0, 0, 1, 2}, {5}, 5);
  train_and_save(together, {0, 0, 0, 0}, {5}, 5);
  EXPECT_THAT(go_on(machines, {0, 1}, 8), Each(HasSubstr("worker 3's file"))) << "machine 2 has it";
  EXPECT_EQ(go_on(machines, {0, 1, 2}, 8), go_on(together, {0, 0, 0}, 8));
  for (const int machine : {0, 1, 2})
    EXPECT_EQ(machines.files(machine, 5).size(), 5u);
  EXPECT_EQ(go_on(machines, {1, 2}, 8), go_on(together, {0, 0}, 8)) << "now each machine has them all";
}

TEST(Parts, WithoutAFileAreRefusedOnAllAndTheOlderCheckpointIsNamed) {
  const Machines machines;
  train_and_save(machines, {0, 1, 2}, {3, 5}, 5);
  fs::remove(machines.checkpoint(2, 5) / "worker-2.safetensors");
  EXPECT_THAT(go_on(machines, {0, 1, 2}, 8),
              Each(AllOf(HasSubstr("worker 2's file worker-2.safetensors"), HasSubstr("saved on"),
                         HasSubstr(machines.run(2).checkpoints().string()), HasSubstr("ckpt-00000003"))));
}

TEST(Parts, WithADamagedFileAreRefusedOnAll) {
  const Machines machines;
  train_and_save(machines, {0, 1}, {3}, 3);
  const fs::path file = machines.checkpoint(1, 3) / "worker-1.safetensors";
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekp(-1, std::ios::end);
  bytes.put('\x55');
  bytes.close();
  EXPECT_THAT(go_on(machines, {0, 1}, 8),
              Each(AllOf(HasSubstr("worker 1's file"), HasSubstr("another, or damaged"),
                         HasSubstr("no older one is complete"))));
}

TEST(Parts, OfASaveThatDiedBeforeAllManifestsAreComplete) {
  const Machines machines;
  const auto whole = train_and_save(machines, {0, 1, 2}, {5}, 9);
  for (const int machine : {0, 2})
    fs::remove(machines.checkpoint(machine, 5) / kManifestName);
  EXPECT_EQ(go_on(machines, {0, 1, 2}, 9), whole);
  EXPECT_EQ(manifest_on(machines, 0, 5), manifest_on(machines, 1, 5));
}

TEST(Parts, OfTwoRunsAreRefused) {
  const Machines machines, others;
  train_and_save(machines, {0, 1}, {5}, 5);
  train_and_save(others, {0, 1}, {5}, 5);
  fs::remove_all(machines.run(1).path());
  fs::rename(others.run(1).path(), machines.run(1).path());
  EXPECT_THAT(go_on(machines, {0, 1}, 8), Each(AllOf(HasSubstr("another run"), HasSubstr("host1"))));
}

// Files from worker 0 to worker 1, moved by both: what each says went wrong.
std::vector<std::string> move_between(const Machines& machines, const std::vector<Move>& moves) {
  return support::run_threads(2, [&](Worker& worker) {
    TestWorld here(worker);
    return move_files(
        here.world, moves,
        {.name = "moves", .folder = machines.run(worker.rank).path(), .deadline = support::in_time()});
  });
}

TEST(MovedFiles, OfAnySizeArriveWhole) {
  const Machines machines;
  std::string large(std::size_t{65} << 20, '\0');  // more than one piece
  for (std::size_t k = 0; k < large.size(); k += 4096)
    large[k] = static_cast<char>(k >> 12);
  fs::create_directories(machines.run(0).path() / "deep");
  std::ofstream(machines.run(0).path() / "deep/large", std::ios::binary) << large;
  std::ofstream(machines.run(0).path() / "empty");
  EXPECT_THAT(move_between(machines, {{"deep/large", large.size(), 0, 1}, {"empty", 0, 0, 1}}), Each(""));
  EXPECT_EQ(read_plain_file(machines.run(1).path() / "deep/large", large.size()), large);
  EXPECT_EQ(fs::file_size(machines.run(1).path() / "empty"), 0u);
}

TEST(MovedFiles, ThatCannotBeReadLeaveNothingAndDoNotStopTheOthers) {
  const Machines machines;
  fs::create_directories(machines.run(0).path());
  std::ofstream(machines.run(0).path() / "b") << "bytes";
  const auto problems = move_between(machines, {{"a", 3, 0, 1}, {"b", 5, 0, 1}});
  EXPECT_THAT(problems[0], HasSubstr("cannot be read"));
  EXPECT_THAT(problems[1], HasSubstr("has not come whole from worker 0"));
  EXPECT_FALSE(fs::exists(machines.run(1).path() / "a"));
  EXPECT_EQ(read_plain_file(machines.run(1).path() / "b", 5), "bytes");
}

TEST(Parts, AreMadeByTheFirstWorkerThatMarksAFolder) {
  const support::TempFolder folder;
  const std::string mark = draw_mark();
  EXPECT_EQ(marked_part(folder.path(), mark), std::nullopt);
  EXPECT_EQ(mark_part(folder.path(), mark, 3), 3);
  EXPECT_EQ(mark_part(folder.path(), mark, 5), 3);
  EXPECT_EQ(marked_part(folder.path(), mark), 3);
  EXPECT_EQ(mark_part(folder.path(), draw_mark(), 5), 5) << "another start of a run";
  remove_marks(folder.path());
  EXPECT_EQ(marked_part(folder.path(), mark), std::nullopt);
  EXPECT_THAT(message_of([&] { mark_part(folder.path() / "nowhere", mark, 1); }),
              HasSubstr("cannot be made"));
}

TEST(Parts, AreTheWorkersOfTheSameNumber) {
  const Parts parts = parts_of({"0\na\n/r", "2\nb\n/r", "2\nb\n/r", "0\na\n/r"});
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].workers, (std::vector{0, 3}));
  EXPECT_EQ(part_of(parts, 1).number, 2);
  EXPECT_EQ(part_of(parts, 1).host, "b");
  EXPECT_EQ(encode(decode_parts(encode(parts))), encode(parts));
  EXPECT_EQ(parts_text(parts), "2 parts: /r on a (workers 0 and 3), /r on b (workers 1 and 2)");
}

}  // namespace
}  // namespace kith::train
