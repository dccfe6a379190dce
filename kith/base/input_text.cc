#include "kith/base/input_text.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr int kDeepest = 100;

}  // namespace

std::string read_input(const std::string& path) {
  std::string text;
  std::array<char, 65536> piece;
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  while (in.read(piece.data(), piece.size()) || in.gcount() > 0) {
    text.append(piece.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() > kMostBytes)
      throw InputError(cat("goes on beyond ", human_bytes(kMostBytes)), path, "is it the right file?");
  }
  if (!in.eof()) throw InputError(cat("cannot be read: ", std::strerror(errno)), path);
  return text;
}

void require_shallow_json(std::string_view text, std::string_view place) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepest)
        throw InputError(cat("lists in lists, more than ", kDeepest, " deep"), place,
                         "is it the right file?");
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

std::string json_problem(std::string_view message) {
  for (const std::string_view before : {"] ", "parse error at "}) {
    const auto at = message.find(before);
    if (at != std::string_view::npos) message.remove_prefix(at + before.size());
  }
  return std::string(message);
}

}  // namespace kith
