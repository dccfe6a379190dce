#include "kith/train/data/token_meta.h"

#include <nlohmann/json.hpp>
#include <span>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/data/file.h"
#include "kith/train/durable_file.h"

namespace kith::train {

std::filesystem::path token_meta_file(const std::filesystem::path& folder) {
  return folder / "meta.json";
}

std::optional<TokenMeta> read_token_meta(const std::filesystem::path& folder) {
  const std::filesystem::path file = token_meta_file(folder);
  std::error_code problem;
  if (!std::filesystem::exists(file, problem)) return {};
  const std::vector<std::uint8_t> bytes = read_bytes(file);
  const auto json = nlohmann::json::parse(bytes.begin(), bytes.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("vocabulary") || !json["vocabulary"].is_number_unsigned() ||
      !json.contains("tokenizer") || !json["tokenizer"].is_string()) {
    throw InputError("wanted: {\"vocabulary\": NUMBER, \"tokenizer\": TEXT}", file.string(),
                     "kith data writes it; or remove it");
  }
  TokenMeta meta{json["vocabulary"].get<std::uint64_t>(), json["tokenizer"].get<std::string>()};
  const auto mark = [&](const char* name) -> std::int64_t {
    const auto found = json.find(name);
    return found != json.end() && found->is_number_unsigned() ? found->get<std::int64_t>() : -1;
  };
  meta.begin = mark("begin");
  meta.end = mark("end");
  return meta;
}

void write_token_meta(const std::filesystem::path& folder, const TokenMeta& meta) {
  nlohmann::json json{{"vocabulary", meta.vocabulary}, {"tokenizer", meta.tokenizer}};
  if (meta.end >= 0) {
    json["begin"] = meta.begin;
    json["end"] = meta.end;
  }
  const std::string text = json.dump() + "\n";
  DurableFile file(token_meta_file(folder));
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace kith::train
