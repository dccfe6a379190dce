#include "kith/train/export.h"

#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickler.h>
#include <torch/serialize.h>

#include "kith/base/text.h"
#include "kith/train/durable_file.h"
#include "kith/train/safetensors.h"
#include "kith/train/store_report.h"
#include "kith/train/tensor_bytes.h"

namespace kith::train {
namespace {

void write_whole(const std::filesystem::path& path, std::span<const char> bytes) {
  DurableFile file(path);
  file.write(std::as_bytes(bytes));
  file.commit();
}

void write_module(const std::shared_ptr<torch::nn::Module>& module, const std::filesystem::path& path) {
  std::ostringstream out;
  torch::save(module, out);
  write_whole(path, out.str());
}

// A dictionary as Python's torch.save writes it. torch::pickle_save would tag it with its TorchScript type,
// and the tag is something that torch.load of 2.6 and later refuses.
std::string pickled_dictionary(const c10::Dict<std::string, torch::Tensor>& state) {
  std::string pickled;
  torch::jit::Pickler pickler([&](const char* bytes, std::size_t count) { pickled.append(bytes, count); },
                              nullptr, nullptr, nullptr, nullptr, /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(state);
  pickler.stop();
  std::string archive;
  caffe2::serialize::PyTorchStreamWriter writer([&](const void* bytes, std::size_t count) {
    archive.append(static_cast<const char*>(bytes), count);
    return count;
  });
  writer.writeRecord("data.pkl", pickled.data(), pickled.size());
  std::size_t number = 0;
  for (const torch::Tensor& tensor : pickler.tensorData()) {
    writer.writeRecord(cat("data/", number++), tensor.data_ptr(), tensor.nbytes());
  }
  writer.writeEndOfFile();
  return archive;
}

// Parameters and buffers by name, in host memory, row by row.
std::vector<std::pair<std::string, torch::Tensor>> named_tensors(const torch::nn::Module& module) {
  std::vector<std::pair<std::string, torch::Tensor>> tensors;
  const auto put = [&](const std::string& name, const torch::Tensor& tensor) {
    // A record of a .pt file holds a whole storage: each tensor gets one of its own.
    if (tensor.defined())
      tensors.emplace_back(name, tensor.detach().cpu().clone(torch::MemoryFormat::Contiguous));
  };
  for (const auto& item : module.named_parameters())
    put(item.key(), item.value());
  for (const auto& item : module.named_buffers())
    put(item.key(), item.value());
  return tensors;
}

void write_state_dict(const torch::nn::Module& module, const std::filesystem::path& path) {
  c10::Dict<std::string, torch::Tensor> state;
  for (const auto& [name, tensor] : named_tensors(module))
    state.insert(name, tensor);
  write_whole(path, pickled_dictionary(state));
}

// Tensors of types that the container does not know are left out.
void write_safetensors(const torch::nn::Module& module, const std::filesystem::path& path) {
  const auto named = named_tensors(module);
  std::vector<NamedTensor> tensors;
  for (const auto& [name, tensor] : named) {
    const std::string type = file_type_of(tensor);
    const std::span bytes(static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes());
    if (!type.empty()) tensors.push_back({name, type, tensor.sizes().vec(), bytes});
  }
  const std::string head = safetensors_head(tensors, {{"format", "pt"}});
  DurableFile file(path);
  file.write(std::as_bytes(std::span(head)));
  for (const NamedTensor& tensor : tensors)
    file.write(tensor.bytes);
  file.commit();
}

}  // namespace

ExportedFiles export_model(DecentralizedDataParallel& model, const std::filesystem::path& stem) {
  const ExportedFiles files{stem.string() + ".pt", stem.string() + "-state.pt",
                            stem.string() + ".safetensors"};
  const auto guard = model.average();
  const std::uint64_t number = model.agreement_number();
  StoreReport reports(model.world(), cat("export/", model.options().name, "/", model.steps(), "/", number),
                      model.options().patience);
  reports.run([] { return std::string(); },
              [&](const std::vector<std::string>&) {
                if (stem.has_parent_path()) std::filesystem::create_directories(stem.parent_path());
                write_module(model.module(), files.module);
                write_state_dict(*model.module(), files.state_dict);
                write_safetensors(*model.module(), files.tensors);
                return std::string();
              });
  return files;
}

}  // namespace kith::train
