# Language, warnings, output folders and sanitizers for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release or RelWithDebInfo" FORCE)
endif()

# Clones in different folders share the cache: paths count from the root of the tree. Sources that use a precompiled header are
# cached by what the compiler says it has read, and with the sloppiness that ccache asks for with such headers.
find_program(KITH_CCACHE ccache)
if(KITH_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=true
                                  CCACHE_DEPEND=true CCACHE_SLOPPINESS=pch_defines,time_macros ${KITH_CCACHE})
endif()

# So that a header that another clone has precompiled is taken for the same.
add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")

find_package(Threads REQUIRED)

add_library(kith_flags INTERFACE)
if(CMAKE_UNITY_BUILD)
  # Several sources in one: g++ takes those after the first for headers and warns of what is right. Other builds warn.
  target_compile_options(kith_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-w>)
else()
  target_compile_options(kith_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor>)
endif()
if(KITH_SANITIZE)
  add_compile_options(-fsanitize=${KITH_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${KITH_SANITIZE})
endif()
