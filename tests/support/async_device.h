#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kith/base/check.h"
#include "kith/base/rng.h"
#include "kith/kernels/cpu/cpu_kernels.h"
#include "kith/kernels/device.h"
#include "tests/support/pinned_memory.h"

namespace kith::support {

// A device that behaves as GPUs do and needs none: each queue is a thread that does what it was given later,
// in order, with delays. Its addresses are not the host's: bit 62 is set, so a host that looks at device
// memory dies of SIGSEGV, kernels refuse host memory, queues copy to and from pinned host memory only, and
// the rest is for ThreadSanitizer to see.

constexpr std::uintptr_t kDeviceBit = std::uintptr_t{1} << 62;

template <class T>
bool on_device(T* address) {
  return (reinterpret_cast<std::uintptr_t>(address) & kDeviceBit) != 0;
}
template <class T>
T* device_address(T* real) {
  return real ? reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(real) | kDeviceBit) : nullptr;
}
// Where a device address really lies; host addresses stay what they are.
template <class T>
T* real_address(T* address) {
  return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(address) & ~kDeviceBit);
}
template <class T>
T* device_memory(T* address) {
  KITH_CHECK(!address || on_device(address), "kernels see device memory only");
  return real_address(address);
}

// A thread that does things in order.
class AsyncQueue final : public kernels::Queue {
 public:
  explicit AsyncQueue(std::uint64_t seed)
      : work_(std::make_shared<Work>()), thread_([this, seed] { run(seed); }) {}
  ~AsyncQueue() override {
    enqueue({});
    thread_.join();
  }

  void enqueue(std::function<void()> item) {
    const std::lock_guard lock(work_->mutex);
    work_->items.push_back(std::move(item));
    ++work_->given;
    work_->changed.notify_all();
  }

  void copy(void* to, const void* from, std::size_t bytes) override {
    for (const void* const place : {const_cast<const void*>(to), from}) {
      KITH_CHECK(on_device(place) || PinnedMemory::of_process().holds(place, bytes),
                 "copies reach pinned host memory only");
    }
    enqueue_copy(to, from, bytes);
  }
  void copy_now(void* to, const void* from, std::size_t bytes) override {
    enqueue_copy(to, from, bytes);
    kernels::wait(mark());
  }
  void zero(void* to, std::size_t bytes) override {
    enqueue([to = device_memory(to), bytes] { std::memset(to, 0, bytes); });
  }
  kernels::Mark mark() override {
    const std::lock_guard lock(work_->mutex);
    return std::make_shared<Reached>(work_, work_->given);
  }
  void after(const kernels::Mark& mark) override {
    enqueue([mark] { kernels::wait(mark); });
  }
  std::unique_ptr<kernels::Kernels<float>> kernels_f32() override;
  std::unique_ptr<kernels::Kernels<double>> kernels_f64() override;
  std::unique_ptr<kernels::CodecKernels<float>> codec_f32(std::string_view codec) override;
  std::unique_ptr<kernels::CodecKernels<double>> codec_f64(std::string_view codec) override;

 private:
  void enqueue_copy(void* to, const void* from, std::size_t bytes) {
    enqueue([to = real_address(to), from = real_address(from), bytes] {
      if (bytes > 0) std::memcpy(to, from, bytes);
    });
  }

  struct Work {
    std::mutex mutex;  // guards all
    std::condition_variable changed;
    std::deque<std::function<void()>> items;  // an empty one ends the thread
    std::uint64_t given = 0;
    std::uint64_t done = 0;
  };

  class Reached final : public kernels::Point {
   public:
    Reached(std::shared_ptr<Work> work, std::uint64_t count) : work_(std::move(work)), count_(count) {}
    void wait() const override {
      std::unique_lock lock(work_->mutex);
      work_->changed.wait(lock, [&] { return work_->done >= count_; });
    }

   private:
    const std::shared_ptr<Work> work_;
    const std::uint64_t count_;
  };

  void run(std::uint64_t seed) {
    Rng rng(seed);
    std::unique_lock lock(work_->mutex);
    while (true) {
      work_->changed.wait(lock, [&] { return !work_->items.empty(); });
      const std::function<void()> item = std::move(work_->items.front());
      work_->items.pop_front();
      lock.unlock();
      if (item) {
        if (rng.below(4) == 0) std::this_thread::sleep_for(std::chrono::microseconds(rng.below(150)));
        item();
      }
      lock.lock();
      ++work_->done;
      work_->changed.notify_all();
      if (!item) return;
    }
  }

  const std::shared_ptr<Work> work_;
  std::thread thread_;
};

// The CPU's kernels, later. Argument lists are copied and device addresses translated when a call is made.
template <class T>
class AsyncKernels final : public kernels::Kernels<T> {
 public:
  explicit AsyncKernels(AsyncQueue& queue) : queue_(queue), inner_(kernels::make_cpu_kernels<T>()) {}

  void mix(const kernels::Destination<T>& to, const kernels::Mix& mix, std::size_t count) override {
    const kernels::Pass<T> pass{to, mix, {}, {}, kernels::MixOnly{}, count};
    run({&pass, 1});
  }
  void mix_sgd(const kernels::Destination<T>& to, const kernels::Mix& mix, const kernels::Gradient& gradient,
               T* momentum, const kernels::SgdOptions& options, std::size_t count) override {
    const kernels::Pass<T> pass{to, mix, gradient, {momentum}, options, count};
    run({&pass, 1});
  }
  void mix_adam(const kernels::Destination<T>& to, const kernels::Mix& mix, const kernels::Gradient& gradient,
                T* m, T* v, const kernels::AdamOptions& options, std::size_t count) override {
    const kernels::Pass<T> pass{to, mix, gradient, {m, v}, options, count};
    run({&pass, 1});
  }
  void mix_accum_adam(const kernels::Destination<T>& to, const kernels::Mix& mix,
                      const kernels::Gradient& gradient, T* m, T* v, T* accumulator,
                      const kernels::AccumAdamOptions& options, std::size_t count) override {
    const kernels::Pass<T> pass{to, mix, gradient, {m, v, accumulator}, options, count};
    run({&pass, 1});
  }

  // Backwards: the order within a batch is nobody's business.
  void run(std::span<const kernels::Pass<T>> passes) override {
    std::vector<Owned> owned;
    for (auto pass = passes.rbegin(); pass != passes.rend(); ++pass)
      owned.push_back(translated(*pass));
    queue_.enqueue([inner = inner_, owned = std::move(owned)] {
      for (const Owned& item : owned) {
        kernels::Pass<T> pass = item.pass;
        pass.mix.sources = item.sources;
        inner->run({&pass, 1});
      }
    });
  }

  kernels::Norms norms(const T* a, const T* b, std::size_t count) override {
    kernels::Norms result;
    queue_.enqueue([&, inner = inner_] { result = inner->norms(device_memory(a), device_memory(b), count); });
    kernels::wait(queue_.mark());
    return result;
  }
  void sum_squares(std::span<const kernels::Vector> vectors, double* sum) override {
    std::vector<kernels::Vector> owned(vectors.begin(), vectors.end());
    for (kernels::Vector& vector : owned)
      vector.data = device_memory(vector.data);
    queue_.enqueue([inner = inner_, owned, sum = device_memory(sum)] { inner->sum_squares(owned, sum); });
  }
  void find_non_finite(std::span<const kernels::Vector> vectors, float* found) override {
    std::vector<kernels::Vector> owned(vectors.begin(), vectors.end());
    for (kernels::Vector& vector : owned)
      vector.data = device_memory(vector.data);
    queue_.enqueue(
        [inner = inner_, owned, found = device_memory(found)] { inner->find_non_finite(owned, found); });
  }
  void clip_factor(const double* sum, double most, double* factor) override {
    queue_.enqueue([inner = inner_, sum = device_memory(sum), most, factor = device_memory(factor)] {
      inner->clip_factor(sum, most, factor);
    });
  }
  void convert(void* to, DType to_type, const void* from, DType from_type, std::size_t count) override {
    queue_.enqueue([inner = inner_, to = device_memory(to), to_type, from = device_memory(from), from_type,
                    count] { inner->convert(to, to_type, from, from_type, count); });
  }

 private:
  struct Owned {
    kernels::Pass<T> pass;
    std::vector<kernels::Source> sources;
  };

  static Owned translated(const kernels::Pass<T>& given) {
    Owned owned{given, {given.mix.sources.begin(), given.mix.sources.end()}};
    kernels::Pass<T>& pass = owned.pass;
    pass.to.values = device_memory(pass.to.values);
    pass.to.encoded = device_memory(pass.to.encoded);
    pass.gradient.data = device_memory(pass.gradient.data);
    pass.gradient.factor = device_memory(pass.gradient.factor);
    for (T*& state : pass.state)
      state = device_memory(state);
    for (kernels::Source& source : owned.sources)
      source.data = device_memory(source.data);
    return owned;
  }

  AsyncQueue& queue_;
  const std::shared_ptr<kernels::Kernels<T>> inner_;
};

// The host's codecs, later.
template <class T>
class AsyncCodecKernels final : public kernels::CodecKernels<T> {
 public:
  AsyncCodecKernels(AsyncQueue& queue, std::string_view codec)
      : queue_(queue), inner_(kernels::make_host_codec_kernels<T>(codec)) {}

  void encode(const T* x, T* replica, std::size_t count, std::uint64_t draw, std::byte* message) override {
    queue_.enqueue([inner = inner_, x = device_memory(x), replica = device_memory(replica), count, draw,
                    message = device_message(message)] { inner->encode(x, replica, count, draw, message); });
  }
  void add(const std::byte* message, std::uint64_t draw, T* replica, std::size_t count) override {
    queue_.enqueue([inner = inner_, message = device_message(message), draw, replica = device_memory(replica),
                    count] { inner->add(message, draw, replica, count); });
  }

 private:
  template <class Byte>
  static Byte* device_message(Byte* message) {
    KITH_CHECK(reinterpret_cast<std::uintptr_t>(message) % 16 == 0, "messages are aligned to 16 bytes");
    return device_memory(message);
  }

  AsyncQueue& queue_;
  const std::shared_ptr<kernels::CodecKernels<T>> inner_;
};

inline std::unique_ptr<kernels::CodecKernels<float>> AsyncQueue::codec_f32(std::string_view codec) {
  return std::make_unique<AsyncCodecKernels<float>>(*this, codec);
}
inline std::unique_ptr<kernels::CodecKernels<double>> AsyncQueue::codec_f64(std::string_view codec) {
  return std::make_unique<AsyncCodecKernels<double>>(*this, codec);
}

inline std::unique_ptr<kernels::Kernels<float>> AsyncQueue::kernels_f32() {
  return std::make_unique<AsyncKernels<float>>(*this);
}
inline std::unique_ptr<kernels::Kernels<double>> AsyncQueue::kernels_f64() {
  return std::make_unique<AsyncKernels<double>>(*this);
}

class AsyncDevice final : public kernels::Device {
 public:
  explicit AsyncDevice(std::uint64_t seed = 1) : seed_(seed), compute_(seed) {}

  std::string name() const override { return "asynchronous"; }
  bool host() const override { return false; }
  kernels::Buffer allocate(std::size_t bytes) override {
    const kernels::Buffer real = kernels::host_device().allocate(bytes);
    return {{device_address(real.data()), [real](std::byte*) {}}, bytes};
  }
  kernels::Buffer allocate_pinned(std::size_t bytes) override {
    const kernels::Buffer real = kernels::host_device().allocate(bytes);
    const auto pin = PinnedMemory::of_process().pin({real.data(), bytes});
    return {{real.data(), [real, pin](std::byte*) {}}, bytes};
  }
  PinMemory pinner() const override {
    return [](std::span<std::byte> bytes) { return PinnedMemory::of_process().pin(bytes); };
  }
  AsyncQueue& compute() override { return compute_; }
  std::unique_ptr<kernels::Queue> make_queue() override {
    return std::make_unique<AsyncQueue>(hash_words(seed_, ++queues_));
  }

 private:
  const std::uint64_t seed_;
  std::uint64_t queues_ = 0;
  AsyncQueue compute_;
};

}  // namespace kith::support
