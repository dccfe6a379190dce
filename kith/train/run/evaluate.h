#pragma once

#include "kith/train/config/job.h"
#include "kith/train/data/dataset.h"
#include "kith/train/data_parallel.h"
#include "kith/train/models/model.h"
#include "kith/train/run/metrics.h"

namespace kith::train {

// Collective, after the same step on every worker: loss and accuracy of the averaged model on the validation
// samples, each worker taking its share of them, and how far the workers' models are from it. The model is in
// train mode afterwards.
EvalMetrics evaluate(DecentralizedDataParallel& wrapped, Model& model, const Dataset& dataset,
                     const Job& job);

}  // namespace kith::train
