#include "kith/launch/views.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "kith/base/shortened.h"
#include "kith/base/text.h"
#include "kith/comm/will_store.h"

namespace kith::launch {
namespace {

constexpr auto kLook = std::chrono::milliseconds(20);  // for lost members, while waiting for one
constexpr auto kSayAfter = std::chrono::seconds(1);    // after which a wait explains itself
constexpr std::string_view kStands = "stands";
constexpr std::string_view kFalls = "falls";
constexpr std::string_view kGone = "gone";  // a list: who tells, who is
constexpr char kGentle = '~';

std::string words_of(Progress progress, const std::vector<double>& values) {
  std::ostringstream out;
  out << progress.steps << ' ' << progress.operations << ' ' << values.size() << std::hexfloat;
  for (const double value : values)
    out << ' ' << value;
  return out.str();
}

class Words {
 public:
  explicit Words(const std::string& text) : text_(text), in_(text) {}

  std::int64_t number() {
    std::int64_t value = 0;
    if (!(in_ >> value)) fail();
    return value;
  }
  // A count of things of at least two characters each that follow.
  std::size_t count() {
    const std::int64_t value = number();
    if (value < 0 || static_cast<std::size_t>(value) > text_.size()) fail();
    return static_cast<std::size_t>(value);
  }
  // As hexfloat writes it, which streams do not read.
  double real() {
    std::string word;
    if (!(in_ >> word)) fail();
    char* end = nullptr;
    const double value = std::strtod(word.c_str(), &end);
    if (*end != '\0') fail();
    return value;
  }
  Progress progress() {
    const std::int64_t steps = number();
    return {steps, number()};
  }
  std::vector<double> reals() {
    std::vector<double> values(count());
    for (double& value : values)
      value = real();
    return values;
  }

 private:
  [[noreturn]] void fail() const {
    throw Error(cat("'", shortened(text_, 200), "' is no word of a view"), "the store",
                "is another program using this store?");
  }

  const std::string& text_;
  std::istringstream in_;
};

}  // namespace

std::string gentle_call(const std::string& why) {
  return cat(kGentle, why);
}

std::string views_key(std::string_view name, std::string_view part) {
  return cat("views/", name, "/", part);
}

std::string view_key(std::string_view name, std::uint32_t view, std::string_view part) {
  return views_key(name, cat(view, "/", part));
}

bool View::has(WorkerId worker) const {
  return std::ranges::find(members.workers, worker) != members.workers.end();
}

std::string encode(const View& view) {
  std::ostringstream out;
  out << view.members.view << ' ' << view.members.size();
  for (Rank rank = 0; rank < view.members.size(); ++rank) {
    const Progress reached = view.reached[static_cast<std::size_t>(rank)];
    out << ' ' << view.members.at(rank).value << ' ' << reached.steps << ' ' << reached.operations;
  }
  out << ' ' << words_of(view.first, view.values) << ' ' << view.left.size();
  for (const WorkerId worker : view.left)
    out << ' ' << worker.value;
  out << ' ' << view.admission;
  return out.str();
}

View decode_view(const std::string& text) {
  Words words(text);
  View view;
  view.members.view = static_cast<std::uint32_t>(words.number());
  const std::size_t members = words.count();
  for (std::size_t i = 0; i < members; ++i) {
    view.members.workers.push_back(WorkerId{static_cast<int>(words.number())});
    view.reached.push_back(words.progress());
  }
  view.first = words.progress();
  view.values = words.reals();
  const std::size_t left = words.count();
  for (std::size_t i = 0; i < left; ++i)
    view.left.push_back(WorkerId{static_cast<int>(words.number())});
  view.admission = words.number();
  return view;
}

Views::Views(comm::Store& store, comm::Transport& transport, Members first, const Clock& clock, Log& log,
             ViewsOptions options)
    : store_(store),
      transport_(transport),
      clock_(clock),
      log_(log),
      options_(std::move(options)),
      members_(std::move(first)),
      next_(members_.view + 1),
      stood_(members_.workers) {
  watch();
}

Views::Views(comm::Store& store, comm::Transport& transport, const View& agreed, const Clock& clock, Log& log,
             ViewsOptions options)
    : store_(store),
      transport_(transport),
      clock_(clock),
      log_(log),
      options_(std::move(options)),
      members_(agreed.members),
      next_(agreed.members.view),
      admission_(agreed.admission),
      stood_(members_.workers),
      called_(true) {
  std::erase(stood_, transport_.self());
}

Views::~Views() = default;

std::string Views::key(std::string_view part) const {
  return view_key(options_.name, next_, part);
}

// Also ends the watch over the view before. A store that is lost is found out by whoever needs it.
void Views::watch() {
  watcher_ = {};
  hurry_ = {};
  called_ = gentle_ = urgent_ = false;
  watcher_ = std::jthread([this, called = key("called")](const std::stop_token& stop) {
    try {
      const auto why = store_.wait(called, Deadline::max(), stop);
      if (!why) return;
      gentle_ = why->starts_with(kGentle);
    } catch (const Error&) {
      return;
    }
    called_ = true;
    if (gentle_) watch_for_urgency();
    if (options_.on_called) options_.on_called(stop);
  });
}

void Views::watch_for_urgency() {
  hurry_ = std::jthread([this, urgent = key("urgent")](const std::stop_token& stop) {
    try {
      if (!store_.wait(urgent, Deadline::max(), stop)) return;
    } catch (const Error&) {
      return;
    }
    urgent_ = true;
    if (options_.on_urgent) options_.on_urgent();
  });
}

void Views::call(const std::string& why) {
  if (called_.exchange(true) && !gentle()) return;
  log_.warning(cat(why, "; view ", next_, " is called for"));
  if (store_.set_once(key("called"), why).starts_with(kGentle)) store_.set_once(key("urgent"), why);
}

bool Views::lost_here(WorkerId worker) const {
  if (worker == transport_.self()) return false;
  return options_.lost ? options_.lost(worker) : transport_.lost(worker);
}

bool Views::lost(WorkerId worker) const {
  return reported_.contains(worker) || lost_here(worker);
}

void Views::exchange_losses(const std::stop_token& stop) {
  const std::string list = key(kGone);
  const auto take = [&](const std::string& word) {
    ++heard_;
    Words words(word);
    const WorkerId teller{static_cast<int>(words.number())};
    const WorkerId gone{static_cast<int>(words.number())};
    if (!reported_.contains(teller) && gone != transport_.self()) reported_.insert(gone);
  };
  while (const auto word = store_.get(comm::list_key(list, heard_ + 1), stop))
    take(*word);
  for (const WorkerId worker : members_.workers) {
    const std::string own = cat(transport_.self().value, " ", worker.value);
    while (!reported_.contains(worker) && lost_here(worker))
      take(store_.set_once(comm::list_key(list, heard_ + 1), own, stop));
  }
}

WorkerId Views::speaker() const {
  const auto alive = std::ranges::find_if(members_.workers, [&](WorkerId w) { return !lost(w); });
  return *alive;  // oneself at the latest
}

std::string Views::hear(WorkerId worker, std::string_view part, Deadline deadline,
                        const std::stop_token& stop, const std::function<bool()>& over) {
  const Clock::Time begin = clock_.now();
  bool told = false;
  while (true) {
    exchange_losses(stop);
    const bool gone = lost(worker);  // before the look
    if (auto word = store_.wait(key(cat(part, "/", worker.value)), clock_.now() + kLook, stop)) return *word;
    const Clock::Time now = clock_.now();
    if (gone || now >= deadline || stop.stop_requested() || (over && over())) return {};
    if (told || now - begin < kSayAfter) continue;
    told = true;
    log_.warning(cat("view ", next_, " waits for ", worker, ", which is alive but has not come; in ",
                     seconds(deadline - now), " s it is left out"));
  }
}

std::string Views::decided(std::string_view part, const std::function<std::string()>& decide,
                           const std::stop_token& stop) {
  const Clock::Time begin = clock_.now();
  const Deadline deadline = begin + options_.patience;
  bool told = false;
  while (true) {
    exchange_losses(stop);
    const Clock::Time now = clock_.now();
    const WorkerId first = speaker();
    if (first == transport_.self() || now >= deadline) {
      const std::string own = decide();
      if (!stop.stop_requested()) return store_.set_once(key(part), own, stop);
    }
    if (stop.stop_requested()) throw Error("stopped", cat(transport_.self(), ", view ", next_));
    if (auto value = store_.wait(key(part), now + kLook, stop)) return *value;
    if (told || now - begin < kSayAfter) continue;
    told = true;
    log_.warning(cat("view ", next_, " waits for ", first, " to say who is there; in ",
                     seconds(deadline - now), " s it is left out"));
  }
}

std::string Views::propose(const std::stop_token& stop) {
  const Deadline deadline = clock_.now() + options_.patience;
  View view;
  view.members.view = next_;
  std::vector<std::pair<WorkerId, Progress>> leavers;
  bool busy = false;
  std::vector<std::pair<WorkerId, std::string>> places;
  for (const WorkerId worker : members_.workers) {
    if (std::string word = hear(worker, "at", deadline, stop); !word.empty())
      places.emplace_back(worker, std::move(word));
  }
  if (!stop.stop_requested()) exchange_losses(stop);  // who has been heard has told of its own
  for (const auto& [worker, word] : places) {
    if (lost(worker)) continue;
    Words words(word);
    const Progress reached = words.progress();
    std::vector<double> values = words.reals();
    if (reached >= view.first) {
      view.first = reached;
      view.values = std::move(values);
    }
    const bool leaves = words.number() != 0;
    busy = words.number() != 0 || busy;
    if (leaves) {
      leavers.push_back({worker, reached});
      continue;
    }
    view.members.workers.push_back(worker);
    view.reached.push_back(reached);
  }
  // One that nobody who stays has caught up with goes later: they may need what it has.
  const bool caught_up = view.reached.empty() || std::ranges::any_of(view.reached, [&](const Progress& at) {
                           return at.steps == view.first.steps;
                         });
  for (const auto& [worker, reached] : leavers) {
    if (caught_up || reached.steps < view.first.steps) {
      view.left.push_back(worker);
    } else {
      view.members.workers.push_back(worker);
      view.reached.push_back(reached);
    }
  }
  if (!busy) {
    take_in(view);
  } else {
    leave_newcomers_out(view);
  }
  return encode(view);
}

void Views::take_in(View& view) {
  view.admission = admission_;
  if (admission_ != 0 || view.members.workers.empty() || !options_.candidate) return;
  const auto newcomer = options_.candidate(view.members);
  if (!newcomer) return;
  view.members.workers.push_back(newcomer->worker);
  view.reached.push_back({newcomer->steps, view.first.operations});
  view.admission = newcomer->admission;
}

void Views::leave_newcomers_out(View& view) const {
  for (std::size_t rank = view.members.workers.size(); rank-- > 0;) {
    if (std::ranges::find(stood_, view.members.workers[rank]) != stood_.end()) continue;
    view.members.workers.erase(view.members.workers.begin() + static_cast<std::ptrdiff_t>(rank));
    view.reached.erase(view.reached.begin() + static_cast<std::ptrdiff_t>(rank));
  }
}

View Views::agree(const Place& place, const std::stop_token& stop) {
  exchange_losses(stop);
  store_.set(key(cat("at/", transport_.self().value)),
             cat(words_of(place.progress, place.values), " ", place.leaves ? 1 : 0, " ", place.busy ? 1 : 0),
             stop);
  const View view = decode_view(decided(
      "view", [&] { return propose(stop); }, stop));
  if (view.members.view != next_)
    throw Error(cat("view ", view.members.view, " stands where view ", next_, " should"), "the store");
  const bool leaves = std::ranges::find(view.left, transport_.self()) != view.left.end();
  if (!view.has(transport_.self()) && !leaves) {
    throw LeftOut(
        cat("the others went on without ", transport_.self(), ", in view ", next_), cat(transport_.self()),
        "it did not answer in time, or its links were cut; start it again to go on from a checkpoint");
  }
  members_ = view.members;
  admission_ = view.admission;
  return view;
}

bool Views::all_opened() {
  const Deadline deadline = clock_.now() + options_.patience;
  // One that could not open lets the view fall, and never says that it has.
  const auto fell = [&] { return store_.get(key("outcome")).has_value(); };
  return std::ranges::all_of(
      members_.workers, [&](WorkerId worker) { return !hear(worker, "open", deadline, {}, fell).empty(); });
}

bool Views::stands(std::optional<std::int64_t> opened) {
  std::string outcome;
  if (opened) {
    store_.set(key(cat("open/", transport_.self().value)), cat(*opened));
    outcome = decided("outcome", [&] { return std::string(all_opened() ? kStands : kFalls); }, {});
  } else {
    outcome = store_.set_once(key("outcome"), kFalls);
  }
  ++next_;
  heard_ = 0;
  reported_.clear();
  if (outcome == kStands) {
    admission_ = 0;
    stood_ = members_.workers;
  }
  watch();
  return outcome == kStands;
}

bool Views::falls(const std::stop_token& stop) {
  try {
    const auto outcome = store_.wait(key("outcome"), Deadline::max(), stop);
    return outcome && *outcome == kFalls;
  } catch (const Error&) {
    return false;
  }
}

std::int64_t Views::opened_after(WorkerId member) {
  const auto word = store_.get(view_key(options_.name, next_ - 1, cat("open/", member.value)));
  if (!word) throw Error(cat(member, " has not opened view ", next_ - 1), "the store");
  return Words(*word).number();
}

}  // namespace kith::launch
