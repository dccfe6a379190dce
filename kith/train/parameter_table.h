#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "kith/engine/segment.h"

namespace kith::train {

// The floating-point parameters of a module, each block of memory once: what the engine calls segments. Knows
// how to point the module's tensors at other memory, and where their gradients lie. One thread.
class ParameterTable {
 public:
  // InputError names a parameter that is not dense, not on the device of the others, of a type kith does not
  // train, or that overlaps another.
  explicit ParameterTable(const torch::nn::Module& module);

  std::size_t size() const { return entries_.size(); }
  // Where all of them lie; the CPU when there are none.
  torch::Device device() const;
  // Of entry i: the first name in registration order, and all of them (tied parameters have several).
  const std::string& name(std::size_t i) const { return entries_[i].names.front(); }
  const std::vector<std::string>& names(std::size_t i) const { return entries_[i].names; }
  const torch::Tensor& tensor(std::size_t i) const { return entries_[i].tensors.front(); }
  // True when several tensor objects share the memory.
  bool aliased(std::size_t i) const { return entries_[i].tensors.size() > 1; }

  std::vector<engine::Segment> segments() const;

  // Memory of torch's own for entry i, flat, in storage order. Not initialised.
  torch::Tensor own_memory(std::size_t i) const;
  // The memory that entry i lies in now, flat; shares its ownership.
  torch::Tensor present_memory(std::size_t i) const;
  // A flat tensor over foreign memory, which must outlive its use.
  torch::Tensor wrap(std::size_t i, void* memory) const;

  // The tensors of entry i lie in `flat` from now on. Graphs that saved them throw when used.
  void point(std::size_t i, const torch::Tensor& flat);
  // The engine wrote to the memory that the tensors of entry i lie in.
  void note_written(std::size_t i);
  // After any of these, for all entries together: tensors may share a version counter.
  void record_versions();
  // InputError names a tensor that was changed or moved by somebody else since the last record_versions().
  void require_untouched() const;
  // The same, for tensors that may have changed where they lie.
  void require_in_place() const;

  // The gradient of entry i in storage order; undefined when it has none, or is frozen. May share the
  // gradient's memory.
  torch::Tensor gradient(std::size_t i) const;
  // True when none of its tensors asks for a gradient.
  bool frozen(std::size_t i) const;
  // Whether entry i's gradient, one tensor's, lies at `data`.
  bool gradient_lies_at(std::size_t i, const void* data) const;
  // From now on `flat` is entry i's gradient; nothing happens to a frozen one.
  void set_gradient(std::size_t i, const torch::Tensor& flat);
  void scale_gradients(double factor);
  void zero_gradients(bool set_to_none);

 private:
  struct Entry {
    std::vector<std::string> names;
    std::vector<torch::Tensor> tensors;    // distinct objects over the same memory
    std::vector<std::int64_t> versions{};  // of each, when last recorded
    const void* data = nullptr;            // where they lie
    std::size_t count = 0;
  };
  void add(const std::string& name, const torch::Tensor& parameter);
  void require_apart() const;
  torch::TensorOptions options(std::size_t i) const;

  std::vector<Entry> entries_;
};

}  // namespace kith::train
