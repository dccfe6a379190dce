#pragma once

#include <string>

#include "kith/train/config/job.h"

namespace kith::train {

// What one worker of a job holds in memory at the very least, in bytes.
struct Footprint {
  double parameters = 0;  // a count
  double model = 0;       // what the steps read and what neighbours read
  double gradient = 0;
  double optimizer = 0;
  double activations = 0;  // kept for the backward pass
  double total() const { return model + gradient + optimizer + activations; }
};

Footprint footprint_of(const Job& job);

// Memory that the processes of this machine may take together: its own, or what the control group leaves.
double memory_here();

// InputError with the numbers when `workers` workers of the job do not fit into `bytes` of memory.
void check_fits(const Job& job, int workers, double bytes);

}  // namespace kith::train
