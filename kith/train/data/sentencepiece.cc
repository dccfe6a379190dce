// Note [SentencePiece is a program] in tokenizer.h.

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kith/base/error.h"
#include "kith/base/temp_folder.h"
#include "kith/base/text.h"
#include "kith/train/data/file.h"
#include "kith/train/data/tokenizer.h"

namespace kith::train {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  const std::vector<std::uint8_t> bytes = read_bytes(file);
  return {bytes.begin(), bytes.end()};
}

void require_program(const fs::path& program) {
  std::error_code problem;
  if (fs::exists(program, problem)) return;
  throw InputError("is not there", program.string(),
                   "build kith where libsentencepiece-dev is installed; or use bytes");
}

// The exit code; what the program reads and writes are files.
int spawn(const fs::path& program, std::vector<std::string> words, const TempFolder& folder) {
  words.insert(words.begin(), program.string());
  std::vector<char*> argv;
  for (std::string& word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  const fs::path files = folder.path();
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, (files / "in").c_str(), O_RDONLY, 0);
  constexpr int kNew = O_WRONLY | O_CREAT | O_TRUNC;
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, (files / "out").c_str(), kNew, 0600);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, (files / "err").c_str(), kNew, 0600);
  pid_t child = -1;
  const int failure = ::posix_spawn(&child, program.c_str(), &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) throw Error(cat("cannot be run: ", std::strerror(failure)), program.string());
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Lines in, lines out.
std::vector<std::string> talk(const fs::path& program, const std::vector<std::string>& words,
                              const std::vector<std::string>& lines) {
  require_program(program);
  const TempFolder folder("kith-sentencepiece-");
  const fs::path files = folder.path();
  {
    std::ofstream in(files / "in", std::ios::binary);
    for (const std::string& line : lines)
      in << line << '\n';
    if (!in.flush()) throw Error("cannot be written", (files / "in").string(), "is the disk full?");
  }
  const int code = spawn(program, words, folder);
  if (code == 2) throw InputError(lines_of(text_of(files / "err")).at(0), "SentencePiece");
  if (code != 0) throw Error(cat("ended with ", code, ": ", text_of(files / "err")), program.string());
  return lines_of(text_of(files / "out"));
}

class SentencePiece final : public Tokenizer {
 public:
  SentencePiece(fs::path program, fs::path model) : program_(std::move(program)), model_(std::move(model)) {
    const std::vector<std::string> about = talk(program_, {"about", model_.string()}, {});
    std::istringstream numbers(about.at(0));
    numbers >> vocabulary_ >> newline_ >> marks_.begin >> marks_.end >> marks_.padding;
  }

  std::uint64_t vocabulary() const override { return vocabulary_; }
  Marks marks() const override { return marks_; }
  std::int64_t newline() const override { return newline_; }

  std::vector<Line> encode(const std::vector<std::string>& lines) const override {
    std::vector<Line> encoded;
    for (const std::string& line : talk(program_, {"encode", model_.string()}, lines)) {
      encoded.emplace_back();
      std::istringstream numbers(line);
      for (std::int64_t token = 0; numbers >> token;)
        encoded.back().push_back(token);
    }
    if (encoded.size() != lines.size())
      throw Error(cat(encoded.size(), " lines came back of ", lines.size()), program_.string());
    return encoded;
  }

  std::vector<std::string> decode(const std::vector<Line>& lines) const override {
    std::vector<std::string> numbers;
    for (const Line& line : lines) {
      std::ostringstream out;
      for (const std::int64_t token : line)
        out << token << ' ';
      numbers.push_back(out.str());
    }
    std::vector<std::string> decoded = talk(program_, {"decode", model_.string()}, numbers);
    if (decoded.size() != lines.size())
      throw Error(cat(decoded.size(), " lines came back of ", lines.size()), program_.string());
    return decoded;
  }

 private:
  const fs::path program_;
  const fs::path model_;
  std::uint64_t vocabulary_ = 0;
  std::int64_t newline_ = 0;
  Marks marks_{};
};

}  // namespace

std::unique_ptr<Tokenizer> sentencepiece_tokenizer(const fs::path& program, const fs::path& model) {
  return std::make_unique<SentencePiece>(program, model);
}

void train_sentencepiece(const fs::path& program, const std::vector<std::string>& lines,
                         const SentencePieceTraining& training) {
  talk(program, {"train", training.model.string(), std::to_string(training.vocabulary)}, lines);
}

}  // namespace kith::train
