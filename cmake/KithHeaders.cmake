# Headers that nearly every source includes, precompiled once for the layers and once for the tests: parsing them is most of what a
# small source takes. With -DKITH_PRECOMPILE=OFF each source is compiled by itself, which finds an #include that is missing.
option(KITH_PRECOMPILE "Precompile the headers that most sources include" ON)
set(KITH_COMMON_HEADERS <algorithm> <array> <charconv> <chrono> <cmath> <cstdint> <cstring> <filesystem> <fstream> <functional> <map>
    <memory> <mutex> <nlohmann/json.hpp> <optional> <set> <span> <sstream> <string> <string_view> <thread> <utility> <vector>)

# kith_precompile(NAME HEADER...): the target kith_NAME_header, whose headers others reuse.
function(kith_precompile name)
  set(empty ${PROJECT_BINARY_DIR}/precompiled/${name}.cc)
  file(CONFIGURE OUTPUT ${empty} CONTENT "")
  add_library(kith_${name}_header OBJECT EXCLUDE_FROM_ALL ${empty})
  set_target_properties(kith_${name}_header PROPERTIES UNITY_BUILD OFF)
  target_link_libraries(kith_${name}_header PRIVATE kith_flags nlohmann_json::nlohmann_json)
  target_precompile_headers(kith_${name}_header PRIVATE ${ARGN})
endfunction()

# kith_reuse(TARGET OWNER): lets the target use the headers that OWNER precompiles, if it does. The compiler takes them only where all
# options on position-independent code agree, so programs are compiled as libraries are.
function(kith_reuse target owner)
  if(NOT TARGET ${owner})
    return()
  endif()
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fPIC>)
  endif()
  if(KITH_QUICK_BUILD AND owner STREQUAL "kith_train")
    # As kith_train is then (CMakeLists.txt): with -O3 over a header that was precompiled with -O1 g++ 12 crashes.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O1>)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()

if(KITH_PRECOMPILE)
  kith_precompile(layer ${KITH_COMMON_HEADERS})
  if(KITH_TESTS)
    kith_precompile(test ${KITH_COMMON_HEADERS} <gmock/gmock.h> <gtest/gtest.h>)
    target_link_libraries(kith_test_header PRIVATE GTest::gmock GTest::gtest)
    if(KITH_SANITIZE)
      target_compile_options(kith_test_header PRIVATE -O0)  # as the tests are (kith_test): else it fits none of them
    endif()
  endif()
endif()
