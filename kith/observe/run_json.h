#pragma once

#include <nlohmann/json_fwd.hpp>

#include "kith/observe/run_reader.h"

namespace kith::observe {

// What the pages draw (web/kith.js). Numbers that JSON lacks are null.

// A run at a moment: workers, curves, waits, links, the current round, views, events.
nlohmann::ordered_json run_json(const RunReader& run, double now);

// Its curves over steps alone, for pages that lay several runs over each other.
nlohmann::ordered_json curves_json(const RunReader& run);

// The text that a page gets: never with a "<", so that it can stand inside a script element.
std::string page_text(const nlohmann::ordered_json& json);

}  // namespace kith::observe
