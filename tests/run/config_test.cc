#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/config/read.h"
#include "kith/train/config/schema.h"
#include "tests/run/support.h"

namespace kith::train {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct BadConfig {
  std::string title;
  std::string toml;
  std::vector<std::string> message;  // parts that it must have, the place among them
};

void PrintTo(const BadConfig& bad, std::ostream* out) {
  *out << bad.toml;
}

std::vector<BadConfig> bad_configs() {
  return {
      // Not TOML.
      {"NoValue", "[train]\nsteps =\n", {"job.toml:2", "not TOML"}},
      {"UnclosedText", "[model]\nname = \"gpt\n", {"job.toml:2", "not TOML"}},
      {"UnclosedSection", "[model\n", {"job.toml:1", "not TOML"}},
      {"KeyTwice", "[train]\nsteps = 1\nsteps = 2\n", {"job.toml:3", "not TOML"}},
      {"BareWord", "[model]\nname = gpt\n", {"job.toml:2", "not TOML"}},
      // Unknown keys and sections.
      {"UnknownKey",
       "[optimizer]\nbeta3 = 0.9\n",
       {"job.toml:2: optimizer.beta3", "no such key", "did you mean 'optimizer.beta"}},
      {"MisspeltKey",
       "[world]\n\nworker = 4\n",
       {"job.toml:3: world.worker", "did you mean 'world.workers'?"}},
      {"MisspeltSection",
       "[optimiser]\nname = \"adam\"\n",
       {"job.toml:1: optimiser", "no such section", "did you mean 'optimizer'?"}},
      {"UnknownSection", "[zebra]\nx = 1\n", {"job.toml:1: zebra", "one of: world, model"}},
      {"KeyOutsideSections", "steps = 3\n", {"job.toml:1: steps", "no such section"}},
      {"SectionAsValue", "train = 3\n", {"job.toml:1: train", "is an integer", "[train]"}},
      {"SectionAsList", "[[train]]\nsteps = 1\n", {"job.toml:1: train", "is a list"}},
      {"KeyOfAnotherSection", "[train]\nlr = 0.1\n", {"job.toml:2: train.lr", "no such key"}},
      {"NestedTable", "[train.steps]\nx = 1\n", {"train.steps", "is a table"}},
      // Wrong types.
      {"TextForInteger",
       "[train]\nsteps = \"100\"\n",
       {"job.toml:2: train.steps", "'100' is a text", "integer in [1, 1e12]"}},
      {"NumberForInteger",
       "[train]\nbatch = 1.5\n",
       {"job.toml:2: train.batch", "'1.5' is a number", "integer"}},
      {"BoolForInteger", "[world]\nworkers = true\n", {"job.toml:2: world.workers", "is true or false"}},
      {"TextForNumber",
       "[rate]\nlr = \"fast\"\n",
       {"job.toml:2: rate.lr", "'fast' is a text", "number in (0, inf)"}},
      {"IntegerForBool",
       "[optimizer]\nnesterov = 1\n",
       {"job.toml:2: optimizer.nesterov", "is an integer", "true or false"}},
      {"IntegerForText",
       "[model]\nname = 3\n",
       {"job.toml:2: model.name", "is an integer", "one of: gpt, transformer"}},
      {"ListForShape", "[world]\nnodes = [2, 2]\n", {"job.toml:2: world.nodes", "is a list", "2x2"}},
      {"DateForText", "[output]\nname = 2024-01-01\n", {"job.toml:2: output.name", "is a date"}},
      // Out of range.
      {"NoWorkers",
       "[world]\nworkers = 0\n",
       {"job.toml:2: world.workers", "0 is out of range", "[1, 4096]"}},
      {"NegativeSteps", "[train]\nsteps = -5\n", {"train.steps", "-5 is out of range"}},
      {"ZeroBatch", "[train]\nbatch = 0\n", {"train.batch", "0 is out of range"}},
      {"BetaOne", "[optimizer]\nbeta1 = 1.0\n", {"optimizer.beta1", "1 is out of range", "[0, 1)"}},
      {"NegativeBeta", "[optimizer]\nbeta2 = -0.1\n", {"optimizer.beta2", "[0, 1)"}},
      {"ZeroLr", "[rate]\nlr = 0\n", {"rate.lr", "0 is out of range", "(0, inf)"}},
      {"InfiniteLr", "[rate]\nlr = inf\n", {"rate.lr", "inf is out of range"}},
      {"NanDecay", "[optimizer]\nweight_decay = nan\n", {"optimizer.weight_decay", "nan is out of range"}},
      {"ZeroEps", "[optimizer]\neps = 0.0\n", {"optimizer.eps", "(0, 1]"}},
      {"ZeroCommitEvery", "[optimizer]\ncommit_every = 0\n", {"optimizer.commit_every", "0 is out of range"}},
      {"AllForValidation", "[data]\nvalidation = 1.0\n", {"data.validation", "(0, 0.9]"}},
      {"FullDropout", "[model]\ndropout = 1.0\n", {"model.dropout", "[0, 1)"}},
      {"NegativeSeed", "[train]\nseed = -1\n", {"train.seed", "-1 is out of range"}},
      {"KeepNothing", "[checkpoint]\nkeep = 0\n", {"checkpoint.keep", "0 is out of range"}},
      {"NoPatience",
       "[algorithm]\npatience_seconds = -1.0\n",
       {"algorithm.patience_seconds", "out of range"}},
      {"BadBucket",
       "[wire]\nbucket = \"25 parsecs\"\n",
       {"job.toml:2: wire.bucket", "25 parsecs", "is not a size"}},
      {"BadShape", "[world]\nnodes = \"2,,2\"\n", {"job.toml:2: world.nodes", "2,,2"}},
      // Unknown names.
      {"UnknownModel",
       "[model]\nname = \"gpt2\"\n",
       {"job.toml:2: model.name", "'gpt2' is not known", "did you mean 'gpt'?"}},
      {"UnknownData", "[data]\nname = \"imagenet\"\n", {"data.name", "one of: text, tokens"}},
      {"UnknownAlgorithm",
       "[algorithm]\nname = \"allreduse\"\n",
       {"algorithm.name", "did you mean 'allreduce'?"}},
      {"UnknownOptimizer",
       "[optimizer]\nname = \"accum-adamv\"\n",
       {"optimizer.name", "did you mean 'accum-adam"}},
      {"UnknownTopology", "[topology]\nname = \"rng\"\n", {"topology.name", "did you mean 'ring'?"}},
      {"UnknownCurve", "[rate]\ncurve = \"cosin\"\n", {"rate.curve", "did you mean 'cosine'?"}},
      {"UnknownWire", "[wire]\ntype = \"fp3\"\n", {"wire.type", "did you mean 'fp32'?"}},
      {"UnknownBackend", "[world]\nbackend = \"shmm\"\n", {"world.backend", "did you mean 'shm'?"}},
      {"UnknownLayout", "[wire]\nlayout = \"stage\"\n", {"wire.layout", "did you mean 'staged'?"}},
      // Contradictions.
      {"NodesAndWorkersDiffer",
       "[world]\nworkers = 4\nnodes = \"3,2\"\n",
       {"job.toml:3: world.nodes", "5 workers", "world.workers is 4"}},
      {"HeadsDoNotDivide",
       "[model]\nwidth = 128\nheads = 3\n",
       {"job.toml:3: model.heads", "3 heads", "128"}},
      {"DefaultHeadsDoNotDivide", "[model]\nwidth = 30\n", {"model.heads (default)", "4 heads", "30"}},
      {"GptOnImages",
       "[data]\nname = \"mnist\"\n",
       {"job.toml:2: data.name", "\"gpt\"", "data.name = \"text\""}},
      {"CnnOnText", "[model]\nname = \"cnn\"\n", {"data.name (default)", "\"cnn\"", "data.name = \"mnist\""}},
      {"DropoutInCnn",
       "[model]\nname = \"cnn\"\ndropout = 0.1\n[data]\nname = \"mnist\"\n",
       {"job.toml:3: model.dropout", "no dropout"}},
      {"DropoutInThreads",
       "[world]\nbackend = \"inproc\"\n[model]\ndropout = 0.1\n",
       {"job.toml:4: model.dropout", "random generator", "processes"}},
      {"WarmupFillsTheRun", "[train]\nsteps = 20\n[rate]\nwarmup = 20\n", {"job.toml:4: rate.warmup", "20"}},
      {"InverseSqrtWithoutWarmup",
       "[rate]\ncurve = \"inverse-sqrt\"\nwarmup = 0\n",
       {"rate.warmup", "at least 1"}},
      {"LeaveOutWhereALossEndsTheRun",
       "[world]\nleave_out_slow = 3\non_lost = \"fail\"\n",
       {"job.toml:2: world.leave_out_slow", "nobody can be left out"}},
      {"FileTopologyWithoutFile",
       "[topology]\nname = \"file\"\n",
       {"job.toml:2: topology.name", "needs a file"}},
      {"FileWithoutFileTopology",
       "[topology]\nfile = \"x.json\"\n",
       {"job.toml:2: topology.file", "only topology 'file'"}},
      {"MissingTopologyFile",
       "[topology]\nname = \"file\"\nfile = \"no.json\"\n",
       {"job.toml:2: topology.name", "no.json"}},
      {"PushSumOnUndirected",
       "[algorithm]\nname = \"sgp\"\n",
       {"topology.name (default)", "undirected", "exp-directed"}},
      {"MixingOnDirected",
       "[topology]\nname = \"exp-directed\"\n",
       {"job.toml:2: topology.name", "'awc' needs an undirected"}},
      {"NesterovWithoutMomentum",
       "[optimizer]\nname = \"sgd\"\nnesterov = true\n",
       {"nesterov", "momentum 0"}},
      {"InsideAllReduce",
       "[algorithm]\nname = \"allreduce\"\ninside = \"allreduce\"\n",
       {"job.toml:3: algorithm.inside", "with everybody"}},
      {"InsideSingleWorkers",
       "[world]\nworkers = 2\nnodes = \"1,1\"\n[algorithm]\ninside = \"allreduce\"\n",
       {"job.toml:5: algorithm.inside", "one worker each"}},
      {"FolderInName", "[output]\nname = \"a/b\"\n", {"job.toml:2: output.name", "'a/b'"}},
      {"NulInName", "[output]\nname = \"a\\u0000b\"\n", {"job.toml:2: output.name", "'a?b'", "control"}},
      {"NewlineInName", "[output]\nname = \"a\\nb\"\n", {"job.toml:2: output.name", "'a?b'", "control"}},
      {"FolderAboveAsName", "[output]\nname = \"..\"\n", {"job.toml:2: output.name", "'..'"}},
      {"EmptyName", "[output]\nname = \"\"\n", {"job.toml:2: output.name", "no name"}},
  };
}

class BadConfigs : public testing::TestWithParam<BadConfig> {};

TEST_P(BadConfigs, NamePlaceAndRemedy) {
  const TestFolder folder;
  const std::string file = folder.write("job.toml", GetParam().toml);
  const std::string message = failure_of<InputError>([&] { read_job({.file = file, .settings = {}}); });
  ASSERT_NE(message, "") << "accepted:\n" << GetParam().toml;
  for (const std::string& part : GetParam().message)
    EXPECT_THAT(message, HasSubstr(part));
}

INSTANTIATE_TEST_SUITE_P(Table, BadConfigs, testing::ValuesIn(bad_configs()),
                         [](const auto& bad) { return bad.param.title; });

struct BadSetting {
  std::string text;
  std::vector<std::string> message;
};

TEST(Settings, BadOnesNameTheFlagTheKeyAndTheRemedy) {
  const std::vector<BadSetting> cases{
      {"optimizer.beta1", {"--set: 'optimizer.beta1' is not KEY=VALUE"}},
      {"=3", {"--set", "KEY=VALUE"}},
      {"optimizer.bta1=0.9", {"--set: optimizer.bta1", "did you mean 'optimizer.beta1'?"}},
      {"steps=3", {"--set: steps", "no such key"}},
      {"train.steps=many", {"--set: train.steps", "'many' is not a value", "integer"}},
      {"train.steps=", {"--set: train.steps", "is not a value"}},
      {"train.steps=\"9\"", {"--set: train.steps", "is a text"}},
      {"train.steps=0", {"--set: train.steps", "0 is out of range"}},
      {"optimizer.nesterov=yes", {"--set: optimizer.nesterov", "'yes' is not a value", "true or false"}},
      {"topology.name=aeer", {"--set: topology.name", "did you mean 'aer'?"}},
  };
  for (const BadSetting& bad : cases) {
    const std::string message = failure_of<InputError>([&] {
      read_job({.file = {}, .settings = {{bad.text, "--set"}}});
    });
    for (const std::string& part : bad.message)
      EXPECT_THAT(message, HasSubstr(part)) << bad.text;
  }
}

TEST(Settings, GoOverTheFileInOrder) {
  const TestFolder folder;
  const std::string file =
      folder.write("job.toml", "[train]\nsteps = 50\nbatch = 3\n[output]\nname = \"mine\"\n");
  const Job job = read_job({.file = file,
                            .settings = {{"train.steps=60", "--set"},
                                         {"train.steps=70", "--set"},
                                         {"output.name=other", "--set"},
                                         {"rate.lr=1", "--set"},
                                         {"optimizer.nesterov=false", "--set"}}})
                      .job;
  EXPECT_EQ(job.train.steps, 70);
  EXPECT_EQ(job.train.batch, 3);
  EXPECT_EQ(job.output.name, "other");
  EXPECT_EQ(job.rate.lr, 1.0);
}

TEST(Settings, OriginsOfAContradictionAreNamed) {
  const std::string message = failure_of<InputError>([&] {
    read_job({.file = {}, .settings = {{"world.nodes=2x2", "--set"}, {"world.workers=8", "--workers"}}});
  });
  EXPECT_THAT(message, HasSubstr("--set: world.nodes"));
}

TEST(Settings, OnlySomeMayChangeInARunThatGoesOn) {
  EXPECT_NO_THROW(check_resumable({{"train.steps=500", "--set"}, {"output.trace=true", "--trace"}}));
  EXPECT_NO_THROW(check_resumable({{"world.workers=8", "--workers"}, {"world.nodes=4,4", "--set"}}));
  const std::string message = failure_of<InputError>([&] {
    check_resumable({{"world.device=cuda", "--set"}});
  });
  EXPECT_THAT(message, HasSubstr("--set: world.device"));
  EXPECT_THAT(message, HasSubstr("train.steps"));
}

struct Old {
  std::string section, key, value;  // as it was written
  std::string now;                  // what the error must name
};

const std::vector<Old> kOld{{"schedule", "name", "\"cosine\"", "rate.curve"},
                            {"schedule", "lr", "1e-3", "rate.lr"},
                            {"schedule", "warmup", "3", "rate.warmup"},
                            {"schedule", "final_fraction", "0.5", "rate.final_fraction"},
                            {"schedule", "every", "7", "rate.every"},
                            {"schedule", "factor", "0.5", "rate.factor"},
                            {"optimizer", "window", "4", "optimizer.commit_every"},
                            {"wire", "type", "\"own\"", "write \"full\""}};

TEST(OldNames, AreErrorsThatNameTheNewOnes) {
  const TestFolder folder;
  for (const Old& old : kOld) {
    const std::string key = old.section + "." + old.key;
    const std::string text = "[" + old.section + "]\n" + old.key + " = " + old.value + "\n";
    const std::string file = folder.write("old.toml", text);
    EXPECT_THAT(failure_of<InputError>([&] { read_job({.file = file, .settings = {}}); }),
                AllOf(HasSubstr("old.toml:2: " + key), HasSubstr(old.now)));
    EXPECT_THAT(failure_of<InputError>([&] {
                  read_job({.file = {}, .settings = {{key + "=" + old.value, "--set"}}});
                }),
                AllOf(HasSubstr("--set: " + key), HasSubstr(old.now)));
  }
  EXPECT_THAT(failure_of<InputError>(
                  [&] { read_job({.file = folder.write("empty.toml", "[schedule]\n"), .settings = {}}); }),
              AllOf(HasSubstr("empty.toml:1: schedule"), HasSubstr("write [rate]")));
}

TEST(ReadJob, AMissingFileIsNamed) {
  EXPECT_THAT(failure_of<InputError>([] { read_job({.file = "/no/such.toml", .settings = {}}); }),
              HasSubstr("/no/such.toml"));
}

TEST(ReadJob, RelativePathsCountFromTheFile) {
  const TestFolder folder;
  const std::string file = folder.write("job.toml", "[data]\npath = \"mine/text.txt\"\n");
  EXPECT_EQ(read_job({.file = file, .settings = {}}).job.data.path,
            (folder.path() / "mine/text.txt").string());
  EXPECT_EQ(read_job({.file = {}, .settings = {{"data.path=text.txt", "--set"}}}).job.data.path,
            (std::filesystem::current_path() / "text.txt").string());
}

// Every key at a value other than its default, so that none can be lost on the way.
Job unusual_job() {
  Job job;
  job.world = {.workers = 6, .nodes = "3,3", .backend = "inproc", .compute_threads = 2, .on_lost = "fail"};
  job.model = {
      .name = "gpt", .layers = 2, .heads = 5, .width = 35, .context = 17, .dropout = 0, .buffers = "local"};
  job.data = {.name = "text", .path = "/tmp/a \"quoted\" \\ text\t.txt", .validation = 0.3};
  job.train = {.steps = 77,
               .epochs = 2,
               .batch = 3,
               .accumulate = 2,
               .clip = 0.1,
               .non_finite = "use",
               .eval_every = 7,
               .eval_samples = 9,
               .seed = 1234567890123};
  job.algorithm = {.name = "dsgd",
                   .trigger = "from 0 every 1, from 9 every 2",
                   .control = "from 0 distance 0.5, from 9 none",
                   .rounds = 2,
                   .stagger = false,
                   .patience_seconds = 1.5};
  job.optimizer = {.name = "sgd",
                   .weight_decay = 1.0 / 3,
                   .momentum = 0.9,
                   .dampening = 0,
                   .nesterov = true,
                   .beta1 = 0.1,
                   .beta2 = 0.2,
                   .eps = 1e-30,
                   .commit_every = 8};
  job.rate = {.curve = "step",
              .lr = 3,
              .warmup = 1,
              .final_fraction = 0.5,
              .every = 9,
              .factor = 0.25,
              .on_view = "scale"};
  job.topology = {.name = "base", .seed = 5, .degree = 2, .edge_probability = 0.5, .centres = 2, .file = ""};
  job.wire = {.type = "fp32", .bucket = "1MB", .layout = "staged"};
  job.checkpoint = {.every = 5, .keep = 3};
  job.output = {.name = "odd", .folder = "/tmp/odd", .log_every = 2, .trace = true};
  return job;
}

TEST(PrintConfig, ReadsBackToTheSameJob) {
  const TestFolder folder;
  for (const Job& job : {Job{}, unusual_job()}) {
    const std::string printed = print_config(job);
    Job again = read_job({.file = folder.write("printed.toml", printed), .settings = {}}).job;
    Job same = job;
    same.output.folder = std::filesystem::absolute(job.output.folder).string();
    // The default folder is relative: in a file it counts from the file.
    if (job.output.folder == "runs") again.output.folder = same.output.folder;
    for (const Key& key : schema())
      EXPECT_EQ(toml_text(key.field(again)), toml_text(key.field(same))) << key.name;
  }
}

TEST(Schema, EveryKeyIsDocumentedAndItsDefaultIsValid) {
  Job job;
  for (const Key& key : schema()) {
    EXPECT_NE(key.doc, "") << key.name;
    const Field field = key.field(job);
    if (const auto* number = std::get_if<double*>(&field)) {
      EXPECT_TRUE(inside(key.interval, **number)) << key.name;
    } else if (const auto* integer = std::get_if<std::int64_t*>(&field)) {
      EXPECT_TRUE(inside(key.interval, static_cast<double>(**integer))) << key.name;
    } else if (const auto* text = std::get_if<std::string*>(&field); text && key.choices) {
      EXPECT_THAT(key.choices(), testing::Contains(**text)) << key.name;
    }
    EXPECT_EQ(find_key(key.name), &key);
  }
}

TEST(Schema, TheManualHoldsItsTable) {
  EXPECT_NE(read_text(KITH_MANUAL).find(config_table()), std::string::npos)
      << "docs/kith-train.md must hold this table:\n"
      << config_table();
}

TEST(Schema, Intervals) {
  EXPECT_TRUE(inside("[0, 1)", 0));
  EXPECT_FALSE(inside("[0, 1)", 1));
  EXPECT_FALSE(inside("(0, 1]", 0));
  EXPECT_TRUE(inside("(0, 1]", 1));
  EXPECT_TRUE(inside("[1, inf)", 1e300));
  EXPECT_FALSE(inside("[1, inf)", std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(inside("[1, inf)", std::numeric_limits<double>::quiet_NaN()));
  EXPECT_TRUE(inside("", -5));
}

}  // namespace
}  // namespace kith::train
