#include "kith/launch/admission_words.h"

#include <charconv>
#include <sstream>

#include "kith/base/error.h"
#include "kith/base/shortened.h"
#include "kith/base/text.h"
#include "kith/launch/views.h"

namespace kith::launch {
namespace {

constexpr char kRefused = '!';
constexpr std::string_view kTaken = "taken ";
constexpr std::size_t kMostWorkers = 1 << 20;

[[noreturn]] void fail(const std::string& text) {
  throw Error(cat("'", shortened(text, 200), "' is no word of an admission"), "the store",
              "is another program using this store?");
}

}  // namespace

std::string encode(const Application& application) {
  return cat(application.worker.value, " ", application.attempt, " ", application.facts);
}

Application decode_application(const std::string& text) {
  Application application;
  std::istringstream in(text);
  if (!(in >> application.worker.value >> application.attempt) || application.worker.value < 0) fail(text);
  in.ignore();
  std::getline(in, application.facts, '\0');
  return application;
}

std::string encode(const Answer& answer) {
  if (!answer.refusal.empty()) return cat(kRefused, answer.refusal);
  std::string text = cat(answer.view, " ", answer.donor.value, " ", answer.workers.size());
  for (const WorkerId worker : answer.workers)
    text += cat(" ", worker.value);
  return text;
}

Answer decode_answer(const std::string& text) {
  Answer answer;
  if (!text.empty() && text.front() == kRefused) {
    answer.refusal = text.substr(1);
    return answer;
  }
  std::istringstream in(text);
  std::size_t count = 0;
  if (!(in >> answer.view >> answer.donor.value >> count) || count > kMostWorkers) fail(text);
  answer.workers.resize(count);
  for (WorkerId& worker : answer.workers)
    if (!(in >> worker.value)) fail(text);
  return answer;
}

std::string taken_for(std::uint32_t view) {
  return cat(kTaken, view);
}

std::uint32_t taken_view(std::string_view outcome) {
  std::uint32_t view = 0;
  if (!outcome.starts_with(kTaken)) return 0;
  const std::string_view number = outcome.substr(kTaken.size());
  std::from_chars(number.data(), number.data() + number.size(), view);
  return view;
}

std::string application_key(std::string_view name, std::int64_t number) {
  return views_key(name, cat("application/", number));
}

std::string admission_key(std::string_view name, std::int64_t number, std::string_view part) {
  return views_key(name, cat("admission/", number, "/", part));
}

std::string over_key(std::string_view name) {
  return views_key(name, "over");
}

}  // namespace kith::launch
