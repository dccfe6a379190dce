#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kith::kernels {

// How a vector is made small for a wire. What a reader decodes is a function of the message and of `draw`
// alone, with the same bits everywhere; draws are seeds, the same for writer and readers. Host memory; on the
// vectors of a device CodecKernels (kith/kernels/codec_kernels.h) do the same. A vector without NaNs becomes
// the same message on host and device, and one with NaNs decodes to NaNs at the same places.
//
// Messages are errors of the codec away from what they stand for, so they carry differences to what the
// reader knows (kith/gossip/replicas.h): the errors then shrink with the differences.
template <class T>
class Codec {
 public:
  virtual ~Codec() = default;

  // Exactly, of a message of `count` elements.
  virtual std::size_t bytes(std::size_t count) const = 0;
  // The least delta with E |decoded - x|^2 <= (1 - delta) |x|^2 for every x; above 0, or there is no such
  // codec.
  virtual double contraction(std::size_t count) const = 0;
  // The consensus step that goes with it where nothing else is known; 1: none is needed.
  virtual double consensus_step() const { return 1; }

  // REQUIRES: message.size() == bytes(x.size()).
  virtual void encode(std::span<const T> x, std::uint64_t draw, std::span<std::byte> message) const = 0;
  // to += what the message says.
  virtual void add(std::span<const std::byte> message, std::uint64_t draw, std::span<T> to) const = 0;
};

struct CodecSpec {
  enum class Kind : std::uint8_t { full, int8, qsgd, qsgd_max, sign, top_k, random_k };
  Kind kind = Kind::full;
  int bits = 0;      // qsgd, qsgd-max
  double share = 0;  // top-k, random-k
};

// What a codec's text says:
//   full            T itself
//   int8            8 bits, blocks of 128 share a scale (kith/kernels/int8.h)
//   qsgd B          B bits, from 2 to 8: sign and level, rounded at random without bias; blocks of 64 share
//                   their Euclidean norm
//   qsgd-max B      the same with the greatest magnitude as the scale, which is finer
//   sign            1 bit, blocks of 1024 share their mean magnitude
//   top-k P         the share P of the elements, those of greatest magnitude: value and place
//   random-k P      the share P, drawn: values alone, the places follow from the draw
// InputError for anything else, and for a codec whose error may be greater than what it encodes (qsgd 2).
CodecSpec parse_codec(std::string_view text);

// InputError as parse_codec has it.
template <class T>
std::unique_ptr<Codec<T>> make_codec(std::string_view text);

std::vector<std::string> codec_names();

}  // namespace kith::kernels
