// Saving, resuming bit for bit, refusing as a whole, and exporting.
#include "kith/train/checkpoint.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <torch/serialize.h>

#include "kith/train/export.h"
#include "tests/train/normalised.h"

namespace kith::train {
namespace {

using namespace testing;
using support::Worker;
using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

const std::string kPositionText = "17 samples into epoch 2";

TEST(Checkpoint, ResumeIsBitIdenticalToNeverHavingStopped) {
  for (const Variant& v : {Variant{"awc", "accum-adamw", "ring"},
                           Variant{"awc", "adam", "exp", engine::Layout::staged, DType::bf16},
                           Variant{"awc", "adam", "aer", engine::Layout::staged, DType::i8},
                           Variant{"awc", "sgd", "ring", engine::Layout::automatic, {}, 3},
                           Variant{"atc", "accum-adam", "aer"}, Variant{"dsgt", "sgd", "ring"},
                           Variant{"cd-adam", "adam", "ring", engine::Layout::automatic, {}, 1, "sign"},
                           Variant{"awc", "adamw", "exp", engine::Layout::automatic, {}, 2, "qsgd 4"},
                           Variant{"sgp", "adam", "random-directed"},
                           Variant{"allreduce", "adamw", "complete"}, Variant{"none", "adam", "complete"}}) {
    const support::TempFolder folder;
    const auto whole = support::run_threads(4, [&](Worker& worker) {
      TestWorld here(worker);
      Normalised network;
      DecentralizedDataParallel model(network.ptr(), here.world, options_of(v));
      train_normalised(model, network, 7);
      const SaveOptions save{folder.path(), 2, std::as_bytes(std::span(kPositionText))};
      EXPECT_EQ(save_checkpoint(model, save), checkpoint_path(folder.path(), 7));
      train_normalised(model, network, 10);
      return everything(*network);
    });
    const auto resumed = support::run_threads(4, [&](Worker& worker) {
      TestWorld here(worker);
      Normalised network;
      assign(*network, random_values(flatten(*network).size(), 1234));  // whatever it held before
      Options options = options_of(v);
      options.resume_from = checkpoint_path(folder.path(), 7);
      DecentralizedDataParallel model(network.ptr(), here.world, options);
      EXPECT_EQ(model.steps(), 7);
      EXPECT_EQ(model.resumed()->step, 7);
      const auto& position = model.resumed()->position;
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(position.data()), position.size()), kPositionText);
      EXPECT_EQ(model.parameter_groups()[0].lr, 1e-2 / 7);
      train_normalised(model, network, 10);
      return everything(*network);
    });
    EXPECT_EQ(whole, resumed) << v.algorithm << ", " << v.optimizer << ", " << v.topology;
  }
}

// The cut of a model into buckets depends on topology, nodes and machines; what was saved is taken over all
// the same.
TEST(Checkpoint, AnotherTopologyOnOtherNodesResumesFromIt) {
  const support::TempFolder folder;
  const auto save = [&](Worker& worker) {
    TestWorld here(worker);
    Normalised network;
    Options options = options_of({"awc", "accum-adamw", "aer"});
    options.stagger = true;
    options.nodes = "1,1,1,1";
    DecentralizedDataParallel model(network.ptr(), here.world, options);
    train_normalised(model, network, 5);
    save_checkpoint(model, {folder.path()});
    return everything(*network);
  };
  const auto saved = support::run_threads(4, save, /*machines=*/{0, 1, 2, 3});
  for (const Variant& v : {Variant{"awc", "accum-adamw", "exp"},
                           Variant{"awc", "accum-adamw", "complete", engine::Layout::staged, DType::bf16},
                           Variant{"awc", "accum-adamw", "aer", engine::Layout::staged, DType::i8}}) {
    for (const std::size_t bucket_bytes : {std::size_t{64}, std::size_t{1} << 20}) {
      const auto resumed = support::run_threads(4, [&](Worker& worker) {
        TestWorld here(worker);
        Normalised network;
        Options options = options_of(v);
        options.stagger = true;
        options.bucket_bytes = bucket_bytes;
        options.resume_from = checkpoint_path(folder.path(), 5);
        DecentralizedDataParallel model(network.ptr(), here.world, options);
        EXPECT_EQ(model.steps(), 5);
        const std::string taken = everything(*network);
        train_normalised(model, network, 8);
        return taken;
      });
      EXPECT_EQ(resumed, saved) << v.topology << ", buckets of " << bucket_bytes;
    }
  }
}

TEST(Checkpoint, HoldsTheRandomGenerator) {
  const support::TempFolder folder;
  Options options = options_for("awc", "adam");
  torch::manual_seed(5);
  std::string whole;
  {
    Alone alone;
    Normalised network;
    DecentralizedDataParallel model(network.ptr(), alone.world(), options);
    train_normalised(model, network, 3, 0.5);
    save_checkpoint(model, {folder.path()});
    train_normalised(model, network, 3, 0.5);
    whole = everything(*network);
  }
  torch::manual_seed(99);
  Alone alone;
  Normalised network;
  options.resume_from = checkpoint_path(folder.path(), 3);
  DecentralizedDataParallel model(network.ptr(), alone.world(), options);
  train_normalised(model, network, 3, 0.5);
  EXPECT_EQ(everything(*network), whole);
}

TEST(Checkpoint, AfterAnEditResumesToo) {
  const support::TempFolder folder;
  const auto run = [&](bool resumes) {
    Alone alone;
    Normalised network;
    Options options = options_for("awc", "adam");
    if (resumes) options.resume_from = checkpoint_path(folder.path(), 2);
    DecentralizedDataParallel model(network.ptr(), alone.world(), options);
    if (!resumes) {
      train_normalised(model, network, 2);
      {
        const auto guard = model.edit();
        const torch::NoGradGuard no_grad;
        network->first->weight.mul_(2);
      }
      save_checkpoint(model, {folder.path()});
    }
    train_normalised(model, network, 2);
    return everything(*network);
  };
  const std::string whole = run(false);
  EXPECT_EQ(run(true), whole);
}

void save_steps(const fs::path& root, int workers, std::initializer_list<int> steps, int keep = 2) {
  support::run_threads(workers, [&](Worker& worker) {
    TestWorld here(worker);
    Normalised network;
    DecentralizedDataParallel model(network.ptr(), here.world, options_for("awc", "adam"));
    for (int step : steps) {
      train_normalised(model, network, step - static_cast<int>(model.steps()));
      save_checkpoint(model, {root, keep});
    }
    return std::string();
  });
}

std::vector<std::string> refusals(const fs::path& folder, int workers, const Options& options) {
  return support::run_threads(workers, [&](Worker& worker) {
    TestWorld here(worker);
    Normalised network;
    const std::vector<double> before = flatten(*network);
    Options resuming = options;
    resuming.resume_from = folder;
    const std::string message =
        message_of([&] { DecentralizedDataParallel model(network.ptr(), here.world, resuming); });
    EXPECT_EQ(flatten(*network), before);  // nothing was taken
    return message;
  });
}

TEST(Checkpoint, OneDamagedFileIsRefusedByAllAndThePreviousOneIsOffered) {
  const support::TempFolder folder;
  save_steps(folder.path(), 3, {2, 4});
  const fs::path newest = checkpoint_path(folder.path(), 4);
  fs::resize_file(newest / worker_file_name(1), fs::file_size(newest / worker_file_name(1)) - 5);
  const auto messages = refusals(newest, 3, options_for("awc", "adam"));
  EXPECT_THAT(messages[1], AllOf(HasSubstr("worker-1.safetensors"), HasSubstr("ckpt-00000002")));
  for (int rank : {0, 2}) {
    EXPECT_THAT(messages[static_cast<std::size_t>(rank)],
                AllOf(HasSubstr("worker 1"), HasSubstr("ckpt-00000002")));
  }
}

TEST(Checkpoint, OfAnotherModelIsRefused) {
  const support::TempFolder folder;
  save_steps(folder.path(), 2, {2});
  const fs::path saved = checkpoint_path(folder.path(), 2);
  for (const std::string& message : refusals(saved, 2, options_for("awc", "accum-adam"))) {
    EXPECT_THAT(message, HasSubstr("no tensor 'accumulated.first.weight'"));
  }
  for (const std::string& message : refusals(saved, 2, options_for("awc", "sgd"))) {
    EXPECT_THAT(message, HasSubstr("'exp_avg.first.weight' has no place"));
  }
  for (const std::string& message : refusals(folder.path() / "ckpt-9", 2, options_for("awc", "adam"))) {
    EXPECT_THAT(message, AllOf(HasSubstr("manifest"), HasSubstr("ckpt-00000002")));
  }
}

TEST(Checkpoint, KeepsTheNewestAndFailsOnAllWhenOneCannotWrite) {
  const support::TempFolder folder;
  save_steps(folder.path(), 2, {1, 2, 3});
  EXPECT_EQ(list_checkpoints(folder.path()).size(), 2u);
  std::ofstream(folder.path() / "file") << "in the way";
  support::run_threads(2, [&](Worker& worker) {
    TestWorld here(worker);
    Normalised network;
    DecentralizedDataParallel model(network.ptr(), here.world, options_for("awc", "adam"));
    const fs::path root = worker.rank == 1 ? folder.path() / "file" : folder.path() / "good";
    EXPECT_THAT(message_of([&] { save_checkpoint(model, {root}); }), HasSubstr("file"));
    train_normalised(model, network, 2);  // and training goes on
    return std::string();
  });
  EXPECT_TRUE(list_checkpoints(folder.path() / "good").empty());
}

TEST(Export, IsTheMeanAndReadsBackWithoutKith) {
  const support::TempFolder folder;
  std::vector<std::string> means = support::run_threads(3, [&](Worker& worker) {
    TestWorld here(worker);
    Normalised network;
    Options options = options_for("awc", "adam", "ring");
    options.buffers = BufferPolicy::averaged;
    DecentralizedDataParallel model(network.ptr(), here.world, options);
    train_normalised(model, network, 3);
    const ExportedFiles files = export_model(model, folder.path() / "out" / "mean");
    EXPECT_EQ(files.module, folder.path() / "out" / "mean.pt");
    const auto guard = model.average();
    return everything(*network);
  });
  Normalised network;
  torch::load(network, (folder.path() / "out" / "mean.pt").string());
  // Counts of batches are each worker's own: rank 0's are in the file.
  EXPECT_EQ(everything(*network), means[0]);

  std::ifstream in(folder.path() / "out" / "mean-state.pt", std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  const auto state = torch::pickle_load(bytes).toGenericDict();
  EXPECT_EQ(state.size(), network->named_parameters().size() + network->named_buffers().size());
  EXPECT_TRUE(torch::equal(state.at("norm.running_var").toTensor(), network->norm->running_var.cpu()));
  EXPECT_TRUE(torch::equal(state.at("second.weight").toTensor(), network->second->weight.cpu()));
}

// The lines that read_export.py must print for a tensor.
std::string line_of(const std::string& route, const std::string& name, const torch::Tensor& tensor) {
  std::ostringstream out;
  out << route << " " << name << " (";
  for (std::int64_t d = 0; d < tensor.dim(); ++d)
    out << (d > 0 ? ", " : "") << tensor.size(d);
  return out.str() + (tensor.dim() == 1 ? ",) " : ") ");
}

TEST(Export, ReadsInPythonByJitAndAsAStateDict) {
  const support::TempFolder folder;
  Alone alone;
  Normalised network;
  DecentralizedDataParallel model(network.ptr(), alone.world(), options_for("awc", "adam"));
  train_normalised(model, network, 2);
  export_model(model, folder.path() / "mean");
  const std::string command = cat(KITH_PYTHON, " ", KITH_READ_EXPORT, " ", (folder.path() / "mean").string(),
                                  " > ", (folder.path() / "out").string(), " 2>&1");
  const int status = std::system(command.c_str());
  std::ifstream in(folder.path() / "out");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  ASSERT_EQ(status, 0) << command << ": " << text;
  for (const char* route : {"jit", "load"}) {
    for (const auto& group : {network->named_parameters(), network->named_buffers()}) {
      for (const auto& item : group) {
        const std::string head = line_of(route, item.key(), item.value());
        const std::size_t at = text.find(head);
        ASSERT_NE(at, std::string::npos) << head << " is not in:\n" << text;
        const torch::Tensor flat = item.value().cpu().to(torch::kFloat64).reshape({-1});
        const char* values = text.c_str() + at + head.size();
        for (std::int64_t k = 0; k < flat.numel(); ++k) {
          char* end = nullptr;
          EXPECT_EQ(std::strtod(values, &end), flat[k].item<double>()) << head << k;
          values = end;
        }
      }
    }
  }
}

}  // namespace
}  // namespace kith::train
