// What a job needs, known before anything is made.

#include "kith/train/config/footprint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/train/config/read.h"
#include "tests/run/support.h"

namespace kith::train {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Footprint, CountsWhatEachPartHolds) {
  Job job;  // 4 blocks of width 256, context 64
  job.optimizer.name = "accum-adamw";
  const Footprint one = footprint_of(job);
  EXPECT_EQ(one.parameters, 256 * 256 + 64 * 256 + 512 + 4 * (12 * 256 * 256 + 13 * 256));
  EXPECT_EQ(one.model, 8 * one.parameters);
  EXPECT_EQ(one.gradient, 4 * one.parameters);
  EXPECT_EQ(one.optimizer, 12 * one.parameters);  // accum-adamw: two moments and what has come since
  const double activations = one.activations;
  job.train.batch *= 3;
  EXPECT_EQ(footprint_of(job).activations, 3 * activations);
  job.optimizer.name = "sgd";
  EXPECT_EQ(footprint_of(job).optimizer, 0);
}

TEST(Footprint, RefusesWithTheNumbers) {
  Job job;
  job.model.width = 65536;
  EXPECT_THAT(
      failure_of<InputError>([&] { check_fits(job, 4, 64.0 * (1u << 30)); }),
      AllOf(HasSubstr("model.width"), HasSubstr("206"), HasSubstr("million parameters"),
            HasSubstr("per worker"), HasSubstr("the 4 here"), HasSubstr("this machine has 64.0 GiB")));
  job.model.width = 256;
  job.train.batch = 900000;
  EXPECT_THAT(failure_of<InputError>([&] { check_fits(job, 4, 64.0 * (1u << 30)); }),
              testing::StartsWith("train.batch: "));
  job.train.batch = 4;
  EXPECT_EQ(failure_of<InputError>([&] { check_fits(job, 4, 64.0 * (1u << 30)); }), "");
}

TEST(Footprint, KnowsThisMachine) {
  EXPECT_GT(memory_here(), 64.0 * (1 << 20));
  EXPECT_LT(memory_here(), 1e15);
}

TEST(Warmup, IsATenthOfTheStepsWhereItIsNotSet) {
  const Job job = read_job({.file = {}, .settings = {{"train.steps=20", "--set"}}}).job;
  EXPECT_EQ(warmup_steps(job, 20), 2);
  EXPECT_EQ(warmup_steps(job, 5), 0);
  const Job falling =
      read_job({.file = {}, .settings = {{"train.steps=5", "--set"}, {"rate.curve=inverse-sqrt", "--set"}}})
          .job;
  EXPECT_EQ(warmup_steps(falling, 5), 1);
  const Job set = read_job({.file = {}, .settings = {{"rate.warmup=7", "--set"}}}).job;
  EXPECT_EQ(warmup_steps(set, 300), 7);
}

TEST(Bounds, EveryCountHasALargestValue) {
  for (const char* key : {"train.steps", "train.epochs", "train.eval_every", "train.eval_samples",
                          "rate.warmup", "rate.every", "checkpoint.every", "output.log_every"}) {
    EXPECT_THAT(failure_of<InputError>([&] {
                  read_job({.file = {}, .settings = {{std::string(key) + "=9223372036854775807", "--set"}}});
                }),
                AllOf(HasSubstr(key), HasSubstr("out of range"), HasSubstr("1e")));
  }
}

}  // namespace
}  // namespace kith::train
