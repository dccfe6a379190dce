#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kith::support {

using Words = std::vector<std::string>;

// A running program with its output in files, leader of its own process group as a terminal would start it.
// Its environment is this process's own without any launcher's variables, and what the test adds.
class Command {
 public:
  using Variables = std::map<std::string, std::string>;

  struct Result {
    int code = -1;  // 128 + signal when a signal ended it, -1 when it did not end in time
    std::string out;
    std::string err;
  };

  Command(const std::filesystem::path& folder, Words words, const Variables& variables = {})
      : out_(folder / (name_of_next() + ".out")), err_(out_.string() + ".err") {
    std::vector<std::string> environment;
    for (char** entry = environ; *entry != nullptr; ++entry)
      if (!of_a_launcher(*entry)) environment.emplace_back(*entry);
    for (const auto& [name, value] : variables)
      environment.push_back(name + "=" + value);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, err_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0);
    std::vector<char*> argv = pointers(words), env = pointers(environment);
    const int failure = ::posix_spawnp(&pid_, argv[0], &files, &attributes, argv.data(), env.data());
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    if (failure != 0) throw std::system_error(failure, std::generic_category(), words.front());
  }
  ~Command() {
    if (pid_ > 0) {
      ::kill(-pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  pid_t pid() const { return pid_; }
  std::string out() const { return text_of(out_); }
  std::string err() const { return text_of(err_); }

  // Ctrl-C on a terminal.
  void interrupt() const { ::kill(-pid_, SIGINT); }

  Result wait(std::chrono::seconds limit = std::chrono::seconds(90)) {
    const auto end = std::chrono::steady_clock::now() + limit;
    int status = 0;
    while (::waitpid(pid_, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > end) return {-1, out(), err()};
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    pid_ = -1;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), out(), err()};
  }

  // Until its standard output holds the text, or its standard error; false when that takes too long.
  bool says(const std::string& text, std::chrono::seconds limit = std::chrono::seconds(60)) const {
    return comes(out_, text, limit);
  }
  bool complains(const std::string& text, std::chrono::seconds limit = std::chrono::seconds(60)) const {
    return comes(err_, text, limit);
  }

  static std::string text_of(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  static bool comes(const std::filesystem::path& file, const std::string& text, std::chrono::seconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (text_of(file).find(text) == std::string::npos) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
  }
  static std::string name_of_next() {
    static int number = 0;
    return "command-" + std::to_string(number++);
  }
  static bool of_a_launcher(const std::string& entry) {
    for (const char* prefix : {"KITH_", "OMPI_", "PMIX_", "SLURM_", "RANK=", "WORLD_SIZE=", "LOCAL_RANK=",
                               "LOCAL_WORLD_SIZE=", "MASTER_", "TORCHELASTIC_"})
      if (entry.starts_with(prefix)) return true;
    return false;
  }
  static std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> result;
    for (std::string& text : texts)
      result.push_back(text.data());
    result.push_back(nullptr);
    return result;
  }

  const std::filesystem::path out_;
  const std::filesystem::path err_;
  pid_t pid_ = -1;
};

}  // namespace kith::support
