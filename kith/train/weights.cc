#include "kith/train/weights.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <torch/types.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/data/file.h"
#include "kith/train/durable_file.h"
#include "kith/train/models/gpt2_layout.h"
#include "kith/train/safetensors.h"
#include "kith/train/tensor_bytes.h"

namespace kith::train {
namespace {

using Tensors = std::map<std::string, torch::Tensor, std::less<>>;

Tensors tensors_of(const torch::nn::Module& model) {
  Tensors tensors;
  for (const auto& item : model.named_parameters())
    tensors.emplace(item.key(), item.value());
  for (const auto& item : model.named_buffers())
    tensors.emplace(item.key(), item.value());
  return tensors;
}

torch::Tensor tensor_of(const NamedTensor& stored, const std::string& place) {
  const auto types = {torch::kFloat64, torch::kFloat32, torch::kFloat16, torch::kBFloat16, torch::kInt64,
                      torch::kInt32,   torch::kInt16,   torch::kInt8,    torch::kUInt8,    torch::kBool};
  for (const torch::ScalarType type : types) {
    if (file_type_of(torch::empty({0}, type)) != stored.type) continue;
    // clone() also aligns it.
    return torch::from_blob(const_cast<std::byte*>(stored.bytes.data()), stored.shape, type).clone();
  }
  throw InputError(cat("is of type ", stored.type), place, "a type of numbers");
}

// One file's tensors, under the names of the model.
class Stored {
 public:
  explicit Stored(const std::filesystem::path& file) : place_(file.string()), bytes_(read_bytes(file)) {
    const Safetensors parsed = parse_safetensors(std::as_bytes(std::span(bytes_)), place_);
    gpt2_ = std::ranges::any_of(parsed.tensors, [](const NamedTensor& t) {
      return without_gpt2_prefix(t.name) == gpt2_name("table.weight").name;
    });
    for (const NamedTensor& tensor : parsed.tensors) {
      if (gpt2_ && is_gpt2_extra(tensor.name)) continue;
      tensors_.emplace(gpt2_ ? without_gpt2_prefix(tensor.name) : std::string_view(tensor.name), tensor);
    }
  }

  // The tensor of the name that is the model's own, with its shape there.
  torch::Tensor take(const std::string& name) {
    const Gpt2Name theirs = gpt2_ ? gpt2_name(name) : Gpt2Name{name, false};
    const auto found = tensors_.find(theirs.name);
    if (found == tensors_.end()) {
      throw InputError(cat("has no '", theirs.name.empty() ? name : theirs.name, "'"), place_,
                       "the model of the job must be the file's: its name, sizes and biases");
    }
    const torch::Tensor tensor = tensor_of(found->second, cat(place_, ": ", theirs.name));
    tensors_.erase(found);
    return theirs.turned ? tensor.t() : tensor;
  }

  // Padding of a vocabulary: the file of GPT-2 has 50257 rows, a model that computes fast 50304.
  bool may_have_fewer_rows(const std::string& name) const { return gpt2_ && name == "table.weight"; }
  const std::string& place() const { return place_; }
  void require_empty() const {
    if (tensors_.empty()) return;
    throw InputError(cat("holds '", tensors_.begin()->first, "', which the model does not have"), place_,
                     "the model of the job must be the file's: its name, sizes and biases");
  }

 private:
  const std::string place_;
  const std::vector<std::uint8_t> bytes_;
  bool gpt2_ = false;
  std::map<std::string, NamedTensor, std::less<>> tensors_;
};

}  // namespace

void load_weights(torch::nn::Module& model, const std::filesystem::path& file) {
  const torch::NoGradGuard no_grad;
  Stored stored(file);
  for (auto& [name, tensor] : tensors_of(model)) {
    const torch::Tensor value = stored.take(name);
    torch::Tensor to = tensor;
    if (stored.may_have_fewer_rows(name) && value.dim() == 2 && value.size(0) < to.size(0))
      to = to.narrow(0, 0, value.size(0));
    if (value.sizes() != to.sizes()) {
      throw InputError(cat("'", name, "' has sizes ", value.sizes(), ", and the model's are ", to.sizes()),
                       stored.place(), "the model of the job must be the file's");
    }
    to.copy_(value);
  }
  stored.require_empty();
}

void write_gpt2(const torch::nn::Module& model, const std::filesystem::path& path) {
  Tensors tensors;
  for (const auto& item : model.named_parameters()) {
    const Gpt2Name theirs = gpt2_name(item.key());
    if (theirs.name.empty())
      throw InputError(cat("'", item.key(), "' is no parameter of a gpt"), "model", "model.name = \"gpt\"");
    const torch::Tensor value = item.value().detach().cpu().to(torch::kFloat32);
    tensors[theirs.name] = (theirs.turned ? value.t() : value).contiguous();
    constexpr std::string_view kWeight = "weight";
    // Every weight but the tables' has a bias there.
    if (!item.key().ends_with(kWeight) || item.key() == "table.weight" || item.key() == "positions.weight")
      continue;
    const std::string bias = theirs.name.substr(0, theirs.name.size() - kWeight.size()) + "bias";
    tensors.emplace(bias, torch::zeros({value.size(0)}));
  }
  std::vector<NamedTensor> named;
  for (const auto& [name, tensor] : tensors) {
    named.push_back({cat("transformer.", name), "F32", tensor.sizes().vec(),
                     std::span(static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes())});
  }
  const std::string head = safetensors_head(named, {{"format", "pt"}});
  DurableFile file(path);
  file.write(std::as_bytes(std::span(head)));
  for (const NamedTensor& tensor : named)
    file.write(tensor.bytes);
  file.commit();
}

}  // namespace kith::train
