#include "kith/train/data/token_file.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/base/text.h"
#include "kith/train/data/token_meta.h"

namespace kith::train {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::uint64_t kLookedThrough = 1 << 20;  // tokens of each file, before anybody is started

std::span<const std::uint16_t> map(const std::string& place) {
  const int file = ::open(place.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    throw InputError(cat("cannot be read: ", std::strerror(errno)), place,
                     "kith data tokens makes train.bin and val.bin");
  }
  struct stat about {};
  ::fstat(file, &about);
  const auto bytes = static_cast<std::size_t>(about.st_size);
  const bool regular = S_ISREG(about.st_mode);
  void* const memory =
      regular && bytes > 0 ? ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
  const int problem = errno;
  ::close(file);
  if (!regular) throw InputError("is not a file", place);
  if (bytes == 0) throw InputError("is empty", place, "kith data tokens makes train.bin and val.bin");
  if (memory == MAP_FAILED) throw InputError(cat("cannot be mapped: ", std::strerror(problem)), place);
  const std::span<const std::uint16_t> tokens(static_cast<const std::uint16_t*>(memory), bytes / 2);
  if (bytes % 2 == 0) return tokens;
  ::munmap(memory, bytes);
  throw InputError(cat("has ", bytes, " bytes and ends within a token"), place,
                   "two bytes a token; fetch or make it again");
}

}  // namespace

TokenFile::TokenFile(const std::filesystem::path& file) : place_(file.string()), tokens_(map(place_)) {}

TokenFile::~TokenFile() {
  ::munmap(const_cast<std::uint16_t*>(tokens_.data()), tokens_.size_bytes());
}

Tokens::Tokens(const std::filesystem::path& folder, const Options& options)
    : options_(options), train_(folder / "train.bin"), validation_(folder / "val.bin") {
  if (const auto meta = read_token_meta(folder); meta && meta->vocabulary > options.vocabulary) {
    throw InputError(
        cat("tells of ", meta->vocabulary, " tokens, and model.vocabulary is ", options.vocabulary),
        token_meta_file(folder).string(), cat("set model.vocabulary = ", (meta->vocabulary + 63) / 64 * 64));
  }
  for (const TokenFile* file : {&train_, &validation_}) {
    // Training keeps one sample back to move its cuts in.
    const std::uint64_t least = (file == &train_ ? 2 : 1) * (options.context + 1);
    if (file->tokens().size() < least) {
      throw InputError(
          cat("has ", file->tokens().size(), " tokens, too few for samples of ", options.context),
          file->place(), cat("at least ", least, ", or a smaller model.context"));
    }
    const std::uint64_t looked_at = std::min<std::uint64_t>(kLookedThrough, file->tokens().size());
    for (std::uint64_t at = 0; at + options.context + 1 <= looked_at; at += options.context + 1)
      cut(*file, at);
  }
}

std::uint64_t Tokens::train_samples() const {
  return (train_.tokens().size() - 1) / options_.context - 1;
}

std::uint64_t Tokens::validation_samples() const {
  return (validation_.tokens().size() - 1) / options_.context;
}

std::span<const std::uint16_t> Tokens::train(std::uint64_t sample, std::uint64_t epoch) const {
  return cut(train_, hash_words(epoch) % options_.context + sample * options_.context);
}

std::span<const std::uint16_t> Tokens::validation(std::uint64_t sample) const {
  return cut(validation_, sample * options_.context);
}

std::span<const std::uint16_t> Tokens::cut(const TokenFile& file, std::uint64_t first) const {
  const auto tokens = file.tokens().subspan(first, options_.context + 1);
  const auto largest = std::ranges::max_element(tokens);
  if (*largest < options_.vocabulary) return tokens;
  throw InputError(cat("holds the token ", *largest, " at place ",
                       first + static_cast<std::uint64_t>(largest - tokens.begin()),
                       ", and model.vocabulary is ", options_.vocabulary),
                   file.place(), "set model.vocabulary to that of the tokens");
}

}  // namespace kith::train
