// A checkpoint of n workers goes on with m.
#include <mutex>

#include <gmock/gmock.h>

#include "kith/train/checkpoint.h"
#include "tests/train/normalised.h"

namespace kith::train {
namespace {

using namespace testing;
using support::Worker;
using ::testing::Contains;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class KeepingLog final : public Log {
 public:
  void write(LogLevel level, std::string_view line) override {
    const std::lock_guard lock(mutex_);
    if (level == LogLevel::warning) lines_.emplace_back(line);
  }
  std::vector<std::string> lines() const { return lines_; }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

void save_with(int workers, const Options& options, const fs::path& root) {
  support::run_threads(workers, [&](Worker& worker) {
    TestWorld here(worker);
    Normalised network;
    DecentralizedDataParallel model(network.ptr(), here.world, options);
    train_normalised(model, network, 5);
    const std::string position = cat("worker ", worker.rank);
    save_checkpoint(model, {root, 2, std::as_bytes(std::span(position))});
    return std::string();
  });
}

std::vector<WorkerFile> files_of(const fs::path& checkpoint) {
  const Manifest manifest = verify_checkpoint(checkpoint);
  std::vector<WorkerFile> files;
  for (int rank = 0; rank < manifest.workers(); ++rank)
    files.push_back(read_worker_file(checkpoint, manifest, rank));
  return files;
}

template <class T>
std::vector<T> values(const WorkerFile& file, const std::string& name) {
  const auto bytes = file.tensor(name).bytes;
  std::vector<T> result(bytes.size() / sizeof(T));
  std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

// The mean over the files, summed in rank order in double.
std::vector<float> mean(const std::vector<WorkerFile>& files, const std::string& name) {
  std::vector<double> sum(values<float>(files[0], name).size());
  for (const WorkerFile& file : files) {
    const std::vector<float> own = values<float>(file, name);
    for (std::size_t k = 0; k < sum.size(); ++k)
      sum[k] += static_cast<double>(own[k]);
  }
  std::vector<float> result;
  for (const double number : sum)
    result.push_back(static_cast<float>(number / static_cast<double>(files.size())));
  return result;
}

// Goes on with `workers` from `checkpoint`, saves at once, trains on; returns what rank 0 was told.
std::vector<std::string> go_on(int workers, Options options, const fs::path& checkpoint,
                               const fs::path& again) {
  KeepingLog log;
  options.resume_from = checkpoint;
  support::run_threads(workers, [&](Worker& worker) {
    TestWorld here(worker);
    here.world.log = &log;
    Normalised network;
    DecentralizedDataParallel model(network.ptr(), here.world, options);
    EXPECT_EQ(model.steps(), 5);
    EXPECT_EQ(model.resumed()->workers, 4);
    const auto& position = model.resumed()->position;
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(position.data()), position.size()), "worker 0");
    EXPECT_EQ(model.parameter_groups()[0].lr, 1e-2 / 5);
    save_checkpoint(model, {again});
    EXPECT_LT(model.consensus_distance(), 1e-6);
    train_normalised(model, network, 4);
    for (const double value : flatten(*network))
      EXPECT_TRUE(std::isfinite(value));
    return std::string();
  });
  return log.lines();
}

struct Change {
  Variant variant;
  std::vector<int> before, after;  // workers per node
  std::vector<std::string> means, zeros;
  std::size_t lines = 0;  // things that are not kept
};

TEST(OtherWorkers, BeginWithTheMeanOfModelsAndMoments) {
  const std::vector<std::string> adam{"exp_avg", "exp_avg_sq"};
  const std::vector<std::string> accumulated{"exp_avg", "exp_avg_sq", "accumulated"};
  for (const Change& c : {Change{{"awc", "adam", "ring"}, {4}, {2}, adam, {}, 4},
                          Change{{"awc", "adam", "exp"}, {4}, {6}, adam, {}, 4},
                          Change{{"awc", "accum-adamw", "aer"}, {2, 2}, {4, 2}, accumulated, {}, 4},
                          Change{{"atc", "sgd", "ring"}, {4}, {1}, {"momentum"}, {}, 4},
                          Change{{"dsgt", "adam", "ring"}, {4}, {3}, adam, {"tracker", "last_gradient"}, 5},
                          Change{{"sgp", "adam", "exp-directed"}, {4}, {2}, adam, {}, 5},
                          Change{{"allreduce", "adamw", "complete"}, {4}, {3}, adam, {}, 4}}) {
    SCOPED_TRACE(cat(c.variant.algorithm, ", ", c.variant.optimizer, " on ", c.variant.topology));
    const support::TempFolder folder;
    Options options = options_of(c.variant);
    options.stagger = true;
    options.nodes = graph::Shape(c.before).text();
    save_with(4, options, folder.path());
    const fs::path saved = checkpoint_path(folder.path(), 5);
    options.nodes = graph::Shape(c.after).text();
    const int workers = graph::Shape(c.after).workers();
    const std::vector<std::string> told = go_on(workers, options, saved, folder.path() / "again");

    const std::vector<WorkerFile> before = files_of(saved);
    const std::vector<WorkerFile> after = files_of(checkpoint_path(folder.path() / "again", 5));
    ASSERT_EQ(after.size(), static_cast<std::size_t>(workers));
    const Normalised network;
    for (const WorkerFile& file : after) {
      EXPECT_EQ(file.header.run, before[0].header.run) << "it is the same run";
      for (const auto& item : network->named_parameters()) {
        EXPECT_EQ(values<float>(file, "model." + item.key()), mean(before, "model." + item.key()));
        for (const std::string& state : c.means)
          EXPECT_EQ(values<float>(file, state + "." + item.key()), mean(before, state + "." + item.key()));
        for (const std::string& state : c.zeros)
          EXPECT_THAT(values<float>(file, state + "." + item.key()), ::testing::Each(0.0F)) << state;
        EXPECT_EQ(values<std::int64_t>(file, "steps." + item.key()), std::vector<std::int64_t>{5});
      }
      EXPECT_EQ(values<float>(file, "buffer.norm.running_var"), mean(before, "buffer.norm.running_var"));
      EXPECT_THAT(values<double>(file, "push_weight"), ::testing::Each(1.0));
    }
    EXPECT_EQ(told.size(), c.lines) << ::testing::PrintToString(told);
    for (const char* thing : {"own model", "own buffers", "random generators"})
      EXPECT_THAT(told, Contains(HasSubstr(thing)));
    for (const std::string& line : told)
      EXPECT_THAT(line, HasSubstr(cat("saved by 4 workers, goes on with ", workers)));
  }
}

TEST(OtherWorkers, AreRefusedWhenOneFileIsDamaged) {
  const support::TempFolder folder;
  save_with(4, options_of({"awc", "adam", "ring"}), folder.path());
  const fs::path saved = checkpoint_path(folder.path(), 5);
  fs::resize_file(saved / worker_file_name(3), 100);
  const auto messages = support::run_threads(2, [&](Worker& worker) {
    TestWorld here(worker);
    Normalised network;
    const std::vector<double> before = flatten(*network);
    Options options = options_of({"awc", "adam", "ring"});
    options.resume_from = saved;
    const std::string message =
        message_of([&] { DecentralizedDataParallel model(network.ptr(), here.world, options); });
    EXPECT_EQ(flatten(*network), before);
    return message;
  });
  for (const std::string& message : messages)
    EXPECT_THAT(message, HasSubstr("worker-3.safetensors"));
}

}  // namespace
}  // namespace kith::train
