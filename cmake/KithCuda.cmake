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

# NCCL, for all-reduce between GPUs: in CUDA's folders, the system's, or KITH_NCCL. 2.14 has calls that do not block.
set(KITH_NCCL "" CACHE PATH "Folder with NCCL's include and lib, such as a Python package's .../nvidia/nccl")
set(KITH_WITH_NCCL FALSE)
find_path(KITH_NCCL_INCLUDE nccl.h HINTS ${KITH_NCCL}/include ${CUDAToolkit_INCLUDE_DIRS})
find_library(KITH_NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${KITH_NCCL}/lib ${CUDAToolkit_LIBRARY_DIR})
if(KITH_NCCL_INCLUDE AND KITH_NCCL_LIBRARY)
  file(STRINGS ${KITH_NCCL_INCLUDE}/nccl.h nccl_lines REGEX "^#define NCCL_(MAJOR|MINOR) ")
  string(REGEX REPLACE "[^0-9]*([0-9]+)[^0-9]+([0-9]+).*" "\\1.\\2" nccl_version "${nccl_lines}")
  if(nccl_version VERSION_GREATER_EQUAL 2.14)
    set(KITH_WITH_NCCL TRUE)
  endif()
endif()
if(KITH_WITH_NCCL)
  message(STATUS "NCCL ${nccl_version}: ${KITH_NCCL_LIBRARY}")
elseif(KITH_NCCL)
  message(FATAL_ERROR "no NCCL 2.14 or newer in KITH_NCCL=${KITH_NCCL}: give the folder that has include/nccl.h and "
                      "lib/libnccl.so.2, or leave KITH_NCCL out")
else()
  message(STATUS "no NCCL 2.14 or newer: all-reduce between GPUs goes through host memory (-DKITH_NCCL=PATH says where it is)")
endif()

# kith_cuda_sources(LAYER): how the device code of a layer is compiled. Multiply-adds are fused where the source says so
# and nowhere else, as in the CPU loops.
function(kith_cuda_sources layer)
  target_compile_options(kith_${layer} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -fmad=false -Xcompiler=-Wall,-Wextra>)
  target_link_libraries(kith_${layer} PRIVATE CUDA::cudart)
endfunction()
