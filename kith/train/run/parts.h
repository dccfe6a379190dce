#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kith/comm/store.h"

namespace kith::train {

// Note [Parts of a run]
// Machines need not share a file system. Workers who see one folder are a *part* of the run. Each part has
// the configuration, a lock, its workers' metrics and files of checkpoints, and every manifest. A part has
// the number of the worker that made it and holds its lock; worker 0's is part 0, and on one machine it is
// the only one. Who shares a folder is found out by a mark: a file with a name that worker 0 draws for this
// start. Whoever makes it first in a folder makes the part; the others find it there. Once all have, a file
// says the same to workers that come later; on a machine that has nothing of the run they make a part more.

struct Part {
  int number = 0;
  std::string host;              // of the worker that made it
  std::filesystem::path folder;  // as that worker sees it
  std::vector<int> workers;      // ascending
};
using Parts = std::vector<Part>;  // ascending

// REQUIRES: some part has the worker.
const Part& part_of(const Parts& parts, int worker);

// A name that nobody else draws.
std::string draw_mark();
inline constexpr const char* kMarkPrefix = ".part-";

// Puts the mark into the folder, which exists. Returns the part that the folder is: this worker's own number
// when nobody was there before. Error when the folder cannot be written.
int mark_part(const std::filesystem::path& folder, const std::string& mark, int worker);
// The part whose mark lies in the folder; nothing where there is none.
std::optional<int> marked_part(const std::filesystem::path& folder, const std::string& mark);
// Takes the mark back, where the folder turns out not to be good for a run.
void remove_mark(const std::filesystem::path& folder, const std::string& mark);
// Removes it once everybody has seen it, and those of starts that were killed. REQUIRES: the folder's lock.
void remove_marks(const std::filesystem::path& folder);

// Says to workers that come later which part a folder is, since the start with that mark.
void write_part(const std::filesystem::path& folder, const std::string& mark, int number);
// Nothing where the folder is no part of that start.
std::optional<int> part_in(const std::filesystem::path& folder, const std::string& mark);

// What one worker says of its part.
struct PartReport {
  int part = 0;
  std::string host;
  std::filesystem::path folder;
};
std::string encode(const PartReport& report);
// By rank, of all workers.
Parts parts_of(const std::vector<std::string>& reports);
std::string encode(const Parts& parts);
Parts decode_parts(const std::string& text);

// In the Store: the parts that the run began with, by worker 0; a newcomer's, before it is a member; and all
// of them together, none where nobody has told.
void tell_parts(comm::Store& store, const Parts& parts);
void tell_newcomer(comm::Store& store, int worker, const PartReport& report);
Parts known_parts(comm::Store& store);

// "2 parts: /runs/a on a7 (workers 0 and 1), /runs/a on a8 (worker 2)".
std::string parts_text(const Parts& parts);

}  // namespace kith::train
