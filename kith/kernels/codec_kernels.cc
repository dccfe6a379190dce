#include "kith/kernels/codec_kernels.h"

#include <vector>

#include "kith/kernels/codec.h"

namespace kith::kernels {
namespace {

template <class T>
class HostCodecKernels final : public CodecKernels<T> {
 public:
  explicit HostCodecKernels(std::string_view codec) : codec_(make_codec<T>(codec)) {}

  void encode(const T* x, T* replica, std::size_t count, std::uint64_t draw, std::byte* message) override {
    difference_.resize(count);
    for (std::size_t k = 0; k < count; ++k)
      difference_[k] = x[k] - replica[k];
    codec_->encode(difference_, draw, {message, codec_->bytes(count)});
    add(message, draw, replica, count);
  }

  void add(const std::byte* message, std::uint64_t draw, T* replica, std::size_t count) override {
    codec_->add({message, codec_->bytes(count)}, draw, {replica, count});
  }

 private:
  const std::unique_ptr<Codec<T>> codec_;
  std::vector<T> difference_;
};

}  // namespace

template <class T>
std::unique_ptr<CodecKernels<T>> make_host_codec_kernels(std::string_view codec) {
  return std::make_unique<HostCodecKernels<T>>(codec);
}

template std::unique_ptr<CodecKernels<float>> make_host_codec_kernels(std::string_view);
template std::unique_ptr<CodecKernels<double>> make_host_codec_kernels(std::string_view);

}  // namespace kith::kernels
