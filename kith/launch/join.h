#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kith/base/clock.h"
#include "kith/base/log.h"
#include "kith/launch/assignment.h"
#include "kith/launch/world.h"

namespace kith::launch {

// Something that must be the same on all workers: {"train.batch", "64"}.
struct Fact {
  std::string name;
  std::string value;
};

// What the death of a worker that has joined means to those that are still joining.
enum class Deaths {
  end,    // their joining ends: nobody runs without everybody
  go_on,  // it is a loss like any other: their transports know of it
};

struct JoinOptions {
  // What the workers must agree on. The versions of kith and of its protocols, the number of workers and the
  // launcher's run are always among it.
  std::vector<Fact> facts = {};
  // Of the transport; empty: choose_backend (kith/launch/backend.h) does it.
  std::string backend = {};
  // Where the model lies: the GPU's number on this machine, or none. Windows can then lie there too.
  std::optional<int> gpu = {};
  Deaths deaths = Deaths::end;
  // For everybody to come.
  Clock::Duration patience = std::chrono::minutes(5);
  // Called once, when the store is there and before anything is agreed on, with a copy of these options that
  // it may complete: for what only another worker can tell. What it throws ends the joining.
  std::function<void(comm::Store& store, JoinOptions& options)> complete = {};
  // Outlives the world. Null: the world has one of its own, on standard error.
  Log* log = nullptr;
};

// Enters the world: opens the store (worker 0 serves it, where nobody else does, and says where), proves
// knowledge of the run secret, agrees with everybody, and makes the transport. Blocks until all workers have
// come. A newcomer (Assignment::newcomer) joins a job that runs: it agrees with what that job was begun with,
// takes the first id from its own on that nobody had, and is alone in its world until an engine of it takes
// over the state of a member (kith/launch/admissions.h). The program is the same.
//
// InputError on every worker when some fact differs (the message names the fact, the workers and their
// values); on this one alone when its secret or its assignment is not right. Error when a worker has not come
// within the patience, on everybody that has, and at once when one ends or fails that has come; when the port
// is in use or the store is lost.
World join(const Assignment& assignment, const JoinOptions& options = {});

// The world in which whoever started this process has put it, as the process's environment tells: torchrun,
// mpirun, srun, kith launch, or nobody, which makes a world of one (discover() in kith/launch/assignment.h).
World join(const JoinOptions& options = {});

}  // namespace kith::launch
