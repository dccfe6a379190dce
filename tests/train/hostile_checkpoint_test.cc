// Checkpoints with good checksums and bad contents: each is refused by name, or resumed as it should be.
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "kith/train/checkpoint.h"
#include "kith/train/crc64.h"
#include "tests/train/normalised.h"

namespace kith::train {
namespace {

using namespace testing;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::uint64_t kTestSeed = 11;

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void put(const fs::path& file, const std::string& text) {
  fs::remove_all(file);
  std::ofstream(file, std::ios::binary) << text;
}

// A good checkpoint of one worker in parts, to be written again with changes.
class Hostile : public ::testing::Test {
 protected:
  Hostile() : saved_(save()) {
    manifest_ = Json::parse(text_of(saved_ / "manifest.json"));
    const std::string file = text_of(saved_ / worker_file_name(0));
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    header_ = Json::parse(file.substr(8, length));
    data_ = file.substr(8 + length);
  }

  // With the worker file's size and checksum as they are, and in the manifest.
  void write(Json manifest, const Json& header, const std::string& data, bool sign = true) const {
    const std::string text = header.dump();
    const std::uint64_t length = text.size();
    write_file(std::move(manifest), std::string(reinterpret_cast<const char*>(&length), 8) + text + data,
               sign);
  }
  void write_file(Json manifest, const std::string& file, bool sign = true) const {
    put(saved_ / worker_file_name(0), file);
    if (sign) {
      manifest["files"][0]["bytes"] = file.size();
      manifest["files"][0]["crc64"] = hex_of(crc64(std::as_bytes(std::span(file))));
    }
    put(saved_ / "manifest.json", manifest.dump());
  }

  // The message of the refusal; empty when the checkpoint was taken, and then with the model that was saved.
  std::string resume() const {
    Alone alone;
    Normalised network;
    Options options = options_of(kVariant);
    options.resume_from = saved_;
    try {
      DecentralizedDataParallel model(network.ptr(), alone.world(), options);
      EXPECT_EQ(model.steps(), kSteps);
      EXPECT_EQ(everything(*network), model_);
      return "";
    } catch (const InputError& error) {
      return error.what();
    }
  }

  void with_tensor(const std::string& name, const std::string& bytes) const {
    const Json& offsets = header_.at(name).at("data_offsets");
    std::string data = data_;
    ASSERT_EQ(offsets[1].get<std::size_t>() - offsets[0].get<std::size_t>(), bytes.size());
    data.replace(offsets[0].get<std::size_t>(), bytes.size(), bytes);
    write(manifest_, header_, data);
  }
  template <class T>
  static std::string raw(std::initializer_list<T> numbers) {
    return {reinterpret_cast<const char*>(numbers.begin()), numbers.size() * sizeof(T)};
  }

  static constexpr int kSteps = 3;
  const Variant kVariant{"awc", "adam", "complete"};
  const support::TempFolder folder_{};
  std::string model_;
  const fs::path saved_;
  Json manifest_;
  Json header_;
  std::string data_;

 private:
  fs::path save() {
    Alone alone;
    Normalised network;
    DecentralizedDataParallel model(network.ptr(), alone.world(), options_of(kVariant));
    train_normalised(model, network, kSteps);
    model_ = everything(*network);
    return save_checkpoint(model, {folder_.path()});
  }
};

// A value of another kind, size or sign.
Json something_else(Rng& rng, const Json& now) {
  const std::vector<Json> values{nullptr,
                                 true,
                                 -1,
                                 0,
                                 1,
                                 7,
                                 std::numeric_limits<std::int64_t>::max(),
                                 std::numeric_limits<std::uint64_t>::max(),
                                 1e300,
                                 0.5,
                                 "",
                                 "../../etc/passwd",
                                 std::string("a\0b", 3),
                                 Json::array(),
                                 Json::array({1, 2, 3}),
                                 Json::object()};
  while (true) {
    const Json& value = values[rng.below(values.size())];
    if (value != now) return value;
  }
}

TEST_F(Hostile, EveryFieldOfTheManifestIsCheckedOrDoesNotMatter) {
  Rng rng(kTestSeed);
  int refused = 0;
  const Json fields = manifest_.flatten();
  for (const auto& [pointer, unused] : fields.items()) {
    for (int k = 0; k < 4; ++k) {
      Json manifest = manifest_;
      Json& field = manifest[Json::json_pointer(pointer)];
      field = something_else(rng, field);
      SCOPED_TRACE(cat(pointer, " = ", field.dump()));
      write(manifest, header_, data_, false);
      refused += resume().empty() ? 0 : 1;
    }
  }
  EXPECT_GT(refused, 40);
  for (const auto& [key, unused] : manifest_.items()) {
    Json manifest = manifest_;
    manifest.erase(key);
    write(manifest, header_, data_, false);
    const std::string message = resume();
    if (key == "buckets") continue;  // then it is cut as the job says
    EXPECT_THAT(message, ::testing::AllOf(HasSubstr("manifest.json"), HasSubstr(cat(key, " is missing"))));
  }
}

TEST_F(Hostile, EveryFieldOfAWorkersHeaderIsChecked) {
  Rng rng(kTestSeed);
  const Json fields = header_.flatten();
  for (const auto& [pointer, unused] : fields.items()) {
    Json header = header_;
    Json& field = header[Json::json_pointer(pointer)];
    field = something_else(rng, field);
    SCOPED_TRACE(cat(pointer, " = ", field.dump()));
    write(manifest_, header, data_);
    EXPECT_THAT(resume(), HasSubstr("worker-0.safetensors"));
  }
  for (const auto& [name, unused] : header_.items()) {
    Json header = header_;
    header.erase(name);
    write(manifest_, header, data_);
    EXPECT_THAT(resume(), HasSubstr("worker-0.safetensors")) << "without " << name;
  }
}

TEST_F(Hostile, NumbersThatCannotBeAreRefusedByTheNameOfTheirTensor) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto refused = [&](const std::string& name, const std::string& bytes) {
    with_tensor(name, bytes);
    EXPECT_THAT(resume(),
                ::testing::AllOf(HasSubstr("worker-0.safetensors"), HasSubstr(cat("'", name, "'"))));
  };
  for (const std::int64_t steps : {std::int64_t{-1}, std::int64_t{kSteps + 1}, std::int64_t{1} << 62})
    refused("steps.first.weight", raw({steps}));
  for (const double bad : {nan, inf, -inf, -1.0}) {
    refused("groups", raw({bad, 0.0}));
    refused("groups", raw({1e-3, bad}));
  }
  const std::size_t buckets = manifest_["buckets"].size();
  for (const double bad : {nan, inf, 0.0, -1.0}) {
    std::string weights;
    for (std::size_t b = 0; b < buckets; ++b)
      weights += raw({b == 1 ? bad : 1.0});
    refused("push_weight", weights);
  }
  const std::size_t random = header_["random"]["shape"][0];
  refused("random", std::string(random, '\0'));
  refused("random", std::string(random, '\xff'));
}

TEST_F(Hostile, BytesOfTheGeneratorAreTakenOrRefusedButNeverFatal) {
  Rng rng(kTestSeed);
  const Json& offsets = header_.at("random").at("data_offsets");
  const std::string good =
      data_.substr(offsets[0], offsets[1].get<std::size_t>() - offsets[0].get<std::size_t>());
  for (int k = 0; k < 40; ++k) {
    std::string bytes = good;
    for (int n = 0; n < 20; ++n)
      bytes[rng.below(bytes.size())] = static_cast<char>(rng.below(256));
    with_tensor("random", bytes);
    resume();
  }
}

TEST_F(Hostile, BucketsOfAnotherModelAreRefused) {
  for (const char* buckets :
       {"[[[0, 12]]]", "[[[99, 1]]]", "[[]]", "[[[0, 0]]]", "[[[0, 6], [0, 6]]]", "[[[0]]]", "[5]"}) {
    Json manifest = manifest_;
    manifest["buckets"] = Json::parse(buckets);
    write(manifest, header_, data_);
    EXPECT_THAT(resume(), ::testing::AllOf(HasSubstr("manifest.json"), HasSubstr("buckets"))) << buckets;
  }
}

TEST_F(Hostile, AFileOfAnotherRunIsRefused) {
  Json header = header_;
  header["__metadata__"]["run"] = "0123456789abcdef";
  write(manifest_, header, data_);
  EXPECT_THAT(resume(), HasSubstr("of run 0123456789abcdef"));
}

TEST_F(Hostile, WhatIsNoPlainFileIsRefusedAtOnce) {
  for (const std::string& name : {std::string("manifest.json"), worker_file_name(0)}) {
    const fs::path path = saved_ / name;
    const std::string good = text_of(path);
    fs::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    EXPECT_THAT(resume(), ::testing::AllOf(HasSubstr(name), HasSubstr("no plain file")));
    fs::remove(path);
    fs::create_directory(path);
    EXPECT_THAT(resume(), ::testing::AllOf(HasSubstr(name), HasSubstr("no plain file")));
    fs::remove(path);
    fs::create_symlink("/dev/zero", path);
    EXPECT_THAT(resume(), ::testing::AllOf(HasSubstr(name), HasSubstr("no plain file")));
    put(path, good);
  }
  EXPECT_EQ(resume(), "");
}

TEST_F(Hostile, JsonOfAnyDepthIsRefused) {
  const std::string deep(200000, '[');
  put(saved_ / "manifest.json", deep);
  EXPECT_THAT(resume(), HasSubstr("manifest.json: nests deeper"));
  const std::string objects = [] {
    std::string text;
    for (int k = 0; k < 200000; ++k)
      text += "{\"a\":";
    return text;
  }();
  const std::uint64_t length = objects.size();
  write_file(manifest_, std::string(reinterpret_cast<const char*>(&length), 8) + objects);
  EXPECT_THAT(resume(), HasSubstr("worker-0.safetensors: nests deeper"));
}

}  // namespace
}  // namespace kith::train
