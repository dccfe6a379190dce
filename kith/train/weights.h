#pragma once

#include <filesystem>

#include <torch/nn/module.h>

namespace kith::train {

// Copies the tensors of a safetensors file into the model's parameters and buffers. The file is one that
// export_model wrote for the same model, or one in Hugging Face's layout of GPT-2 (gpt2_layout.h), where the
// model may have more rows in its table than the file: those stay as drawn. InputError names the file and the
// tensor that is missing, is not the model's, has another shape, or is of a type that is not a number's.
void load_weights(torch::nn::Module& model, const std::filesystem::path& file);

// Writes a model of make_gpt in Hugging Face's layout of GPT-2, with zeros for biases that it does not have.
// InputError when the model is another one.
void write_gpt2(const torch::nn::Module& model, const std::filesystem::path& file);

}  // namespace kith::train
