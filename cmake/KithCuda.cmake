# The GPU files (-DKITH_CUDA=ON). Each layer lists its own; nothing else in the build knows of CUDA.
include(CheckLanguage)
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 75-virtual 90-real CACHE STRING "GPUs to compile for; the first runs on all later ones")
endif()
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(FATAL_ERROR "KITH_CUDA is ON and there is no CUDA compiler: put nvcc on the PATH or give "
                      "-DCMAKE_CUDA_COMPILER=/usr/local/cuda/bin/nvcc, or turn KITH_CUDA off")
endif()
if(KITH_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
enable_language(CUDA)
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
find_package(CUDAToolkit 12.1 REQUIRED)  # launches that take 32 KB along

# kith_cuda_sources(LAYER): how the device code of a layer is compiled. Multiply-adds are fused where the source says so
# and nowhere else, as in the CPU loops.
function(kith_cuda_sources layer)
  target_compile_options(kith_${layer} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -fmad=false -Xcompiler=-Wall,-Wextra>)
  target_link_libraries(kith_${layer} PRIVATE CUDA::cudart)
endfunction()
