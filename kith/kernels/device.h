#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "kith/base/pin.h"
#include "kith/kernels/codec_kernels.h"
#include "kith/kernels/kernels.h"

namespace kith::kernels {

// Words: a *device* has memory and runs passes; a *queue* is work of a device, done in the order in which it
// was put there, perhaps long after the call that put it there has returned; a *mark* is a point in a queue.
// On the host every call is done when it returns, and a mark is nothing.

// A block of memory together with its owner; copies share it. Its memory is free again with the last copy.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::shared_ptr<std::byte> data, std::size_t bytes) : data_(std::move(data)), bytes_(bytes) {}

  std::byte* data() const { return data_.get(); }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_.get());
  }
  std::size_t bytes() const { return bytes_; }
  bool empty() const { return bytes_ == 0; }

 private:
  std::shared_ptr<std::byte> data_;
  std::size_t bytes_ = 0;
};

// A point in a queue. Safe from any thread.
class Point {
 public:
  virtual ~Point() = default;
  // Returns when everything before the point is done. A queue holds the work of its own worker alone, and
  // none of it waits for another worker; so this ends when that work does. Error when the device has failed.
  virtual void wait() const = 0;
};

// Null: nothing to wait for.
using Mark = std::shared_ptr<const Point>;

inline void wait(const Mark& mark) {
  if (mark) mark->wait();
}

// Work of one device, in order. One thread at a time. What a call names stays valid until its work is done;
// argument lists (spans of passes, of sources, of vectors) only until the call returns.
class Queue {
 public:
  virtual ~Queue() = default;

  // Between any two places in the memory of the device or in pinned memory of the host (allocate_pinned,
  // pinner).
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  // The same for any memory of the host, and done when it returns: for what is rare.
  virtual void copy_now(void* to, const void* from, std::size_t bytes) = 0;
  // Device memory.
  virtual void zero(void* to, std::size_t bytes) = 0;

  virtual Mark mark() = 0;
  // What is put here from now on runs after the mark, which is of any queue of this device. The host does not
  // wait.
  virtual void after(const Mark& mark) = 0;

  // Kernels whose work goes here; the queue outlives them. One thread at a time together with the queue.
  virtual std::unique_ptr<Kernels<float>> kernels_f32() = 0;
  virtual std::unique_ptr<Kernels<double>> kernels_f64() = 0;
  // The same of a codec, by its text.
  virtual std::unique_ptr<CodecKernels<float>> codec_f32(std::string_view codec) = 0;
  virtual std::unique_ptr<CodecKernels<double>> codec_f64(std::string_view codec) = 0;
};

template <class T>
std::unique_ptr<Kernels<T>> make_kernels(Queue& queue) {
  if constexpr (std::is_same_v<T, float>) {
    return queue.kernels_f32();
  } else {
    return queue.kernels_f64();
  }
}

template <class T>
std::unique_ptr<CodecKernels<T>> make_codec_kernels(Queue& queue, std::string_view codec) {
  if constexpr (std::is_same_v<T, float>) {
    return queue.codec_f32(codec);
  } else {
    return queue.codec_f64(codec);
  }
}

// Where a model lies and its steps run. Safe from any thread, apart from its queues. Outlives its buffers,
// queues and marks.
class Device {
 public:
  virtual ~Device() = default;

  virtual std::string name() const = 0;  // "cpu", "cuda:0"
  // True when its memory is the host's and every call is done when it returns: there is nothing to put off.
  virtual bool host() const = 0;

  // Zeros, aligned to 64 bytes at least; may wait for the device. Error when there is not enough.
  virtual Buffer allocate(std::size_t bytes) = 0;
  // Memory of the host that copies reach without a detour; zeros.
  virtual Buffer allocate_pinned(std::size_t bytes) = 0;
  // Makes memory that others have allocated such memory. Empty on the host. Where a driver refuses to pin a
  // block, copies to and from it are right all the same, and slower.
  virtual PinMemory pinner() const = 0;

  // The queue that the model's own work goes to as well: whoever fills a gradient puts that work here.
  virtual Queue& compute() = 0;
  virtual std::unique_ptr<Queue> make_queue() = 0;
};

// The CPU.
Device& host_device();

}  // namespace kith::kernels
