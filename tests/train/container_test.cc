// Checkpoints and exports as others read them: safetensors files, by the standard library of Python.
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include <gmock/gmock.h>

#include "kith/train/checkpoint.h"
#include "kith/train/export.h"
#include "tests/train/normalised.h"

namespace kith::train {
namespace {

using namespace testing;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

// What read_safetensors.py prints: "dtype shape values" by name, and the metadata.
struct Printed {
  std::map<std::string, std::string> metadata;
  std::map<std::string, std::string> heads;  // "F32 [4, 3]"
  std::map<std::string, std::vector<double>> values;
};

Printed read_in_python(const fs::path& file, const fs::path& folder) {
  const std::string out = (folder / "printed").string();
  const std::string command =
      cat(KITH_PYTHON, " -S ", KITH_READ_SAFETENSORS, " ", file.string(), " > ", out, " 2>&1");
  const int status = std::system(command.c_str());
  std::ifstream in(out);
  Printed printed;
  std::string all;
  for (std::string line; std::getline(in, line);) {
    all += line + "\n";
    std::istringstream words(line);
    std::string kind, name, dtype;
    words >> kind >> name >> dtype;
    if (kind == "metadata") printed.metadata[name] = dtype;
    if (kind != "tensor") continue;
    std::string shape;
    std::getline(words, shape, ']');
    printed.heads[name] = dtype + shape + "]";
    for (std::string value; words >> value;)
      printed.values[name].push_back(std::strtod(value.c_str(), nullptr));
  }
  EXPECT_EQ(status, 0) << command << ": " << all;
  return printed;
}

std::vector<double> numbers(const torch::Tensor& tensor) {
  const torch::Tensor flat = tensor.detach().cpu().to(torch::kFloat64).contiguous().reshape({-1});
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

std::string shape_in_python(const torch::Tensor& tensor) {
  std::ostringstream out;
  out << " [";
  for (std::int64_t d = 0; d < tensor.dim(); ++d)
    out << (d > 0 ? ", " : "") << tensor.size(d);
  return out.str() + "]";
}

TEST(Container, PythonReadsCheckpointAndExportWithItsStandardLibraryAlone) {
  const support::TempFolder folder;
  Alone alone;
  Normalised network;
  Options options = options_of({"awc", "accum-adamw", "complete"});  // buckets of 64 bytes
  DecentralizedDataParallel model(network.ptr(), alone.world(), options);
  train_normalised(model, network, 5);
  const std::string position = "the data";
  const fs::path saved = save_checkpoint(model, {folder.path(), 2, std::as_bytes(std::span(position))});
  const Printed worker = read_in_python(saved / "worker-0.safetensors", folder.path());
  EXPECT_EQ(worker.metadata.at("format"), "kith-checkpoint");
  EXPECT_EQ(worker.metadata.at("version"), "2");
  EXPECT_EQ(worker.metadata.at("step"), "5");
  EXPECT_EQ(worker.metadata.at("run").size(), 16u);
  for (const auto& item : network->named_parameters()) {
    SCOPED_TRACE(item.key());
    EXPECT_EQ(worker.heads.at("model." + item.key()), "F32" + shape_in_python(item.value()));
    EXPECT_EQ(worker.values.at("model." + item.key()), numbers(item.value()));
    for (const char* state : {"exp_avg.", "exp_avg_sq.", "accumulated."})
      EXPECT_EQ(worker.heads.at(state + item.key()), "F32" + shape_in_python(item.value()));
    EXPECT_EQ(worker.heads.at("steps." + item.key()), "I64 []");
    EXPECT_EQ(worker.values.at("steps." + item.key()), std::vector{5.0});
  }
  for (const auto& item : network->named_buffers())
    EXPECT_EQ(worker.values.at("buffer." + item.key()), numbers(item.value())) << item.key();
  EXPECT_EQ(worker.values.at("position"), std::vector<double>(position.begin(), position.end()));
  EXPECT_EQ(worker.heads.at("groups"), "F64 [1, 2]");

  const ExportedFiles files = export_model(model, folder.path() / "mean");
  const Printed mean = read_in_python(files.tensors, folder.path());
  EXPECT_EQ(mean.values.size(), network->named_parameters().size() + network->named_buffers().size());
  for (const auto& group : {network->named_parameters(), network->named_buffers()}) {
    for (const auto& item : group)
      EXPECT_EQ(mean.values.at(item.key()), numbers(item.value())) << item.key();
  }
}

std::string file_with(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
}

TEST(Safetensors, RefusesHeadersThatDoNotFitTheFileAndNamesTheField) {
  const auto problem = [](const std::string& file) {
    return message_of([&] { parse_safetensors(std::as_bytes(std::span(file)), "f"); });
  };
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(problem(file_with(good, "12345678")), "nothing was thrown");
  EXPECT_THAT(problem(file_with(good, "1234567")), HasSubstr("f: a.data_offsets[1]"));
  EXPECT_THAT(problem(file_with(good, "123456789")), HasSubstr("end of the last tensor"));
  EXPECT_THAT(problem("1234567"), HasSubstr("7 in all"));
  EXPECT_THAT(problem(file_with(good, "12345678").replace(0, 8, 8, '\xff')), HasSubstr("header has"));
  struct Case {
    const char* tensor;
    const char* message;
  };
  for (const Case& bad : {
           Case{R"({"dtype":"F31","shape":[2],"data_offsets":[0,8]})", "a.dtype"},
           Case{R"({"dtype":4,"shape":[2],"data_offsets":[0,8]})", "a.dtype"},
           Case{R"({"shape":[2],"data_offsets":[0,8]})", "a.dtype is missing"},
           Case{R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})", "a.shape"},
           Case{R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})", "a.shape[0]"},
           Case{R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})", "a.shape[0]"},
           Case{R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]})", "a.shape[0]"},
           Case{R"({"dtype":"F32","shape":[1099511627776,1099511627776],"data_offsets":[0,8]})", "a.shape"},
           Case{R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})", "a.data_offsets"},
           Case{R"({"dtype":"F32","shape":[2],"data_offsets":[0,8,8]})", "a.data_offsets"},
           Case{R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})", "a.data_offsets"},
           Case{R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})", "leaves a hole"},
           Case{R"([])", "a is array"},
       }) {
    EXPECT_THAT(problem(file_with(cat("{\"a\":", bad.tensor, "}"), "12345678")), HasSubstr(bad.message))
        << bad.tensor;
  }
  EXPECT_THAT(problem(file_with(std::string(200000, '['), "")), HasSubstr("nests deeper"));
  EXPECT_THAT(problem(file_with("{\"__metadata__\":{\"x\":1}}", "")), HasSubstr("__metadata__.x"));
  EXPECT_THAT(problem(file_with("{", "")), HasSubstr("no JSON"));
}

}  // namespace
}  // namespace kith::train
