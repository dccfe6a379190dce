#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kith/base/clock.h"
#include "kith/comm/shm/segment.h"

namespace kith::comm::cuda_ipc {

// Note [Readers leave first]
//
// CUDA forbids to free memory that another process has mapped, and a process that ends frees all it has. So
// the owner must know who reads, also when a reader was killed. Beside the memory lies a small file, and a
// reader has a shared lock (flock) on it from before it maps the memory until after it has unmapped it; the
// kernel drops the lock of a process that dies. The owner frees under the exclusive lock, and first marks the
// file as closed, so that who comes too late maps nothing. What cannot be freed yet is retired: it is tried
// again whenever memory is made, and waited for, boundedly, before the owner leaves.

struct ExportedHead;

// Memory of this process's GPU that others may map.
class Exported {
 public:
  // `bytes` zero bytes. `label` is for people. Error when there is not enough.
  Exported(int device, const std::string& label, std::size_t bytes);
  // What try_free() has not freed stays until the process ends.
  ~Exported() = default;
  Exported(const Exported&) = delete;
  Exported& operator=(const Exported&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  const std::string& label() const { return label_; }
  // What peers map it by.
  shm::Descriptor take_descriptor() { return file_.take_descriptor(); }
  // False while somebody has it mapped. REQUIRES: not freed yet.
  bool try_free();

 private:
  const int device_;
  const std::string label_;
  shm::Segment file_;
  shm::Descriptor lock_;
  ExportedHead* head_ = nullptr;
  void* data_ = nullptr;
};

// A peer's memory, mapped here.
class Mapped {
 public:
  // InputError naming `place` when it is no memory of a GPU or not of `bytes`; Error when its owner has
  // closed it, or the GPU cannot reach it.
  Mapped(int device, const shm::Descriptor& descriptor, std::size_t bytes, const std::string& place);
  ~Mapped();
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  const int device_;
  shm::Descriptor lock_;
  void* data_ = nullptr;
};

// Exported memory that its owner is done with. Safe from any thread.
class Retired {
 public:
  void add(std::unique_ptr<Exported> memory);
  // Frees what nobody has mapped.
  void sweep();
  // Sweeps until nothing is left, at most until the deadline. Returns the labels of what is.
  std::vector<std::string> sweep_until(Deadline deadline);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Exported>> memory_;  // guarded by mutex_
};

}  // namespace kith::comm::cuda_ipc
