#pragma once

#include "kith/train/data_parallel.h"
#include "kith/train/run/membership.h"
#include "kith/train/run/recorder.h"
#include "kith/train/run/summary.h"

namespace kith::train {

// Collective. The mean over all workers.
double mean_of(DecentralizedDataParallel& wrapped, double value);

// Collective. What a summary adds up over the workers: seconds, waits, bytes, missing weight, lines of
// metrics that were lost. The rest is as it comes.
Summary sum_over_workers(DecentralizedDataParallel& wrapped, Recorder& metrics, const Membership& membership,
                         double seconds_before);

}  // namespace kith::train
