#include "kith/train/run/membership.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <utility>

#include "kith/base/text.h"
#include "kith/engine/options.h"
#include "kith/optim/algorithm.h"
#include "kith/train/run/begun.h"

namespace kith::train {
namespace {

// By gather(): what nobody can tell.
constexpr double kUnknown = -1;

// With everybody: nobody has a model of its own.
bool one_model(const DecentralizedDataParallel& wrapped) {
  return optim::exchange_of(wrapped.engine().options().algorithm) == optim::Exchange::gradients;
}

bool hands_mass_over(const DecentralizedDataParallel& wrapped) {
  return optim::make_algorithm<float>(wrapped.engine().options().algorithm)->needs_directed_schedule();
}

bool has(const std::vector<WorkerId>& workers, WorkerId worker) {
  return std::ranges::find(workers, worker) != workers.end();
}

// Of the first those that the second has not, in the order of ids.
std::vector<WorkerId> without(const std::vector<WorkerId>& all, const std::vector<WorkerId>& others) {
  std::vector<WorkerId> rest;
  std::ranges::copy_if(all, std::back_inserter(rest), [&](WorkerId w) { return !has(others, w); });
  std::ranges::sort(rest);
  return rest;
}

std::string leaver_key(WorkerId worker) {
  return cat(kLeaverKey, worker.value);
}

// Of a worker that has left: its word in the Store; empty where a program of one's own said none.
std::string word_of_leaver(comm::Store& store, WorkerId worker) {
  return store.get(leaver_key(worker)).value_or("");
}

std::string reason_in(const std::string& word) {
  const auto space = word.find(' ');
  return space == std::string::npos ? std::string(kAsked) : word.substr(space + 1);
}

}  // namespace

Membership::Membership(DecentralizedDataParallel& wrapped, Dealings dealings, Options options)
    : wrapped_(wrapped),
      dealings_(std::move(dealings)),
      options_(options),
      begun_(wrapped.steps()),
      comes_(wrapped.joined()),
      members_(wrapped.world().members),
      dealt_(members_) {}

void Membership::note(const StepReport& report) {
  note_mates();
  missing_weight_ += report.missing_weight;
  missing_rounds_ += report.missing_weight > 0 ? 1 : 0;
  for (const engine::PeerRead& read : report.read)
    heard_[read.peer] = {read.steps, read.apart.distance(options_.parameters)};
}

void Membership::note_mates() {
  const engine::EngineOptions& options = wrapped_.engine().options();
  if (!engine::nodes_are_models(options)) return;
  const graph::Shape& shape = options.schedule.shape;
  const Members& members = wrapped_.world().members;
  const int node = shape.node_of(wrapped_.world().rank());
  for (Rank rank = shape.first_of(node); rank < shape.first_of(node) + shape.size_of(node); ++rank)
    mates_.insert(members.at(rank));
}

std::optional<Membership::Seen> Membership::follow() {
  const Members& now = wrapped_.world().members;
  const bool first = comes_ && changes_.empty();
  if (now.view == members_.view && !first) return std::nullopt;
  const std::int64_t began = wrapped_.engine().view_began();
  const auto view = static_cast<int>(now.view);
  std::vector<WorkerId> before = members_.workers;
  if (first) std::erase(before, wrapped_.world().self());
  Seen seen;
  for (const WorkerId worker : without(before, now.workers)) {
    if (has(wrapped_.engine().left(), worker)) {
      const std::string word = word_of_leaver(*wrapped_.world().store, worker);
      seen.left.push_back({worker.value, began, view, reason_in(word)});
    } else {
      seen.lost.push_back({.worker = worker.value, .step = began, .view = view});
    }
  }
  for (const WorkerId worker : without(now.workers, before))
    seen.joined.push_back({worker.value, began, view});
  losses_.insert(losses_.end(), seen.lost.begin(), seen.lost.end());
  joined_.insert(joined_.end(), seen.joined.begin(), seen.joined.end());
  left_.insert(left_.end(), seen.left.begin(), seen.left.end());
  changes_.push_back({now, began, std::move(before)});
  members_ = now;
  return seen;
}

std::int64_t Membership::first_step_of(WorkerId worker) const {
  const auto found = std::ranges::find(joined_, worker.value, &Passage::worker);
  return found == joined_.end() ? begun_ : found->step + 1;
}

void Membership::ask_around(Loss& loss, const Change& change) {
  if (one_model(wrapped_)) {
    loss.heard = change.began;
    loss.mean_shift = 0;
    return;
  }
  const WorkerId worker{loss.worker};
  const auto known = heard_.find(worker);
  Heard own = known == heard_.end() ? Heard{first_step_of(worker), {}} : known->second;
  if (mates_.contains(worker)) own = {change.began, 0};
  loss.heard = first_step_of(worker);
  for (const double steps : wrapped_.gather(static_cast<double>(own.steps))) {
    if (!std::isnan(steps)) loss.heard = std::max(loss.heard, static_cast<std::int64_t>(steps));
  }
  double sum = 0;
  int told = 0;
  const bool last = own.steps == loss.heard && own.distance;
  for (const double distance : wrapped_.gather(last ? *own.distance : kUnknown)) {
    if (std::isnan(distance) || distance < 0) continue;
    sum += distance;
    ++told;
  }
  if (told > 0 && change.before.size() > 1)
    loss.mean_shift = sum / told / static_cast<double>(change.before.size() - 1);
}

void Membership::count_left(Loss& loss) const {
  const std::string told = word_of_leaver(*wrapped_.world().store, WorkerId{loss.worker});
  const std::int64_t made = told.empty() ? loss.step : std::stoll(told);
  const bool all = one_model(wrapped_) || hands_mass_over(wrapped_);
  loss.heard = all ? made : std::min(made, loss.heard);
}

bool Membership::may_leave() {
  const engine::WorldParts& world = wrapped_.world();
  const std::uint32_t view = world.members.view;
  if (asked_to_leave_ == view) return false;
  asked_to_leave_ = view;
  const std::string own = cat(world.self().value);
  return world.store->set_once(cat("train/leaves/", view), own) == own;
}

void Membership::leave(std::string_view why) const {
  const engine::WorldParts& world = wrapped_.world();
  world.store->set(leaver_key(world.self()), cat(wrapped_.steps(), " ", why));
}

std::optional<Membership::Change> Membership::take_due() {
  const auto due = [&](const Change& change) { return change.began < wrapped_.steps(); };
  std::vector<Change> changes;
  std::ranges::copy_if(changes_, std::back_inserter(changes), due);
  if (changes.empty()) return std::nullopt;
  std::erase_if(changes_, due);
  // Views that began at the same step are one: whoever slept through the first has seen only the last.
  return Change{changes.back().members, changes.back().began, changes.front().before};
}

std::optional<Membership::Settled> Membership::settle(const SamplerPosition& position) {
  const std::optional<Change> whole = take_due();
  if (!whole) return std::nullopt;
  const std::vector<WorkerId> gone = without(whole->before, whole->members.workers);
  Settled settled{.losses = {},
                  .position = {},
                  .rank = whole->members.rank_of(wrapped_.world().self()),
                  .workers = whole->members.size(),
                  .newcomers = !without(whole->members.workers, whole->before).empty()};
  if (settled.newcomers) wrapped_.gather(static_cast<double>(gone.size()));
  std::vector<GoneWorker> unheard;
  std::vector<Loss> losses;
  for (const WorkerId worker : gone) {
    const auto known = std::ranges::find(losses_, worker.value, &Loss::worker);
    const bool lost = known != losses_.end();
    Loss loss = lost ? *known : Loss{.worker = worker.value, .step = whole->began};
    ask_around(loss, *whole);
    if (!lost) count_left(loss);
    unheard.push_back({worker, static_cast<std::uint64_t>(loss.heard * options_.batches_per_step)});
    losses.push_back(loss);
    heard_.erase(worker);
  }
  const Dealings::Anew anew = dealings_.deal(position, whole->members.workers, unheard);
  for (std::size_t k = 0; k < losses.size(); ++k) {
    Loss& loss = losses[k];
    loss.samples_again = static_cast<std::int64_t>(anew.unheard[k].again);
    loss.samples_unseen = static_cast<std::int64_t>(anew.unheard[k].unseen);
    const auto known = std::ranges::find(losses_, loss.worker, &Loss::worker);
    if (known == losses_.end()) continue;
    *known = loss;
    settled.losses.push_back(loss);
  }
  settled.position = anew.position;
  dealt_ = whole->members;
  return settled;
}

// ---- newcomers

Members Membership::attend() {
  const Members view = take_due()->members;
  double gone = 0;
  for (const double count : wrapped_.gather(kUnknown))
    if (!std::isnan(count)) gone = std::max(gone, count);
  const int questions = one_model(wrapped_) ? 0 : 2;
  for (int k = 0; k < questions * static_cast<int>(gone); ++k)
    wrapped_.gather(kUnknown);
  comes_ = false;
  return view;
}

Membership::Settled Membership::settle(const Welcome& welcome) {
  take_over(welcome);
  return {.losses = {},
          .position = welcome.position,
          .rank = dealt_.rank_of(wrapped_.world().self()),
          .workers = dealt_.size()};
}

void Membership::put_into(Summary& summary) const {
  summary.views = static_cast<int>(members_.view) + 1;
  summary.lost = losses_;
  summary.joined = joined_;
  summary.left = left_;
}

void Membership::put_into(Welcome& welcome) const {
  welcome.members = dealt_;
  welcome.dealings = dealings_.words();
  welcome.begun = begun_;
  welcome.lost = losses_;
  welcome.joined = joined_;
  welcome.left = left_;
}

void Membership::take_over(const Welcome& welcome) {
  dealt_ = welcome.members;
  dealings_.take_over(welcome.dealings);
  begun_ = welcome.begun;
  losses_ = welcome.lost;
  joined_ = welcome.joined;
  left_ = welcome.left;
}

// ---- texts

std::vector<std::string> texts_of(const Membership::Seen& seen, int workers) {
  std::vector<std::string> texts;
  const auto add = [&](const auto& change, const char* what) {
    texts.push_back(cat("step ", change.step, "  worker ", change.worker, what, ": ", workers,
                        " workers go on (view ", change.view, ")"));
  };
  for (const Loss& loss : seen.lost)
    add(loss, " is gone");
  for (const Passage& passage : seen.left)
    add(passage, passage.why == kSlow ? ", which everybody waited for, is left out" : " has left");
  for (const Passage& passage : seen.joined)
    add(passage, " has joined");
  return texts;
}

std::string cost_text(const Loss& loss) {
  std::array<char, 64> moved{};
  std::snprintf(moved.data(), moved.size(), "; the mean of all models moved by about %.2g", loss.mean_shift);
  return cat("worker ", loss.worker, " was last heard of after ", loss.heard, " steps; ", loss.samples_again,
             " of its samples are dealt to others, ", loss.samples_unseen, " are not seen in their epoch",
             std::isnan(loss.mean_shift) ? "" : moved.data());
}

}  // namespace kith::train
