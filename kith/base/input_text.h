#pragma once

#include <string>
#include <string_view>

namespace kith {

// A text file that the user named. InputError naming it when it cannot be read, or goes on beyond 64 MiB (a
// device, or a file of something else).
std::string read_input(const std::string& path);

// For JSON from outside, before it is parsed: documents are freed and copied by recursion, so InputError when
// it is nested deeper than kith's own formats ever are.
void require_shallow_json(std::string_view text, std::string_view place);

// What a parser says of a text that is not JSON, without its own name and numbers: "line 1, column 2: ...".
std::string json_problem(std::string_view message);

}  // namespace kith
