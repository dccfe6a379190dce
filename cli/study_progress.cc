#include "cli/study_progress.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <iostream>

#include "kith/base/text.h"

namespace kith::cli {
namespace {

std::string spoken_time(double seconds) {
  if (seconds < 90) return cat(std::lround(seconds), " s");
  if (seconds < 5400) return cat(std::lround(seconds / 60), " min");
  return cat(std::lround(seconds / 360) / 10.0, " h");
}

std::string wall_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts);
  return text.data();
}

}  // namespace

StudyProgress::StudyProgress(const std::filesystem::path& log, bool terminal)
    : terminal_(terminal), log_(log, std::ios::app) {}

StudyProgress::~StudyProgress() {
  erase_state();
}

std::string StudyProgress::stamp() const {
  return cat("[", state_.done, "/", state_.all, "] ");
}

void StudyProgress::started(const std::string& text) {
  log_ << wall_time() << " " << stamp() << text << std::endl;
  if (!terminal_) std::cout << stamp() << text << std::endl;
  draw_state();
}

void StudyProgress::note(const std::string& text) {
  log_ << wall_time() << " " << stamp() << text << std::endl;
  erase_state();
  std::cout << stamp() << text << std::endl;
  draw_state();
}

void StudyProgress::refresh() {
  if (SteadyClock::now() - drawn_ >= std::chrono::seconds(1)) draw_state();
}

void StudyProgress::erase_state() {
  if (shown_) std::cout << "\r\x1b[K" << std::flush;
  shown_ = false;
}

void StudyProgress::draw_state() {
  if (!terminal_) return;
  erase_state();
  drawn_ = SteadyClock::now();
  const double elapsed = std::chrono::duration<double>(drawn_ - start_).count();
  std::cout << state_.done << " of " << state_.all << " runs done, " << state_.running << " running, "
            << spoken_time(elapsed);
  if (state_.steps_done > 0)
    std::cout << ", about "
              << spoken_time(elapsed * static_cast<double>(state_.steps_left) /
                             static_cast<double>(state_.steps_done))
              << " left";
  std::cout << std::flush;
  shown_ = true;
}

}  // namespace kith::cli
