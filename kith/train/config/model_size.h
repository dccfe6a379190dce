#pragma once

#include "kith/train/config/job.h"

namespace kith::train {

// Of the job's model, without making it.
double parameters_of(const Job& job);
// Floats that a training sample leaves for the backward pass, about.
double activations_of(const Job& job);

}  // namespace kith::train
