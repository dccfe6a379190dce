#include "kith/engine/state_parcel.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::engine {
namespace {

constexpr std::uint64_t kMagic = 0x6c65637261706bULL;  // "kparcel"
constexpr const char* kPlace = "the state of a member";
constexpr std::string_view kWeight = "/weight";

class Out {
 public:
  explicit Out(std::vector<std::byte>& bytes) : bytes_(bytes) {}
  void number(std::uint64_t value) { raw(std::as_bytes(std::span(&value, 1))); }
  void block(std::span<const std::byte> block) {
    number(block.size());
    raw(block);
  }

 private:
  void raw(std::span<const std::byte> block) { bytes_.insert(bytes_.end(), block.begin(), block.end()); }
  std::vector<std::byte>& bytes_;
};

class In {
 public:
  explicit In(std::span<const std::byte> bytes) : rest_(bytes) {}
  std::uint64_t number() {
    std::uint64_t value = 0;
    std::memcpy(&value, raw(sizeof value).data(), sizeof value);
    return value;
  }
  // Of things of at least eight bytes each that follow.
  std::size_t count() {
    const std::uint64_t value = number();
    if (value > rest_.size() / sizeof(std::uint64_t)) fail();
    return static_cast<std::size_t>(value);
  }
  std::span<const std::byte> block() { return raw(number()); }

 private:
  std::span<const std::byte> raw(std::uint64_t bytes) {
    if (bytes > rest_.size()) fail();
    const auto taken = rest_.first(static_cast<std::size_t>(bytes));
    rest_ = rest_.subspan(static_cast<std::size_t>(bytes));
    return taken;
  }
  [[noreturn]] static void fail() {
    throw Error("is cut short, or none", kPlace, "run the same build of kith everywhere");
  }
  std::span<const std::byte> rest_;
};

std::map<std::string, std::span<const std::byte>> by_name(const StateParcel& parcel) {
  std::map<std::string, std::span<const std::byte>> parts;
  for (const StateParcel::Part& part : parcel.parts)
    parts[part.name] = part.bytes;
  return parts;
}

std::span<const std::byte> same_part(const std::map<std::string, std::span<const std::byte>>& parts,
                                     const StateSpan& span) {
  const auto found = parts.find(span.name);
  if (found == parts.end() || found->second.size() != span.bytes.size())
    throw Error(cat("has ", found == parts.end() ? "no" : "another", " part ", span.name), kPlace,
                "start it with the setup of the job that it joins");
  return found->second;
}

double number_in(std::span<const std::byte> bytes) {
  double value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// z <- (own z + other z') / (own + other). Neither side need be aligned.
template <class T>
void mix_in(std::span<std::byte> z, double own, std::span<const std::byte> theirs, double other) {
  for (std::size_t at = 0; at + sizeof(T) <= z.size(); at += sizeof(T)) {
    T a, b;
    std::memcpy(&a, z.data() + at, sizeof(T));
    std::memcpy(&b, theirs.data() + at, sizeof(T));
    a = static_cast<T>((own * static_cast<double>(a) + other * static_cast<double>(b)) / (own + other));
    std::memcpy(z.data() + at, &a, sizeof(T));
  }
}

}  // namespace

std::vector<std::byte> encode(const StateParcel& parcel) {
  std::size_t size = parcel.extra.size() + 4096;
  for (const StateParcel::Part& part : parcel.parts)
    size += part.bytes.size() + part.name.size() + 2 * sizeof(std::uint64_t);
  std::vector<std::byte> bytes;
  bytes.reserve(size);
  Out out(bytes);
  out.number(kMagic);
  out.number(static_cast<std::uint64_t>(parcel.steps));
  out.number(parcel.roster.nodes().size());
  for (const auto& [worker, node] : parcel.roster.nodes()) {
    out.number(static_cast<std::uint64_t>(worker.value));
    out.number(static_cast<std::uint64_t>(node));
  }
  out.number(parcel.cut.size());
  for (const auto& bucket : parcel.cut) {
    out.number(bucket.size());
    for (const CutPart& part : bucket) {
      out.number(part.segment);
      out.number(part.count);
    }
  }
  out.number(parcel.parts.size());
  for (const StateParcel::Part& part : parcel.parts) {
    out.block(std::as_bytes(std::span(part.name)));
    out.block(part.bytes);
  }
  out.block(parcel.extra);
  return bytes;
}

StateParcel decode_state_parcel(std::span<const std::byte> bytes) {
  In in(bytes);
  if (in.number() != kMagic) throw Error("is none", kPlace, "run the same build of kith everywhere");
  StateParcel parcel;
  parcel.steps = static_cast<std::int64_t>(in.number());
  std::map<WorkerId, int> nodes;
  for (std::size_t left = in.count(); left > 0; --left) {
    const WorkerId worker{static_cast<int>(in.number())};
    nodes[worker] = static_cast<int>(in.number());
  }
  parcel.roster = Roster(std::move(nodes));
  parcel.cut.resize(in.count());
  for (auto& bucket : parcel.cut) {
    bucket.resize(in.count());
    for (CutPart& part : bucket) {
      part.segment = in.number();
      part.count = in.number();
    }
  }
  parcel.parts.resize(in.count());
  for (StateParcel::Part& part : parcel.parts) {
    const auto name = in.block();
    part.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
    part.bytes = in.block();
  }
  parcel.extra = in.block();
  return parcel;
}

void take_parcel(const StateParcel& parcel, std::vector<StateSpan> state) {
  const auto parts = by_name(parcel);
  std::erase_if(state, [](const StateSpan& span) { return span.of_view; });
  for (const StateSpan& span : state) {
    std::ranges::copy(same_part(parts, span), span.bytes.begin());
    const double own = 1;
    if (span.name.ends_with(kWeight)) std::memcpy(span.bytes.data(), &own, sizeof own);
  }
}

void add_mass(std::span<const StateSpan> state, const StateParcel& other, const Cut& cut,
              std::span<const DType> types) {
  const auto parts = by_name(other);
  for (std::size_t b = 0; b < cut.size(); ++b) {
    const std::string bucket = cat("/bucket", b);
    const auto weight = std::ranges::find_if(
        state, [&](const StateSpan& span) { return span.name.ends_with(cat(bucket, kWeight)); });
    if (weight == state.end()) continue;
    const double own = number_in(weight->bytes), theirs = number_in(same_part(parts, *weight));
    for (std::size_t k = 0; k < cut[b].size(); ++k) {
      const auto model = std::ranges::find_if(
          state, [&](const StateSpan& span) { return span.name.ends_with(cat(bucket, "/model", k)); });
      if (model == state.end()) throw Error(cat("has no model", k, " in ", bucket), kPlace);
      const auto z = same_part(parts, *model);
      if (types[cut[b][k].segment] == DType::f64) {
        mix_in<double>(model->bytes, own, z, theirs);
      } else {
        mix_in<float>(model->bytes, own, z, theirs);
      }
    }
    const double sum = own + theirs;
    std::memcpy(weight->bytes.data(), &sum, sizeof sum);
  }
}

}  // namespace kith::engine
