#include "kith/comm/cuda_ipc/exported.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <new>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/kernels/cuda/device.h"

namespace kith::comm::cuda_ipc {
namespace {

using kernels::cuda::OnDevice;
using kernels::cuda::require;
using shm::Descriptor;
using shm::Segment;
using shm::Sharing;

constexpr std::uint64_t kMagic = 0x6370692d6475636bULL;  // "kcud-ipc"
// The driver shares whole pages of this size; what lies beside a smaller allocation would be shared with it.
constexpr std::size_t kPage = std::size_t{2} << 20;
constexpr auto kLookStep = std::chrono::milliseconds(2);

// The same file, opened anew: locks belong to an opening, and a descriptor that travels takes its opening
// along. Two descriptors more per window would not fit everywhere, so room is made for them.
Descriptor open_anew(const Descriptor& file, const std::string& place) {
  shm::make_room(2, place);
  Descriptor opened(::open(cat("/proc/self/fd/", file.get()).c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened) shm::fail("cannot open the file of GPU memory", place);
  return opened;
}

// False when others are in the way.
bool lock(const Descriptor& file, int how) {
  int status = 0;
  do {
    status = ::flock(file.get(), how | LOCK_NB);
  } while (status != 0 && errno == EINTR);
  return status == 0;
}

// For what must not fail: with `device` current, as far as that can be had.
template <class Call>
void at_the_end(int device, Call call) {
  int before = device;
  cudaGetDevice(&before);
  cudaSetDevice(device);
  call();
  cudaSetDevice(before);
}

}  // namespace

// What a peer needs to map the memory; it lies in host memory that all see and the owner writes.
struct ExportedHead {
  std::uint64_t magic = kMagic;
  std::uint64_t bytes = 0;
  cudaIpcMemHandle_t handle{};
  std::atomic<bool> closed{false};
};

Exported::Exported(int device, const std::string& label, std::size_t bytes)
    : device_(device),
      label_(label),
      file_(Segment::create(label, sizeof(ExportedHead), Sharing::read_only)),
      lock_(open_anew(file_.descriptor(), cat("GPU memory '", label, "'"))) {
  const OnDevice here(device);
  const std::string place = cat("GPU memory '", label, "'");
  const std::size_t whole = (std::max<std::size_t>(bytes, 1) + kPage - 1) / kPage * kPage;
  require(cudaMalloc(&data_, whole), place);
  head_ = new (file_.data()) ExportedHead;
  head_->bytes = bytes;
  try {
    require(cudaIpcGetMemHandle(&head_->handle, data_), place);
    require(cudaMemset(data_, 0, whole), place);
    require(cudaDeviceSynchronize(), place);
  } catch (...) {
    cudaFree(data_);
    throw;
  }
}

bool Exported::try_free() {
  if (!lock(lock_, LOCK_EX)) return false;
  head_->closed = true;
  at_the_end(device_, [&] { cudaFree(data_); });
  // Not by closing it alone: a child that this process forked has the same opening.
  lock(lock_, LOCK_UN);
  return true;
}

Mapped::Mapped(int device, const Descriptor& descriptor, std::size_t bytes, const std::string& place)
    : device_(device), lock_(open_anew(descriptor, place)) {
  const Segment file = Segment::map(descriptor, sizeof(ExportedHead), Sharing::read_only, place);
  const auto* const head = reinterpret_cast<const ExportedHead*>(file.data());
  // A payload in host memory cannot be mapped as exported memory is, so one looks before.
  if (head->magic != kMagic || head->bytes != bytes) {
    throw InputError("the peer's window does not lie in GPU memory", place,
                     "use the same backend on every worker");
  }
  if (!lock(lock_, LOCK_SH) || head->closed) throw Error("the peer has closed the window already", place);
  const OnDevice here(device);
  require(cudaIpcOpenMemHandle(&data_, head->handle, cudaIpcMemLazyEnablePeerAccess), place);
}

Mapped::~Mapped() {
  at_the_end(device_, [&] { cudaIpcCloseMemHandle(data_); });
  lock(lock_, LOCK_UN);
}

void Retired::add(std::unique_ptr<Exported> memory) {
  if (memory->try_free()) return;
  const std::lock_guard guard(mutex_);
  memory_.push_back(std::move(memory));
}

void Retired::sweep() {
  const std::lock_guard guard(mutex_);
  std::erase_if(memory_, [](const auto& memory) { return memory->try_free(); });
}

std::vector<std::string> Retired::sweep_until(Deadline deadline) {
  for (;;) {
    sweep();
    std::vector<std::string> left;
    {
      const std::lock_guard guard(mutex_);
      for (const auto& memory : memory_)
        left.push_back(memory->label());
    }
    if (left.empty() || SteadyClock().now() >= deadline) return left;
    std::this_thread::sleep_for(kLookStep);
  }
}

}  // namespace kith::comm::cuda_ipc
