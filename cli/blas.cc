#include "cli/blas.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include <dlfcn.h>

#include "kith/kernels/cpu/cpu_kernels.h"

namespace kith::cli {
namespace {

constexpr const char* kSetting = "OPENBLAS_CORETYPE";
constexpr std::array<std::string_view, 3> kForAvx512{"SkylakeX", "Cooperlake", "SapphireRapids"};
constexpr std::array<std::string_view, 2> kForAvx2{"Haswell", "Zen"};

bool is_one_of(auto names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// What the library that LibTorch is linked to on Debian has chosen.
std::string chosen_kernels() {
  void* library = ::dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_LOCAL);  // stays: this process is replaced
  if (library == nullptr) return {};
  using Name = char*();
  auto* name = reinterpret_cast<Name*>(::dlsym(library, "openblas_get_corename"));
  return name == nullptr ? std::string() : std::string(name());
}

}  // namespace

std::string better_blas_kernels(std::string_view chosen, std::string_view instruction_set) {
  if (chosen.empty() || is_one_of(kForAvx512, chosen)) return {};
  if (instruction_set.starts_with("AVX3")) return std::string(kForAvx512.front());
  if (instruction_set == "AVX2" && !is_one_of(kForAvx2, chosen)) return std::string(kForAvx2.front());
  return {};
}

void choose_blas_kernels() {
  if (std::getenv(kSetting) != nullptr) return;
  const std::string better = better_blas_kernels(chosen_kernels(), kernels::cpu_target());
  if (!better.empty()) ::setenv(kSetting, better.c_str(), /*overwrite=*/1);
}

}  // namespace kith::cli
