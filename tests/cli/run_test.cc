#include "cli/run.h"

#include <functional>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/check.h"
#include "kith/base/error.h"

namespace kith::cli {
namespace {

struct Result {
  int code = -1;
  std::string out;
  std::string err;
};

// Runs an app with one command, `sow`, that takes --seeds and calls `body`.
Result run_sow(const std::vector<const char*>& words, const std::function<void()>& body) {
  CLI::App app("a test", "kith");
  app.require_subcommand(0, 1);
  CLI::App* sow = app.add_subcommand("sow", "a command");
  int seeds = 0;
  sow->add_option("--seeds", seeds, "how many");
  sow->callback(body);

  std::vector<const char*> argv{"kith"};
  argv.insert(argv.end(), words.begin(), words.end());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Result result;
  result.code = run(app, static_cast<int>(argv.size()), argv.data());
  std::cout.flush();
  result.out = testing::internal::GetCapturedStdout();
  result.err = testing::internal::GetCapturedStderr();
  return result;
}

Result run_sow(const std::vector<const char*>& words) {
  return run_sow(words, [] { std::cout << "sown\n"; });
}

TEST(Run, RunsTheCommand) {
  const Result result = run_sow({"sow", "--seeds", "3"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "sown\n");
  EXPECT_EQ(result.err, "");
}

TEST(Run, WithoutArgumentsPrintsHelp) {
  const Result result = run_sow({});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, testing::HasSubstr("sow"));
}

TEST(Run, UnknownCommandGetsASuggestion) {
  const Result result = run_sow({"sov"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err, "kith: unknown command 'sov' (did you mean 'sow'?)\n");
  EXPECT_EQ(result.out, "");
}

TEST(Run, UnknownCommandLikeNoneGetsTheList) {
  EXPECT_EQ(run_sow({"harvest"}).err, "kith: unknown command 'harvest' (one of: sow)\n");
}

TEST(Run, UnknownFlagGetsASuggestionFromItsCommand) {
  for (const std::vector<const char*>& words :
       {std::vector<const char*>{"sow", "--seed", "3"}, std::vector<const char*>{"sow", "--seed=3"}}) {
    const Result result = run_sow(words);
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.err, "kith sow: unknown flag '--seed' (did you mean '--seeds'?)\n");
  }
}

TEST(Run, UnexpectedArgumentIsNamed) {
  const Result result = run_sow({"sow", "here"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err, "kith sow: unexpected argument 'here' (see kith sow --help)\n");
}

TEST(Run, BadNumberNamesFlagAndValue) {
  const Result result = run_sow({"sow", "--seeds", "many"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, testing::AllOf(testing::StartsWith("kith sow: "), testing::HasSubstr("--seeds"),
                                         testing::HasSubstr("many")));
}

TEST(Run, InputErrorIsTwo) {
  const Result result = run_sow({"sow"}, [] { throw InputError("'x' is bad", "--field", "try y"); });
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err, "kith sow: --field: 'x' is bad (try y)\n");
}

TEST(Run, OtherFailuresAreOne) {
  const Result error = run_sow({"sow"}, [] { throw Error("no rain"); });
  EXPECT_EQ(error.code, 1);
  EXPECT_EQ(error.err, "kith sow: no rain\n");
  EXPECT_EQ(run_sow({"sow"}, [] { throw std::bad_alloc(); }).code, 1);
}

TEST(Run, BugIsSeventyAndAsksForAReport) {
  const Result result = run_sow({"sow"}, [] { KITH_CHECK_EQ(2 + 2, 5, "arithmetic"); });
  EXPECT_EQ(result.code, 70);
  EXPECT_THAT(result.err, testing::HasSubstr("4 vs 5: arithmetic"));
  EXPECT_THAT(result.err, testing::HasSubstr("bug in kith"));
}

}  // namespace
}  // namespace kith::cli
