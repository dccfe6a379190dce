#include "kith/gossip/tree.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>
#include <variant>

#include "kith/base/check.h"
#include "kith/base/rng.h"
#include "kith/comm/take_slot.h"

namespace kith::gossip {
namespace {

// Bytes of a message, at most, but for a number of everybody.
constexpr std::size_t kPiece = 128 << 10;

comm::WindowOptions window_options(const Members& members, const TreePlace& place, const std::string& name,
                                   std::size_t vector_bytes) {
  comm::WindowOptions window;
  window.name = name;
  window.bytes =
      std::max(std::min(vector_bytes, kPiece), static_cast<std::size_t>(members.size()) * sizeof(double));
  window.shape_digest = hash_words(vector_bytes, members.size());
  window.peers = {members.at(place.self)};
  for (const Rank rank : place.all_but(-1))
    window.peers.push_back(members.at(rank));
  if (place.self > 0) window.peers.push_back(members.at(place.self - 1));
  if (place.self + 1 < members.size()) window.peers.push_back(members.at(place.self + 1));
  return window;
}

}  // namespace

template <class T>
Tree<T>::Tree(comm::Transport& transport, Members members, kernels::Kernels<T>& kernels, const Clock& clock,
              TreeOptions options)
    : transport_(transport),
      members_(std::move(members)),
      kernels_(kernels),
      options_(std::move(options)),
      place_(TreePlace::of(members_.size(), members_.rank_of(transport.self()))),
      window_(transport.open(window_options(members_, place_, options_.name, options_.count * sizeof(T)),
                             clock.now() + options_.open_timeout)) {}

template <class T>
std::size_t Tree<T>::window_bytes() const {
  return static_cast<std::size_t>(window_->options().slots) * window_->options().bytes;
}

template <class T>
std::size_t Tree<T>::pieces_of(std::size_t bytes) const {
  return std::max<std::size_t>(1, (bytes + window_->options().bytes - 1) / window_->options().bytes);
}

template <class T>
typename Tree<T>::Bytes Tree<T>::piece_of(Bytes whole, std::size_t index) const {
  const std::size_t each = window_->options().bytes;
  return whole.subspan(index * each, std::min(each, whole.size() - index * each));
}

template <class T>
std::uint64_t Tree<T>::take_steps(std::uint64_t count) {
  const std::uint64_t first = step_ + 1;
  step_ += count;
  return first;
}

template <class T>
typename Tree<T>::Bytes Tree<T>::take_slot(std::uint64_t step, Deadline deadline) {
  return comm::take_slot(*window_, version(step), deadline, cat(transport_.self()));
}

template <class T>
void Tree<T>::publish(std::uint64_t step, std::size_t bytes, const std::vector<Rank>& readers,
                      const RoundReport& report) {
  comm::PublishOptions options{.bytes = bytes, .codec = mark_of(report)};
  for (const Rank rank : readers)
    options.readers.push_back(members_.at(rank));
  window_->publish(version(step), options);
}

template <class T>
void Tree<T>::send(std::uint64_t step, std::span<const std::byte> bytes, const std::vector<Rank>& readers,
                   const RoundReport& report, Deadline deadline) {
  if (readers.empty()) return;
  std::ranges::copy(bytes, take_slot(step, deadline).begin());
  publish(step, bytes.size(), readers, report);
}

template <class T>
std::optional<comm::Arrival> Tree<T>::receive(Rank from, std::uint64_t step, RoundReport& report,
                                              Deadline deadline) {
  comm::Outcome outcome = window_->await(members_.at(from), version(step), deadline);
  if (auto* const arrival = std::get_if<comm::Arrival>(&outcome)) {
    note_mark(report, arrival->header().codec);
    report.bytes_read += arrival->header().bytes;
    if (arrival->header().bytes > 0 || arrival->header().codec == 0) return std::move(*arrival);
    return std::nullopt;
  }
  (std::holds_alternative<comm::Lost>(outcome) ? report.lost : report.late).push_back(members_.at(from));
  return std::nullopt;
}

template <class T>
void Tree<T>::leave(Rank from, std::uint64_t step, std::uint64_t last) {
  if (step < last) window_->skip(members_.at(from), version(last));
}

template <class T>
void Tree<T>::relay(Bytes whole, Rank root, Incomplete incomplete, RoundReport& report, Deadline deadline) {
  const std::size_t pieces = pieces_of(whole.size());
  const std::uint64_t first = take_steps(pieces), last = first + pieces - 1;
  const Rank source = place_.self == root ? -1 : place_.towards(root);
  const std::vector<Rank> readers = place_.all_but(source);
  bool going = source >= 0 || report.complete() || incomplete == Incomplete::passed_on;
  for (std::size_t k = 0; k < pieces; ++k) {
    const Bytes piece = piece_of(whole, k);
    if (source >= 0) {
      const auto arrival = receive(source, first + k, report, deadline);
      going = arrival.has_value();
      if (going) {
        KITH_CHECK_EQ(arrival->data().size(), piece.size(), "all members' vectors have the same size");
        std::memcpy(piece.data(), arrival->data().data(), piece.size());
      }
    }
    // Who has to do without the source passes on what it has itself, where that is of use.
    const bool passes = going || incomplete == Incomplete::passed_on;
    send(first + k, passes ? piece : Bytes{}, readers, report, deadline);
    if (going) continue;
    if (source >= 0) leave(source, first + k, last);
    return;
  }
}

template <class T>
void Tree<T>::collect(std::span<const std::byte> row, Bytes table, RoundReport& report, Deadline deadline) {
  const std::uint64_t step = take_steps(1);
  const auto rows = [&](Rank first, Rank end) {
    return table.subspan(static_cast<std::size_t>(first) * row.size(),
                         static_cast<std::size_t>(end - first) * row.size());
  };
  std::ranges::copy(row, rows(place_.self, place_.self + 1).begin());
  for (std::size_t k = 0; k < place_.children.size(); ++k) {
    const bool is_last = k + 1 == place_.children.size();
    const Bytes theirs = rows(place_.children[k], is_last ? place_.end : place_.children[k + 1]);
    const auto arrival = receive(place_.children[k], step, report, deadline);
    if (!arrival) continue;
    KITH_CHECK_EQ(arrival->data().size(), theirs.size(), "a row for each member of a subtree");
    std::memcpy(theirs.data(), arrival->data().data(), theirs.size());
  }
  if (place_.parent >= 0) send(step, rows(place_.self, place_.end), {place_.parent}, report, deadline);
}

template <class T>
void Tree<T>::sum_along(std::span<T> x, RoundReport& report, Deadline deadline) {
  const Bytes whole = std::as_writable_bytes(x);
  const std::size_t pieces = pieces_of(whole.size());
  const std::uint64_t first = take_steps(pieces), last = first + pieces - 1;
  const Rank before = place_.self - 1;
  const bool ends = place_.self + 1 == size();
  const std::vector<Rank> after = ends ? std::vector<Rank>{} : std::vector<Rank>{place_.self + 1};
  for (std::size_t k = 0; k < pieces; ++k) {
    const Bytes own = piece_of(whole, k);
    if (before < 0) {
      send(first + k, own, after, report, deadline);
      continue;
    }
    const auto arrival = receive(before, first + k, report, deadline);
    if (!arrival) {
      send(first + k, {}, after, report, deadline);
      leave(before, first + k, last);
      return;
    }
    KITH_CHECK_EQ(arrival->data().size(), own.size(), "all members' vectors have the same size");
    const kernels::Source sources[] = {{arrival->data().data(), dtype_of<T>(), 1},
                                       {own.data(), dtype_of<T>(), 1}};
    const Bytes to = ends ? own : take_slot(first + k, deadline);
    kernels_.mix({reinterpret_cast<T*>(to.data()), nullptr, {}}, {sources, 1}, own.size() / sizeof(T));
    if (!ends) publish(first + k, own.size(), after, report);
  }
}

template <class T>
RoundReport Tree<T>::mean(std::span<T> x, Deadline deadline) {
  KITH_CHECK_LE(x.size(), options_.count, options_.name);
  RoundReport report;
  const double scale = 1.0 / size();
  std::vector<T> sum(x.begin(), x.end());
  if (x.size_bytes() * static_cast<std::size_t>(size()) <= window_->options().bytes) {
    std::vector<T> table(x.size() * static_cast<std::size_t>(size()));
    collect(std::as_bytes(x), std::as_writable_bytes(std::span(table)), report, deadline);
    if (place_.self == 0) {
      std::vector<kernels::Source> rows;
      for (std::size_t rank = 0; rank < static_cast<std::size_t>(size()); ++rank)
        rows.push_back({table.data() + rank * x.size(), dtype_of<T>(), 1});
      kernels_.mix({sum.data(), nullptr, {}}, {rows, 1}, x.size());
    }
    relay(std::as_writable_bytes(std::span(sum)), 0, Incomplete::dropped, report, deadline);
  } else {
    sum_along(sum, report, deadline);
    relay(std::as_writable_bytes(std::span(sum)), size() - 1, Incomplete::dropped, report, deadline);
  }
  if (!report.complete()) return report;
  const kernels::Source total{sum.data(), dtype_of<T>(), 1};
  kernels_.mix({x.data(), nullptr, {}}, {{&total, 1}, scale}, x.size());
  return report;
}

template <class T>
void Tree<T>::broadcast(std::span<T> x, Rank root, Deadline deadline) {
  KITH_CHECK_LE(x.size(), options_.count, options_.name);
  RoundReport report;
  relay(std::as_writable_bytes(x), root, Incomplete::dropped, report, deadline);
  const auto missing = report.missing();
  if (!missing) return;
  throw Error(cat(*missing, report.late.empty() ? " is gone" : " is late", ", and ", members_.at(root),
                  "'s numbers do not come"),
              cat(transport_.self(), ", ", options_.name), "look at that worker's log");
}

template <class T>
std::vector<double> Tree<T>::gather(double value, Deadline deadline, std::optional<WorkerId>* missing) {
  std::vector<double> values(static_cast<std::size_t>(size()), std::numeric_limits<double>::quiet_NaN());
  RoundReport report;
  const Bytes table = std::as_writable_bytes(std::span(values));
  collect(std::as_bytes(std::span(&value, 1)), table, report, deadline);
  relay(table, 0, Incomplete::passed_on, report, deadline);
  if (missing != nullptr && !*missing) *missing = report.missing();
  return values;
}

template <class T>
Error Tree<T>::incomplete(WorkerId missing) const {
  return Error(cat(missing, " is missing"), cat(transport_.self(), ", a consensus distance"),
               "look at that worker's log");
}

template <class T>
double Tree<T>::squared_consensus_distance(std::span<const T> x, Deadline deadline) {
  std::vector<T> average(x.begin(), x.end());
  if (const auto missing = mean(average, deadline).missing()) throw incomplete(*missing);
  return squared_consensus_distance(x, average, deadline);
}

template <class T>
double Tree<T>::squared_consensus_distance(std::span<const T> x, std::span<const T> mean, Deadline deadline) {
  std::optional<WorkerId> missing;
  const std::vector<double> all =
      gather(kernels_.norms(x.data(), mean.data(), x.size()).squared_distance, deadline, &missing);
  if (missing) throw incomplete(*missing);
  return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
}

template class Tree<float>;
template class Tree<double>;

}  // namespace kith::gossip
