#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kith/base/ids.h"

namespace kith::launch {

// What members and newcomers write in the Store about an admission: Note [How a worker joins] in
// kith/launch/admissions.h.

// Who asks, for the how manieth time, and what it says of itself.
struct Application {
  WorkerId worker;
  int attempt = 0;
  std::string facts;
};
std::string encode(const Application& application);

// What it is told.
struct Answer {
  std::string refusal;     // empty: it may come
  std::uint32_t view = 0;  // that stood then
  WorkerId donor;
  std::vector<WorkerId> workers;  // the members and the newcomer, ascending
};
std::string encode(const Answer& answer);

// Error when the text is none of these.
Application decode_application(const std::string& text);
Answer decode_answer(const std::string& text);

// What became of it: taken for the view of that number, or a failure in words.
std::string taken_for(std::uint32_t view);
// 0 for a failure.
std::uint32_t taken_view(std::string_view outcome);

// The keys of the Store.
std::string application_key(std::string_view name, std::int64_t number);
std::string admission_key(std::string_view name, std::int64_t number, std::string_view part);
std::string over_key(std::string_view name);

}  // namespace kith::launch
