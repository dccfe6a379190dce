#include "bench/gpu_kernels/device_step.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/base/text.h"
#include "kith/kernels/codec.h"
#include "kith/kernels/cuda/cuda_codec.h"
#include "kith/kernels/cuda/device.h"
#include "kith/kernels/int8.h"
#include "kith/kernels/reference/reference_kernels.h"

namespace kith::bench {
namespace {

using kernels::Pass;
using kernels::Source;
using kernels::cuda::require;

constexpr std::size_t kDrawn = std::size_t{1} << 22;
constexpr int kSecondMoments = 4;

// Parameters, gradients and state as in the middle of training: drawn once and repeated over the vector.
void fill(float* to, std::size_t count, int stream) {
  std::vector<float> drawn(kDrawn);
  for (std::size_t i = 0; i < kDrawn; ++i) {
    const float uniform = static_cast<float>(mix_bits(hash_words(stream, i)) >> 40) * 0x1.0p-24F;
    drawn[i] =
        stream == kSecondMoments ? 1e-4F * (uniform + 0.1F) : (stream < 2 ? 1.0F : 0.01F) * (uniform - 0.5F);
  }
  for (std::size_t first = 0; first < count; first += kDrawn) {
    const std::size_t bytes = std::min(kDrawn, count - first) * sizeof(float);
    require(cudaMemcpy(to + first, drawn.data(), bytes, cudaMemcpyHostToDevice), "filling a vector");
  }
}

template <class E>
std::vector<E> download(const void* from, std::size_t count) {
  std::vector<E> to(count);
  require(cudaMemcpy(to.data(), from, count * sizeof(E), cudaMemcpyDeviceToHost), "reading back");
  return to;
}

}  // namespace

DeviceStep::DeviceStep(std::vector<Tensor> model, DType wire, const std::string& codec)
    : model_(std::move(model)), wire_(wire) {
  for (const Tensor& tensor : model_) {
    first_block_.push_back(blocks_);
    blocks_ += kernels::int8_blocks(tensor.count);
    count_ += tensor.count;
  }
  model_at_[0] = vector(0);
  model_at_[1] = wire == DType::f32 && codec.empty() ? vector(0) : model_at_[0];
  if (codec.empty()) {
    slot_ = make_slot();
    peer_ = make_slot();
  } else {
    make_replicas(codec);
  }
  m_ = vector(3);
  v_ = vector(kSecondMoments);
  accumulator_ = vector(5);
  for (const Tensor& tensor : model_) {
    gradients_.push_back(reinterpret_cast<float*>(own(tensor.count * sizeof(float)).get()));
    fill(gradients_.back(), tensor.count, 2);
  }
}

void DeviceStep::make_replicas(const std::string& codec) {
  codec_ = codec;
  codec_kernels_ = kernels::make_cuda_codec_kernels<float>(codec);
  message_bytes_ = kernels::make_codec<float>(codec)->bytes(count_);
  message_ = own(message_bytes_).get();
  peer_message_ = own(message_bytes_).get();
  published_ = vector(0);
  replica_ = vector(0);
  peer_replica_ = vector(2);
  codec_kernels_->encode(vector(5), peer_replica_, count_, 1, peer_message_);
  write_message();
}

void DeviceStep::take_message() {
  if (codec_kernels_) codec_kernels_->add(peer_message_, 1, peer_replica_, count_);
}

void DeviceStep::write_message() {
  if (codec_kernels_) codec_kernels_->encode(published_, replica_, count_, 2, message_);
}

std::shared_ptr<std::byte> DeviceStep::own(std::size_t bytes) {
  return memory_.emplace_back(kernels::cuda::allocate(bytes));
}

float* DeviceStep::vector(int stream) {
  auto* const made = reinterpret_cast<float*>(own(count_ * sizeof(float)).get());
  fill(made, count_, stream);
  return made;
}

std::byte* DeviceStep::make_slot() {
  if (wire_ == DType::f32) return reinterpret_cast<std::byte*>(vector(1));
  std::byte* const slot = own(payload_bytes()).get();
  // Something finite that is not a power of two, and scales to match.
  require(cudaMemset(slot, 0x3d, payload_bytes()), "filling a slot");
  return slot;
}

std::size_t DeviceStep::payload_bytes() const {
  if (codec_kernels_) return message_bytes_;
  if (wire_ != DType::i8) return count_ * size_of(wire_);
  return blocks_ * kernels::kInt8BlockBytes;
}

double DeviceStep::bytes(std::int64_t step) const {
  // Reads: the model, the gradient, m, v, the accumulator. Writes: the model, the accumulator.
  double vectors = 7;
  if (step % kCommitEvery == 0) vectors += 2;
  // With a codec: both replicas read, the copy written; it and its replica read, the replica written; the
  // neighbour's replica read and written.
  if (codec_kernels_) vectors += 8;
  // The neighbour's read; the own copy written.
  const double exchanged = wire_ == DType::f32 && !codec_kernels_ ? 1 : 2;
  return vectors * sizeof(float) * static_cast<double>(count_) +
         exchanged * static_cast<double>(payload_bytes());
}

Pass<float> DeviceStep::pass(const Tensor& tensor, std::int64_t step, std::vector<Source>& sources) const {
  const auto index = static_cast<std::size_t>(&tensor - model_.data());
  const std::size_t first = tensor.first;
  const auto place = [&](std::byte* slot) {
    return slot +
           (wire_ == DType::i8 ? first_block_[index] * kernels::kInt8BlockBytes : first * size_of(wire_));
  };
  const auto draw = [&](std::int64_t version) { return hash_words(version) + first; };
  float* const now = model_at_[step % 2] + first;
  float* const next = model_at_[(step + 1) % 2] + first;
  if (codec_kernels_) {
    // x + (x^_peer - x^) / 2
    sources.push_back({peer_replica_ + first, DType::f32, 0.5});
    sources.push_back({replica_ + first, DType::f32, -0.5});
    sources.push_back({now, DType::f32, 1});
  } else if (wire_ == DType::f32) {
    sources.push_back({place(peer_), wire_, 0.5});
    sources.push_back({now, DType::f32, 0.5});
  } else {
    // x + (q_peer - q) / 2 with q = x as published
    sources.push_back({place(peer_), wire_, 0.5});
    sources.push_back({now, DType::f32, -0.5, wire_, draw(step)});
    sources.push_back({now, DType::f32, 1});
  }
  kernels::AdamOptions adam{
      .lr = 1e-3, .decay = tensor.decays ? 0.1 : 0, .decay_kind = kernels::Decay::decoupled};
  adam.step = step;
  Pass<float> made;
  made.to.values = next;
  if (codec_kernels_) made.to = {next, published_ + first, DType::f32};
  if (wire_ != DType::f32) made.to = {next, place(slot_), wire_, draw(step + 1)};
  made.mix = {sources};
  made.gradient = {gradients_[index]};
  made.state = {m_ + first, v_ + first, accumulator_ + first};
  made.step = kernels::AccumAdamOptions{adam, kCommitEvery};
  made.count = tensor.count;
  return made;
}

void DeviceStep::run(kernels::Kernels<float>& kernels, std::int64_t step, std::size_t per_launch) {
  take_message();
  run_passes(kernels, step, per_launch);
  write_message();
}

void DeviceStep::run_passes(kernels::Kernels<float>& kernels, std::int64_t step, std::size_t per_launch) {
  std::vector<std::vector<Source>> sources(model_.size());
  std::vector<Pass<float>> passes;
  for (std::size_t i = 0; i < model_.size(); ++i) {
    sources[i].reserve(3);
    passes.push_back(pass(model_[i], step, sources[i]));
  }
  for (std::size_t i = 0; i < passes.size(); i += per_launch)
    kernels.run(std::span(passes).subspan(i, std::min(per_launch, passes.size() - i)));
}

void DeviceStep::verify(kernels::Kernels<float>& kernels) {
  const auto reference = kernels::make_reference_kernels<float>();
  for (const std::int64_t step : {std::int64_t{3}, std::int64_t{4}}) {
    struct Sample {
      Pass<float> pass;
      std::vector<Source> sources;
      std::vector<std::vector<std::byte>> bytes;
    };
    std::vector<Sample> samples(model_.size());
    take_message();
    // Copies of what the pass reads, before it runs; up to 160 whole blocks of every tensor.
    for (std::size_t i = 0; i < samples.size(); ++i) {
      Sample& s = samples[i];
      s.pass = pass(model_[i], step, s.sources);
      s.pass.count = std::min(s.pass.count, 160 * kernels::kInt8Block);
      const auto copy = [&](const void* from, std::size_t bytes) {
        return s.bytes.emplace_back(download<std::byte>(from, bytes)).data();
      };
      const std::size_t count = s.pass.count;
      for (Source& source : s.sources)
        source.data = copy(source.data, bytes_of(source.type, count));
      s.pass.gradient.data = copy(s.pass.gradient.data, count * sizeof(float));
      for (float*& state : s.pass.state)
        state = reinterpret_cast<float*>(copy(state, count * sizeof(float)));
    }
    run_passes(kernels, step, model_.size());
    for (std::size_t i = 0; i < samples.size(); ++i) {
      Sample& s = samples[i];
      const std::size_t count = s.pass.count;
      std::vector<Source> on_device;
      const Pass<float> device = pass(model_[i], step, on_device);
      std::vector<float> want(count);
      s.pass.to = {want.data()};
      s.pass.mix.sources = s.sources;
      reference->run({&s.pass, 1});
      const std::vector<float> got = download<float>(device.to.values, count);
      const std::vector<float> moments = download<float>(device.state[1], count);
      for (std::size_t k = 0; k < count; ++k) {
        if (std::fabs(got[k] - want[k]) <= 2e-6F && std::fabs(moments[k] - s.pass.state[1][k]) <= 1e-9F)
          continue;
        throw Error(
            cat("step ", step, ", tensor ", i, ", element ", k, " is ", got[k], " instead of ", want[k]),
            cat("wire ", name_of(wire_)));
      }
    }
    if (codec_kernels_) verify_codec();
    write_message();
  }
}

void DeviceStep::verify_codec() const {
  const std::size_t count = std::min<std::size_t>(count_, 1'000'003);
  const std::size_t bytes = kernels::make_codec<float>(codec_)->bytes(count);
  const auto published = download<float>(published_, count);
  auto replica = download<float>(replica_, count);
  std::vector<std::byte> message(bytes);
  const auto on_replica = kernels::cuda::allocate(count * sizeof(float)),
             on_message = kernels::cuda::allocate(bytes);
  require(cudaMemcpy(on_replica.get(), replica_, count * sizeof(float), cudaMemcpyDeviceToDevice), "a copy");
  kernels::make_host_codec_kernels<float>(codec_)->encode(published.data(), replica.data(), count, 7,
                                                          message.data());
  codec_kernels_->encode(published_, reinterpret_cast<float*>(on_replica.get()), count, 7, on_message.get());
  if (download<std::byte>(on_message.get(), bytes) != message)
    throw Error("another message than the host's", cat("codec ", codec_));
  if (download<float>(on_replica.get(), count) != replica)
    throw Error("another replica than the host's", cat("codec ", codec_));
}

}  // namespace kith::bench
