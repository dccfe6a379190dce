#pragma once

namespace kith::cli {

// Note [Two programs]
// Loading LibTorch takes half a second of processor time. So the commands that need it are a program of their
// own, kith-training, which lies beside kith; kith lists them in its help and becomes that program when one
// of them is called. Process, environment, files and words stay the same.

inline constexpr const char* kDemoSummary =
    "Train decentralised and by all-reduce for the same time on four hosts behind slow links, and compare";
inline constexpr const char* kTrainSummary =
    "Train a model, on workers of this machine or as one worker of a launcher's";
inline constexpr const char* kProfileSummary =
    "Measure a job and the links between its workers, for kith plan";
inline constexpr const char* kStudySummary = "Compare methods over many training runs";
inline constexpr const char* kDataSummary = "Fetch data sets, and make token files of texts";
inline constexpr const char* kSampleSummary = "Continue a text with a trained gpt";
inline constexpr const char* kTranslateSummary = "Translate with a trained transformer, and measure BLEU";
inline constexpr const char* kExportSummary = "Write a trained gpt in Hugging Face's layout of GPT-2";

// Becomes kith-training when the first word is one of its commands; returns otherwise, and where LibTorch was
// left out of the build. Error when it is not there.
void hand_on_training(int argc, char** argv);

}  // namespace kith::cli
