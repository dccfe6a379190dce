#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kith/launch/environment.h"
#include "kith/launch/meeting_point.h"

namespace kith::launch {

// A variable that was looked at, and what it held; nothing when it is not set.
struct Variable {
  std::string name;
  std::optional<std::string> value;
};

// What the launcher assigned to this process: which worker it is, of how many, and where the store is.
struct Assignment {
  // "flags", "kith", "torchrun", "Open MPI", "Slurm"; "none" for a process that was assigned nothing.
  std::string launcher = "none";
  std::string run;  // the launcher's name for the run, where it has one: equal on all workers
  int worker = 0;
  int workers = 1;
  // It joins a running job, which began with `workers`; its id is beyond those.
  bool newcomer = false;
  std::optional<int> local_rank;      // among the workers of this machine, where it is told
  std::optional<int> local_workers;   // how many those are
  std::optional<MeetingPoint> store;  // always there when there is more than one worker, or may be
  std::string interface;              // to listen on and to connect from; empty: any
  std::string secret;                 // of the run; empty: none
  std::string secret_file;            // where it was read
  std::string left_file;              // to be made by a worker that leaves on purpose; empty: nobody asks
  std::vector<Variable> variables;    // what was looked at, in order

  // True when somebody else started this process as a worker.
  bool assigned() const { return launcher != "none"; }
};

// What the user says on the command line; overrides the environment.
struct AssignmentFlags {
  std::optional<int> worker = {};
  std::optional<int> workers = {};
  std::string store = {};  // as parse_meeting_point takes it
  std::string interface = {};
};

// The first of these that applies (docs/launchers.md has the table):
//   flags      --worker, --workers, --store
//   kith       KITH_WORKER, KITH_WORKERS, KITH_STORE
//   torchrun   RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT
//   Open MPI   OMPI_COMM_WORLD_RANK, ..._SIZE, ..._LOCAL_RANK, ..._LOCAL_SIZE
//   Slurm      SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID, SLURM_STEP_NODELIST, in a step of srun
//   none       a single process
// KITH_STORE, KITH_PORT, KITH_INTERFACE and KITH_SECRET_FILE go with any of them. InputError that lists the
// launcher's variables with their values when some are missing or contradict each other.
Assignment discover(const Environment& environment, const AssignmentFlags& flags = {});

}  // namespace kith::launch
