#include "tests/kernels/problem.h"

#include <cstring>

#include "kith/base/rng.h"
#include "kith/base/text.h"
#include "kith/kernels/half.h"
#include "kith/kernels/int8.h"

namespace kith::kernels {
namespace {

void put(std::vector<std::byte>& bytes, DType type, std::size_t i, double value) {
  const auto set = [&](auto word) { std::memcpy(bytes.data() + i * sizeof(word), &word, sizeof(word)); };
  switch (type) {
    case DType::f32:
      return set(static_cast<float>(value));
    case DType::f64:
      return set(value);
    case DType::bf16:
      return set(bf16_from_double(value));
    case DType::f16:
      return set(f16_from_double(value));
    case DType::i8:
      return set(static_cast<std::int8_t>(value));
  }
}

Step sgd(std::string name, SgdOptions options) {
  options.lr = 0.1;
  return {.name = std::move(name), .kind = Step::Kind::sgd, .sgd = options};
}

Step adam(std::string name, Step::Kind kind, Decay decay_kind, double decay, std::int64_t step,
          int commit_every = 1) {
  Step made{.name = std::move(name), .kind = kind};
  made.adam = {.lr = 0.01, .decay = decay, .decay_kind = decay_kind, .step = step};
  made.commit_every = commit_every;
  return made;
}

}  // namespace

std::string describe(const Shape& shape) {
  std::string text = cat("count ", shape.count, " offset ", shape.offset, " seed ", shape.seed, " sources");
  for (const DType type : shape.sources)
    text += cat(" ", name_of(type));
  text += cat(" gradient ", name_of(shape.gradient));
  if (shape.rounded) text += cat(" rounded to ", name_of(*shape.rounded));
  return shape.encoded ? cat(text, " encoded ", name_of(*shape.encoded)) : text;
}

std::vector<Step> all_steps() {
  std::vector<Step> steps{
      {.name = "mix"},
      {.name = "mean", .mix_scale = 1.0 / 3},
      sgd("sgd", {}),
      sgd("sgd_decay", {.decay = 0.1}),
      sgd("sgd_first", {.momentum = 0.9, .dampening = 0.5, .first = true}),
      sgd("sgd_momentum", {.momentum = 0.9, .dampening = 0.5}),
      sgd("sgd_nesterov_decay", {.momentum = 0.9, .nesterov = true, .decay = 0.1}),
      adam("adam", Step::Kind::adam, Decay::coupled, 0, 1),
      adam("adam_decay", Step::Kind::adam, Decay::coupled, 0.1, 7),
      adam("adamw", Step::Kind::adam, Decay::decoupled, 0.1, 7),
      adam("accum_adam", Step::Kind::accum_adam, Decay::coupled, 0.1, 6, 4),
      adam("accum_adamw", Step::Kind::accum_adam, Decay::decoupled, 0.1, 6, 4),
      adam("accum_adam_commit", Step::Kind::accum_adam, Decay::coupled, 0.1, 8, 4),
      adam("accum_adamw_commit", Step::Kind::accum_adam, Decay::decoupled, 0.1, 9, 3),
  };
  steps.push_back(steps.back());
  steps.back().name = "accum_adamw_scaled";
  steps.back().gradient_scale = 0.3;
  return steps;
}

template <class T>
Problem<T>::Problem(const Shape& shape) : shape_(shape) {
  std::uint64_t stream = 0;
  for (std::size_t k = 0; k < shape.sources.size(); ++k) {
    sources_.push_back(draw(shape.sources[k], stream, false));
    if (shape.sources[k] == DType::i8) draw_int8(stream, k);
    ++stream;
  }
  gradient_ = draw(shape.gradient, stream++, false);
  state_.push_back(draw(dtype_of<T>(), stream++, false));
  state_.push_back(draw(dtype_of<T>(), stream++, true));
  state_.push_back(draw(dtype_of<T>(), stream++, false));
  values_.resize((shape.count + shape.offset) * sizeof(T));
  encoded_.resize(place(shape.encoded.value_or(DType::bf16), shape.count));
}

template <class T>
void Problem<T>::draw_int8(std::uint64_t stream, std::size_t source) {
  Rng rng(hash_words(shape_.seed, stream, 8));
  for (std::size_t first = 0; first < shape_.count; first += kInt8Block) {
    std::byte* const block = sources_[source].data() + bytes_of(DType::i8, first);
    for (std::size_t i = 0; i < kInt8Block; ++i)
      block[i] = static_cast<std::byte>(rng.below(255) - 127);
    const auto scale = static_cast<float>((0.5 + rng.uniform()) / 64);
    std::memcpy(block + kInt8Block, &scale, sizeof(scale));
  }
}

template <class T>
std::size_t Problem<T>::place(DType type, std::size_t i) const {
  return bytes_of(type, i + (type == DType::i8 ? 0 : shape_.offset));
}

template <class T>
auto Problem<T>::draw(DType type, std::uint64_t stream, bool positive) const -> Bytes {
  Bytes bytes(place(type, shape_.count));
  if (type == DType::i8) return bytes;
  Rng rng(hash_words(shape_.seed, stream));
  for (std::size_t i = 0; i < shape_.count; ++i) {
    put(bytes, type, i + shape_.offset, positive ? 0.01 + rng.uniform() : 4 * rng.uniform() - 2);
  }
  return bytes;
}

template <class T>
void Problem<T>::poison(std::size_t i, double value) {
  for (std::size_t k = 0; k < sources_.size(); ++k)
    put(sources_[k], shape_.sources[k], i + shape_.offset, value);
  put(gradient_, shape_.gradient, i + shape_.offset, value);
  put(state_[0], dtype_of<T>(), i + shape_.offset, value);
}

template <class T>
Pass<T> Problem<T>::pass(const Step& step, std::size_t begin, std::size_t end, int destination,
                         Memory& memory, std::vector<Source>& sources) {
  const auto at = [&](Bytes& bytes, DType type) {
    return static_cast<void*>(memory.enter(bytes) + place(type, begin));
  };
  const auto own = [&](Bytes& bytes) { return static_cast<T*>(at(bytes, dtype_of<T>())); };
  for (std::size_t k = 0; k < sources_.size(); ++k) {
    const double weight = (1.0 + static_cast<double>(k)) / (static_cast<double>(sources_.size()) + 0.7);
    sources.push_back({at(sources_[k], shape_.sources[k]), shape_.sources[k], weight});
  }
  if (shape_.rounded) {
    sources.push_back(sources.front());
    sources.back().weight = -0.3;
    sources.back().rounded_to = *shape_.rounded;
    sources.back().draw = kRoundedDraw + begin;
  }
  Pass<T> made;
  made.to.values = own(destination < 0 ? values_ : sources_[static_cast<std::size_t>(destination)]);
  if (shape_.encoded) {
    made.to.encoded = at(encoded_, *shape_.encoded);
    made.to.encoded_type = *shape_.encoded;
    made.to.draw = kEncodedDraw + begin;
  }
  made.mix = {sources, step.mix_scale};
  made.count = end - begin;
  if (step.kind == Step::Kind::mix) return made;
  made.gradient = {at(gradient_, shape_.gradient), shape_.gradient, step.gradient_scale};
  made.state = {own(state_[0]), own(state_[1]), own(state_[2])};
  if (step.kind == Step::Kind::sgd) made.step = step.sgd;
  if (step.kind == Step::Kind::adam) made.step = step.adam;
  if (step.kind == Step::Kind::accum_adam) made.step = AccumAdamOptions{step.adam, step.commit_every};
  return made;
}

template <class T>
void Problem<T>::run(Kernels<T>& kernels, const Step& step, std::size_t begin, std::size_t end,
                     int destination) {
  Memory here;
  std::vector<Source> sources;
  const Pass<T> one = pass(step, begin, end, destination, here, sources);
  kernels.run({&one, 1});
}

template <class T>
void Problem<T>::run(Kernels<T>& kernels, const Step& step, Memory& memory) {
  std::vector<Source> sources;
  const Pass<T> one = pass(step, 0, shape_.count, -1, memory, sources);
  kernels.run({&one, 1});
  memory.leave();
}

template <class T>
template <class Word>
std::vector<Word> Problem<T>::words(const Bytes& bytes) const {
  std::vector<Word> made(shape_.count);
  std::memcpy(made.data(), bytes.data() + shape_.offset * sizeof(Word), shape_.count * sizeof(Word));
  return made;
}

template <class T>
std::vector<T> Problem<T>::values(int destination) const {
  return words<T>(destination < 0 ? values_ : sources_[static_cast<std::size_t>(destination)]);
}

template <class T>
std::vector<T> Problem<T>::state(std::size_t k) const {
  return words<T>(state_[k]);
}

template <class T>
std::vector<std::uint16_t> Problem<T>::encoded() const {
  return words<std::uint16_t>(encoded_);
}

template <class T>
std::vector<T> Problem<T>::copy() const {
  return words<T>(encoded_);
}

template <class T>
std::vector<std::byte> Problem<T>::bits(int destination) const {
  std::vector<std::byte> all;
  const auto append = [&](const Bytes& part, std::size_t size) {
    all.insert(all.end(), part.begin() + static_cast<std::ptrdiff_t>(shape_.offset * size), part.end());
  };
  append(destination < 0 ? values_ : sources_[static_cast<std::size_t>(destination)], sizeof(T));
  all.insert(all.end(), encoded_.begin(), encoded_.end());
  for (const Bytes& state : state_)
    append(state, sizeof(T));
  return all;
}

template class Problem<float>;
template class Problem<double>;

}  // namespace kith::kernels
