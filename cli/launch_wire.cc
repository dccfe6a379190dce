#include "cli/launch_wire.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::cli {
namespace {

constexpr std::string_view kMark = "kith-agent ";

}  // namespace

std::string to_line(const AgentTask& task) {
  const nlohmann::json json{{"command", task.command},
                            {"folder", task.folder},
                            {"environment", task.environment},
                            {"secret", task.secret},
                            {"store", task.store},
                            {"serves", task.serves},
                            {"elastic", task.elastic},
                            {"hears_scale", task.hears_scale},
                            {"go_on", task.deaths == OnDeath::go_on},
                            {"first_worker", task.first_worker},
                            {"local_workers", task.local_workers},
                            {"workers", task.workers}};
  return json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

AgentTask parse_task(std::string_view line) {
  try {
    const auto json = nlohmann::json::parse(line);
    return {.command = json.at("command"),
            .folder = json.at("folder"),
            .environment = json.at("environment").get<launch::Environment>(),
            .secret = json.at("secret"),
            .store = json.at("store"),
            .serves = json.at("serves"),
            .elastic = json.at("elastic"),
            .hears_scale = json.at("hears_scale"),
            .deaths = json.at("go_on").get<bool>() ? OnDeath::go_on : OnDeath::end,
            .first_worker = json.at("first_worker"),
            .local_workers = json.at("local_workers"),
            .workers = json.at("workers")};
  } catch (const nlohmann::json::exception&) {
    throw InputError("its input is not a task", "--agent",
                     "kith launch --hosts starts it; run the same kith everywhere");
  }
}

std::pair<int, int> numbers_of(std::string_view text) {
  std::pair<int, int> numbers{0, 0};
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, numbers.first);
  if (first.ptr < end) std::from_chars(first.ptr + 1, end, numbers.second);
  return numbers;
}

// "kith-agent o 3 text", "kith-agent x 3 7 ended with exit code 7", "kith-agent l 3 0 ...", "kith-agent s 0 6
// 1".
std::string to_line(const AgentEvent& event) {
  if (event.ending)
    return cat(kMark, event.left ? "l " : "x ", event.worker, " ", event.ending->code, " ",
               event.ending->text);
  if (event.scale) return cat(kMark, "s 0 ", *event.scale);
  return cat(kMark, event.stream == Stream::out ? "o " : "e ", event.worker, " ", event.text);
}

std::optional<AgentEvent> parse_event(std::string_view line) {
  if (!line.starts_with(kMark)) return std::nullopt;
  line.remove_prefix(kMark.size());
  const auto word = [&] {
    const auto end = std::min(line.find(' '), line.size());
    const std::string_view first = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
    return first;
  };
  const auto number = [&] {
    const std::string_view text = word();
    int value = -1;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  };
  const std::string_view kind = word();
  AgentEvent event;
  event.worker = number();
  if (event.worker < 0 || kind.size() != 1 || std::string_view("oexls").find(kind) == std::string_view::npos)
    return std::nullopt;
  event.stream = kind == "e" ? Stream::err : Stream::out;
  event.left = kind == "l";
  if (kind == "s") {
    event.scale = std::string(line);
  } else if (kind == "x" || kind == "l") {
    const int code = number();
    event.ending = Ending{code, std::string(line)};
  } else {
    event.text = line;
  }
  return event;
}

}  // namespace kith::cli
