#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace kith::kernels {

// A codec (kith/kernels/codec.h) at work on vectors of one device, in the order of one queue: calls may
// return before the work is done. All addresses are of the device; messages are aligned to 16 bytes and as
// long as Codec::bytes says. One instance serves one caller at a time.
//
// Messages have the bytes that the host's codec gives of the same difference, as kith/kernels/codec.h
// promises, and what they decode to has the same bits everywhere.
template <class T>
class CodecKernels {
 public:
  virtual ~CodecKernels() = default;

  // The message is the code of x - replica, and replica += what the message says. One pass over memory: it
  // reads x and the replica, and writes the message and the replica. (On a GPU top-k must find the least
  // that it keeps first and reads x and the replica more often.)
  virtual void encode(const T* x, T* replica, std::size_t count, std::uint64_t draw, std::byte* message) = 0;

  // replica += what the message says.
  virtual void add(const std::byte* message, std::uint64_t draw, T* replica, std::size_t count) = 0;
};

// In host memory, done when a call returns.
template <class T>
std::unique_ptr<CodecKernels<T>> make_host_codec_kernels(std::string_view codec);

}  // namespace kith::kernels
