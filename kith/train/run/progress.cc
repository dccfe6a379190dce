#include "kith/train/run/progress.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "kith/base/text.h"

namespace kith::train {
namespace {

constexpr auto kBarPause = std::chrono::milliseconds(200);
constexpr int kBarWidth = 24;
constexpr double kSmoothing = 0.9;

template <class... Args>
std::string format(const char* pattern, Args... args) {
  std::array<char, 128> text{};
  std::snprintf(text.data(), text.size(), pattern, args...);
  return text.data();
}

// 1234567 -> "1.2M".
std::string short_number(double value) {
  if (value >= 1e6) return format("%.1fM", value / 1e6);
  if (value >= 1e4) return format("%.0fk", value / 1e3);
  return format("%.0f", value);
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<long>(std::lround(seconds));
  if (whole >= 3600) return format("%ldh%02ldm", whole / 3600, whole / 60 % 60);
  return format("%ldm%02lds", whole / 60, whole % 60);
}

}  // namespace

Progress::Progress(ProgressOptions options, const Clock& clock)
    : options_(std::move(options)), clock_(clock), start_(clock.now()), step_(options_.first_step) {}

Progress::~Progress() {
  if (bar_shown_) std::fputs("\n", options_.out);
}

std::string Progress::position() const {
  return options_.steps == 0 ? cat(step_) : cat(step_, "/", options_.steps);
}

std::string Progress::line() const {
  const double done = static_cast<double>(step_ - options_.first_step);
  const double elapsed = seconds(clock_.now() - start_);
  const double left = done > 0 ? elapsed / done * static_cast<double>(options_.steps - step_) : 0;
  std::string text = format("loss %.4f", loss_);
  if (seconds_ > 0) {
    const double rate = done * static_cast<double>(options_.units_per_step) / seconds_;
    text += cat("  ", short_number(rate), " ", options_.unit, "s/s");
    text += format("  waiting %.1f%%", 100 * waited_seconds_ / seconds_);
  }
  if (consensus_distance_) text += format("  consensus %.2e", *consensus_distance_);
  return options_.steps == 0 ? text : text + cat("  ETA ", duration_text(left));
}

void Progress::clear_bar() {
  if (std::exchange(bar_shown_, false)) std::fputs("\r\033[K", options_.out);
}

void Progress::draw_bar() {
  const double share =
      options_.steps == 0 ? 0 : static_cast<double>(step_) / static_cast<double>(options_.steps);
  const auto filled = static_cast<std::size_t>(share * kBarWidth);
  std::string bar(filled, '#');
  bar.resize(kBarWidth, '.');
  const std::string text = cat("\r\033[K[", bar, "] ", position(), "  ", line());
  std::fputs(text.c_str(), options_.out);
  std::fflush(options_.out);
  bar_shown_ = true;
  drawn_ = clock_.now();
}

void Progress::step(const StepMetrics& metrics) {
  const bool first = step_ == options_.first_step;
  step_ = metrics.step;
  loss_ = first ? metrics.loss : kSmoothing * loss_ + (1 - kSmoothing) * metrics.loss;
  seconds_ += metrics.seconds;
  waited_seconds_ += metrics.waited_seconds;
  if (options_.terminal) {
    if (clock_.now() - drawn_ >= kBarPause || step_ == options_.steps) draw_bar();
  } else if (step_ % options_.line_every == 0 || step_ == options_.steps) {
    std::fprintf(options_.out, "step %s  %s\n", position().c_str(), line().c_str());
    std::fflush(options_.out);
  }
}

void Progress::evaluation(const EvalMetrics& metrics) {
  consensus_distance_ = metrics.consensus_distance;
  note(format("step %lld  validation loss %.4f  accuracy %.2f%%  consensus %.2e",
              static_cast<long long>(metrics.step), metrics.loss, 100 * metrics.accuracy,
              metrics.consensus_distance));
}

void Progress::note(const std::string& text) {
  clear_bar();
  std::fprintf(options_.out, "%s\n", text.c_str());
  std::fflush(options_.out);
}

}  // namespace kith::train
