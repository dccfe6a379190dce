// The real binary, as a user runs it.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kith/base/temp_folder.h"

namespace kith::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct Result {
  int code = -1;
  std::string out;
  std::string err;
};

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Command : public testing::Test {
 protected:
  Result kith(std::vector<std::string> words) { return kith_into(folder_.path() + "/out", std::move(words)); }

  // Runs kith with its standard output in the file `out`.
  Result kith_into(const std::string& out, std::vector<std::string> words) {
    words.insert(words.begin(), KITH_BINARY);
    std::vector<char*> argv;
    for (std::string& word : words)
      argv.push_back(word.data());
    argv.push_back(nullptr);

    const std::string err = folder_.path() + "/err";
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                     0600);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                     0600);
    pid_t child = -1;
    const int failure = ::posix_spawn(&child, KITH_BINARY, &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failure != 0) throw std::system_error(failure, std::generic_category(), KITH_BINARY);

    int status = 0;
    ::waitpid(child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1,
            std::filesystem::is_regular_file(out) ? read_text(out) : std::string(), read_text(err)};
  }

 private:
  const kith::TempFolder folder_{"kith-cli-test"};
};

TEST_F(Command, VersionNamesWhatItWasBuiltWith) {
  const Result result = kith({"--version"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, StartsWith("kith " KITH_VERSION "\n"));
  for (const char* name : {"compiler", "Eigen", "Highway", "CLI11", "nlohmann-json"}) {
    EXPECT_THAT(result.out, HasSubstr(name));
  }
  EXPECT_EQ(result.out.find('@'), std::string::npos) << "a value CMake did not fill in";
}

TEST_F(Command, WithoutArgumentsListsTheCommands) {
  const Result result = kith({});
  EXPECT_EQ(result.code, 0);
  for (const char* name : {"topo", "methods", "mix", "train", "profile", "plan", "launch", "env"})
    EXPECT_THAT(result.out, HasSubstr(name));
}

TEST_F(Command, TyposGetASuggestion) {
  const Result command = kith({"tpo"});
  EXPECT_EQ(command.code, 2);
  EXPECT_EQ(command.err, "kith: unknown command 'tpo' (did you mean 'topo'?)\n");

  const Result flag = kith({"topo", "exp", "--worker", "8"});
  EXPECT_EQ(flag.code, 2);
  EXPECT_EQ(flag.err, "kith topo: unknown flag '--worker' (did you mean '--workers'?)\n");

  const Result topology = kith({"topo", "rng", "--workers", "8"});
  EXPECT_EQ(topology.code, 2);
  EXPECT_THAT(topology.err, HasSubstr("did you mean 'ring'?"));
}

// A command with a bad value: exit 2, a line that begins with the command and holds the value, and no output.
struct BadValue {
  std::vector<std::string> words;
  std::string value;
};

class CommandWithBadValue : public Command, public testing::WithParamInterface<BadValue> {};

TEST_P(CommandWithBadValue, IsRefusedByName) {
  const auto& [words, value] = GetParam();
  const Result result = kith(words);
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, StartsWith("kith " + words[0] + ": "));
  EXPECT_THAT(result.err, HasSubstr(value));
  EXPECT_EQ(result.out, "");
}

INSTANTIATE_TEST_SUITE_P(Topo, CommandWithBadValue,
                         testing::Values(BadValue{{"topo", "exp", "--workers", "eight"}, "eight"},
                                         BadValue{{"topo", "exp", "--workers", "0"}, "0"},
                                         BadValue{{"topo", "exp", "--nodes", "4,,2"}, "4,,2"}));
INSTANTIATE_TEST_SUITE_P(Mix, CommandWithBadValue,
                         testing::Values(BadValue{{"mix", "--workers", "2", "--size", "25XB"}, "25XB"},
                                         BadValue{{"mix", "--workers", "-1"}, "-1"},
                                         BadValue{{"mix", "--workers", "2", "--backend", "pigeon"},
                                                  "pigeon"}));

TEST_F(Command, TopoPrintsJson) {
  const Result result = kith({"topo", "aer", "--nodes", "4,4", "--json", "--matrices"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["topology"], "aer");
  EXPECT_EQ(json["workers"], 8);
  EXPECT_EQ(json["doubly_stochastic"], true);
  EXPECT_EQ(json["matrices"].size(), json["period"]);
}

TEST_F(Command, AFullDiskIsAFailure) {
  const Result result = kith_into("/dev/full", {"--version"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("standard output"));
}

TEST_F(Command, MethodsHaveNameFormulaAndCost) {
  const Result table = kith({"methods"});
  EXPECT_EQ(table.code, 0);
  EXPECT_THAT(table.out, HasSubstr("mc-dsgt"));
  const Result json = kith({"methods", "--json"});
  EXPECT_EQ(json.code, 0);
  std::map<std::string, nlohmann::json> methods;
  for (const nlohmann::json& method : nlohmann::json::parse(json.out)) {
    EXPECT_FALSE(method.at("formula").get<std::string>().empty());
    EXPECT_FALSE(method.at("summary").get<std::string>().empty());
    methods[method.at("name")] = method;
  }
  // Two slots, of which one is the parameter; two channels of two slots and two vectors of state.
  EXPECT_EQ(methods.at("awc").at("memory_bytes_per_parameter"), 4);
  EXPECT_EQ(methods.at("mc-dsgt").at("memory_bytes_per_parameter"), 24);
  EXPECT_EQ(methods.at("mc-dsgt").at("message_bytes_per_parameter"), 8);
  EXPECT_EQ(methods.at("none").at("message_bytes_per_parameter"), 0);
  EXPECT_EQ(methods.at("sgp").at("directed"), true);
  EXPECT_EQ(methods.at("d-adam").at("optimizer"), "adam");
}

}  // namespace
}  // namespace kith::cli
