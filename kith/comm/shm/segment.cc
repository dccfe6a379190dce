#include "kith/comm/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::comm::shm {
namespace {

std::shared_ptr<std::byte> map_shared(int fd, std::size_t bytes, int protection, const std::string& place) {
  void* address = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) fail(cat("cannot map ", bytes, " bytes"), place);
  return {static_cast<std::byte*>(address), [bytes](std::byte* p) { ::munmap(p, bytes); }};
}

}  // namespace

Segment Segment::create(const std::string& label, std::size_t bytes, Sharing sharing) {
  const std::string place = cat("shared memory '", label, "'");
  // A label longer than the kernel takes is only cut: it is for people.
  Descriptor fd(::memfd_create(label.substr(0, 200).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) fail("cannot create", place);
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    fail(cat("cannot make it ", bytes, " bytes long"), place);
  auto memory = map_shared(fd.get(), bytes, PROT_READ | PROT_WRITE, place);
  const int write_seal = sharing == Sharing::read_only ? F_SEAL_FUTURE_WRITE : 0;
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | write_seal | F_SEAL_SEAL) != 0) {
    fail("cannot seal", place);
  }
  return {std::move(fd), std::move(memory), bytes};
}

Segment Segment::map(const Descriptor& fd, std::size_t bytes, Sharing sharing, const std::string& place) {
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) fail("cannot examine a peer's segment", place);
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    throw InputError("a peer's segment may still shrink", place,
                     "run the same build of kith on every worker");
  }
  if (static_cast<std::size_t>(status.st_size) < bytes) {
    throw InputError(cat("a peer's segment has ", status.st_size, " bytes, ", bytes, " are needed"), place,
                     "run the same build of kith on every worker");
  }
  const int protection = sharing == Sharing::read_only ? PROT_READ : PROT_READ | PROT_WRITE;
  return {Descriptor(), map_shared(fd.get(), bytes, protection, place), bytes};
}

}  // namespace kith::comm::shm
