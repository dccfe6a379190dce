#include "kith/train/parameter_table.h"

#include <algorithm>
#include <utility>

#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/base/text.h"
#include "kith/train/compat.h"

namespace kith::train {
namespace {

DType dtype_of_tensor(const std::string& name, const torch::Tensor& t) {
  switch (t.scalar_type()) {
    case torch::kFloat32:
      return DType::f32;
    case torch::kFloat64:
      return DType::f64;
    case torch::kBFloat16:
      return DType::bf16;
    case torch::kFloat16:
      return DType::f16;
    default:
      break;
  }
  throw InputError(cat("has type ", c10::toString(t.scalar_type())), cat("parameter ", name),
                   "kith trains float, double, bfloat16 and half");
}

void require_trainable(const std::string& name, const torch::Tensor& t) {
  const std::string place = cat("parameter ", name);
  if (t.layout() != torch::kStrided) throw InputError("is sparse", place, "make it dense");
  if (!t.is_non_overlapping_and_dense()) {
    throw InputError(
        cat("has sizes ", t.sizes(), " and strides ", t.strides(), ", which leave holes or overlap"), place,
        "give it memory of its own, for example by clone()");
  }
  dtype_of_tensor(name, t);
}

// Equal where it matters: a stride of a dimension of one element is never used.
bool same_layout(const torch::Tensor& a, const torch::Tensor& b) {
  if (a.sizes() != b.sizes()) return false;
  for (std::int64_t d = 0; d < a.dim(); ++d) {
    if (a.size(d) > 1 && a.stride(d) != b.stride(d)) return false;
  }
  return true;
}

torch::Tensor flat_gradient(const torch::Tensor& parameter) {
  torch::Tensor g = parameter.grad().detach();
  if (g.layout() != torch::kStrided) g = g.to_dense();
  if (g.scalar_type() != parameter.scalar_type() || !same_layout(g, parameter)) {
    const torch::Tensor laid =
        torch::empty_strided(parameter.sizes(), parameter.strides(), parameter.options());
    laid.detach_().copy_(g);
    g = laid;
  }
  return g.as_strided({parameter.numel()}, {1});
}

const std::byte* end_of(const void* data, std::size_t bytes) {
  return static_cast<const std::byte*>(data) + bytes;
}

}  // namespace

ParameterTable::ParameterTable(const torch::nn::Module& module) {
  for (const auto& item : module.named_parameters())
    add(item.key(), item.value());
  require_apart();
  record_versions();
}

void ParameterTable::add(const std::string& name, const torch::Tensor& parameter) {
  if (!parameter.defined() || parameter.numel() == 0) return;
  if (!parameter.is_floating_point() && !parameter.requires_grad()) return;
  require_trainable(name, parameter);
  if (!entries_.empty() && parameter.device() != device()) {
    throw InputError(
        cat("is on ", parameter.device().str(), ", parameter ", this->name(0), " on ", device().str()),
        cat("parameter ", name), "move the whole module to one device");
  }
  for (Entry& entry : entries_) {
    if (entry.data != parameter.data_ptr()) continue;
    if (entry.count != static_cast<std::size_t>(parameter.numel()) ||
        entry.tensors.front().scalar_type() != parameter.scalar_type()) {
      continue;  // require_apart names it
    }
    entry.names.push_back(name);
    const bool known = std::any_of(entry.tensors.begin(), entry.tensors.end(),
                                   [&](const torch::Tensor& t) { return t.is_same(parameter); });
    if (!known) entry.tensors.push_back(parameter);
    return;
  }
  Entry entry{{name}, {parameter}, {}, parameter.data_ptr(), static_cast<std::size_t>(parameter.numel())};
  entries_.push_back(std::move(entry));
}

void ParameterTable::require_apart() const {
  std::vector<const Entry*> order;
  for (const Entry& entry : entries_)
    order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) { return a->data < b->data; });
  for (std::size_t k = 1; k < order.size(); ++k) {
    const Entry& before = *order[k - 1];
    const std::size_t bytes = before.count * before.tensors.front().element_size();
    if (end_of(before.data, bytes) > order[k]->data) {
      throw InputError(cat("shares memory with part of parameter ", before.names.front()),
                       cat("parameter ", order[k]->names.front()), "tie whole parameters, or none of them");
    }
  }
}

void ParameterTable::record_versions() {
  for (Entry& entry : entries_) {
    entry.versions.clear();
    for (const torch::Tensor& t : entry.tensors)
      entry.versions.push_back(compat::version_of(t));
  }
}

std::vector<engine::Segment> ParameterTable::segments() const {
  std::vector<engine::Segment> segments;
  for (const Entry& entry : entries_) {
    const torch::Tensor& t = entry.tensors.front();
    std::uint64_t digest = hash_words(t.dim());
    for (std::int64_t d = 0; d < t.dim(); ++d)
      digest = hash_words(digest, t.size(d), t.stride(d));
    segments.push_back(
        {entry.names.front(), t.data_ptr(), entry.count, dtype_of_tensor(entry.names.front(), t), digest});
  }
  return segments;
}

torch::Device ParameterTable::device() const {
  return entries_.empty() ? torch::Device(torch::kCPU) : entries_.front().tensors.front().device();
}

torch::TensorOptions ParameterTable::options(std::size_t i) const {
  return torch::TensorOptions().dtype(entries_[i].tensors.front().scalar_type()).device(device());
}

torch::Tensor ParameterTable::own_memory(std::size_t i) const {
  return torch::empty({static_cast<std::int64_t>(entries_[i].count)}, options(i));
}

torch::Tensor ParameterTable::present_memory(std::size_t i) const {
  return entries_[i].tensors.front().variable_data().as_strided(
      {static_cast<std::int64_t>(entries_[i].count)}, {1});
}

torch::Tensor ParameterTable::wrap(std::size_t i, void* memory) const {
  return torch::from_blob(memory, {static_cast<std::int64_t>(entries_[i].count)}, options(i));
}

void ParameterTable::point(std::size_t i, const torch::Tensor& flat) {
  Entry& entry = entries_[i];
  entry.data = flat.data_ptr();
  for (torch::Tensor& t : entry.tensors)
    t.set_data(flat.as_strided(t.sizes(), t.strides()));
  note_written(i);
}

void ParameterTable::note_written(std::size_t i) {
  for (const torch::Tensor& t : entries_[i].tensors)
    compat::bump_version(t);  // set_data alone does not
}

void ParameterTable::require_untouched() const {
  require_in_place();
  for (const Entry& entry : entries_) {
    for (std::size_t k = 0; k < entry.tensors.size(); ++k) {
      if (compat::version_of(entry.tensors[k]) == entry.versions[k]) continue;
      throw InputError("was changed since the last step", cat("parameter ", entry.names.front()),
                       "neighbours may be reading it: change parameters under the guard edit()");
    }
  }
}

void ParameterTable::require_in_place() const {
  for (const Entry& entry : entries_) {
    for (const torch::Tensor& t : entry.tensors) {
      if (t.data_ptr() == entry.data) continue;
      throw InputError("was moved to other memory since the last step",
                       cat("parameter ", entry.names.front()),
                       "neighbours may be reading it: change parameters under the guard edit()");
    }
  }
}

torch::Tensor ParameterTable::gradient(std::size_t i) const {
  torch::Tensor sum;
  for (const torch::Tensor& t : entries_[i].tensors) {
    if (!t.requires_grad() || !t.grad().defined()) continue;
    const torch::Tensor g = flat_gradient(t);
    sum = sum.defined() ? sum + g : g;
  }
  return sum;
}

bool ParameterTable::frozen(std::size_t i) const {
  const auto& tensors = entries_[i].tensors;
  return std::none_of(tensors.begin(), tensors.end(),
                      [](const torch::Tensor& t) { return t.requires_grad(); });
}

bool ParameterTable::gradient_lies_at(std::size_t i, const void* data) const {
  const torch::Tensor& t = entries_[i].tensors.front();
  return data && !aliased(i) && t.grad().defined() && t.grad().layout() == torch::kStrided &&
         t.grad().data_ptr() == data;
}

void ParameterTable::set_gradient(std::size_t i, const torch::Tensor& flat) {
  if (frozen(i) || gradient_lies_at(i, flat.data_ptr())) return;
  bool given = false;
  for (torch::Tensor& t : entries_[i].tensors) {
    if (!t.requires_grad()) continue;
    if (given) {
      t.mutable_grad().reset();  // the first tensor's is the sum of all
    } else {
      t.mutable_grad() = flat.as_strided(t.sizes(), t.strides());
    }
    given = true;
  }
}

void ParameterTable::scale_gradients(double factor) {
  const torch::NoGradGuard no_grad;
  for (Entry& entry : entries_) {
    for (torch::Tensor& t : entry.tensors)
      if (t.grad().defined()) t.mutable_grad().mul_(factor);
  }
}

void ParameterTable::zero_gradients(bool set_to_none) {
  for (Entry& entry : entries_) {
    for (torch::Tensor& t : entry.tensors) {
      if (!t.grad().defined()) continue;
      if (set_to_none) {
        t.mutable_grad().reset();
      } else {
        t.mutable_grad().detach_();
        t.mutable_grad().zero_();
      }
    }
  }
}

}  // namespace kith::train
