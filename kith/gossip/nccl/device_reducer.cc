// All-reduce from GPU to GPU over NCCL. A communicator whose member is gone waits for it for good, and no
// stream that it works on goes on before it is aborted; so every call is a nonblocking one, and the host
// watches the members and the deadline until it is done.
#include "kith/gossip/device_reducer.h"

#include <cstring>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/kernels/cuda/cuda_device.h"
#include "kith/kernels/cuda/device.h"

namespace kith::gossip {
namespace {

using kernels::cuda::OnDevice;
using kernels::cuda::require;

// NCCL has nothing to sleep on that a lost peer would end.
constexpr auto kLookAgain = std::chrono::microseconds(100);
// For what was sent last to leave this process.
constexpr Clock::Duration kFarewell = std::chrono::milliseconds(500);

constexpr std::string_view kNoGpu = "-";

ncclDataType_t element_of(DType type) {
  switch (type) {
    case DType::f64:
      return ncclFloat64;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f16:
      return ncclFloat16;
    default:
      return ncclFloat32;
  }
}

class Communicator {
 public:
  // REQUIRES: every member makes one with the same id, each on a GPU of its own.
  Communicator(const DeviceReducersOptions& options, int device, const ncclUniqueId& id)
      : options_(options), device_(device), place_(cat(options.transport->self(), ", ", options.name)) {
    const OnDevice on(device_);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const Rank self = options.members.rank_of(options.transport->self());
    check(ncclCommInitRankConfig(&comm_, options.members.size(), id, self, &config));
    await_last_call(options.deadline);
  }
  ~Communicator() {
    if (comm_ == nullptr) return;
    parting_ = true;
    try {
      const OnDevice on(device_);
      check(ncclCommFinalize(comm_));
      await_last_call(options_.clock->now() + kFarewell);
      ncclCommDestroy(comm_);
    } catch (const Error&) {  // it is aborted
    }
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int device() const { return device_; }

  void mean(void* vector, DType type, std::size_t count, cudaStream_t stream, Deadline deadline) {
    if (comm_ == nullptr) throw Error("the communicator was given up before", place_, kRemedy);
    check(ncclAllReduce(vector, vector, count, element_of(type), ncclAvg, comm_, stream));
    await_last_call(deadline);
  }

  void wait(cudaStream_t stream, Deadline deadline) {
    cudaError_t status = cudaStreamQuery(stream);
    for (; status == cudaErrorNotReady && comm_ != nullptr; status = cudaStreamQuery(stream)) {
      ncclResult_t state = ncclSuccess;
      check(ncclCommGetAsyncError(comm_, &state));
      check(state);
      watch(deadline);
    }
    if (status == cudaErrorNotReady) status = cudaStreamSynchronize(stream);  // aborted: it ends
    require(status, place_);
  }

 private:
  static constexpr std::string_view kRemedy = "look at the other workers' logs; NCCL_DEBUG=INFO says more";

  // Until the last call is carried out.
  void await_last_call(Deadline deadline) {
    ncclResult_t state = ncclInProgress;
    for (;;) {
      check(ncclCommGetAsyncError(comm_, &state));
      check(state);
      if (state == ncclSuccess) return;
      watch(deadline);
    }
  }

  void watch(Deadline deadline) {
    if (!parting_ && options_.cancellation && options_.cancellation->cancelled())
      give_up("the wait was cancelled");
    for (const WorkerId worker : options_.members.workers)
      if (worker != options_.transport->self() && options_.transport->lost(worker))
        give_up(cat(worker, " is gone"));
    if (options_.clock->now() >= deadline) give_up("a worker did not do its part before the deadline");
    std::this_thread::sleep_for(kLookAgain);
  }

  void check(ncclResult_t result) {
    if (result != ncclSuccess && result != ncclInProgress)
      give_up(cat("NCCL: ", ncclGetErrorString(result), ": ", ncclGetLastError(comm_)));
  }

  [[noreturn]] void give_up(const std::string& why) {
    if (comm_ != nullptr) ncclCommAbort(std::exchange(comm_, nullptr));
    throw Error(why, place_, kRemedy);
  }

  const DeviceReducersOptions options_;
  const int device_;
  const std::string place_;
  ncclComm_t comm_ = nullptr;  // null once aborted
  bool parting_ = false;       // being destroyed: what was sent may still leave, cancelled or not
};

class NcclReducer final : public DeviceReducer {
 public:
  explicit NcclReducer(std::shared_ptr<Communicator> communicator) : communicator_(std::move(communicator)) {
    const OnDevice on(communicator_->device());
    require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    queue_ = kernels::make_cuda_queue({communicator_->device(), stream_});
  }
  ~NcclReducer() override { cudaStreamDestroy(stream_); }
  NcclReducer(const NcclReducer&) = delete;
  NcclReducer& operator=(const NcclReducer&) = delete;

  kernels::Queue& queue() override { return *queue_; }
  void mean(void* vector, DType type, std::size_t count, Deadline deadline) override {
    const OnDevice on(communicator_->device());
    communicator_->mean(vector, type, count, stream_, deadline);
  }
  void wait(Deadline deadline) override {
    const OnDevice on(communicator_->device());
    communicator_->wait(stream_, deadline);
  }

 private:
  const std::shared_ptr<Communicator> communicator_;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<kernels::Queue> queue_;
};

class NcclReducers final : public DeviceReducers {
 public:
  explicit NcclReducers(std::shared_ptr<Communicator> communicator)
      : communicator_(std::move(communicator)) {}
  std::unique_ptr<DeviceReducer> make() override { return std::make_unique<NcclReducer>(communicator_); }

 private:
  const std::shared_ptr<Communicator> communicator_;
};

// What no other GPU has.
std::string identity(std::optional<int> device) {
  if (!device) return std::string(kNoGpu);
  cudaDeviceProp properties{};
  require(cudaGetDeviceProperties(&properties, *device), "the GPU's properties");
  std::string text;
  for (const char byte : properties.uuid.bytes)
    text += cat(static_cast<int>(static_cast<unsigned char>(byte)), ".");
  return text;
}

std::string await(const DeviceReducersOptions& options, const std::string& key, std::string_view what) {
  if (auto value = options.store->wait(key, options.deadline)) return std::move(*value);
  throw Error(cat(what, " has not come before the deadline"),
              cat(options.transport->self(), ", ", options.name),
              "run the same build of kith on every worker, and look at that worker's log");
}

}  // namespace

std::unique_ptr<DeviceReducers> make_device_reducers(const DeviceReducersOptions& options) {
  if (options.store == nullptr) return nullptr;
  const std::optional<int> device = kernels::cuda_index(*options.device);
  const Rank self = options.members.rank_of(options.transport->self());
  const std::string base = cat("nccl/", options.name, "/", options.members.view, "/");
  // A name may serve several times in a run: everybody counts.
  const std::string keys = cat(base, options.store->add(cat(base, self), 1), "/");
  options.store->set(cat(keys, self), identity(device));
  std::set<std::string> gpus;
  bool everybody = true;
  for (Rank rank = 0; rank < options.members.size(); ++rank) {
    const std::string gpu = await(options, cat(keys, rank), cat(options.members.at(rank)));
    everybody = gpu != kNoGpu && gpus.insert(gpu).second && everybody;
  }
  if (!everybody) return nullptr;

  ncclUniqueId id{};
  if (self == 0) {
    const ncclResult_t made = ncclGetUniqueId(&id);
    if (made != ncclSuccess) throw Error(ncclGetErrorString(made), "NCCL's first call");
    options.store->set(cat(keys, "id"), {id.internal, sizeof id.internal});
  }
  const std::string text = await(options, cat(keys, "id"), cat(options.members.at(0)));
  if (text.size() != sizeof id.internal)
    throw Error(cat("an id of ", text.size(), " bytes"), "NCCL",
                "run the same build of kith on every worker");
  std::memcpy(id.internal, text.data(), text.size());
  return std::make_unique<NcclReducers>(std::make_shared<Communicator>(options, *device, id));
}

}  // namespace kith::gossip
