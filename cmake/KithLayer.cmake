# kith_layer(NAME [OWN_HEADERS] SOURCES a.cc ... [DEPENDS base graph ...] [LINK PUBLIC_LIB ...] [LINK_PRIVATE LIB ...])
#   The static library kith_NAME, exported as kith::NAME, over the layers it may use. OWN_HEADERS: it precompiles some itself, or none.
function(kith_layer name)
  cmake_parse_arguments(ARG "OWN_HEADERS" "" "SOURCES;DEPENDS;LINK;LINK_PRIVATE" ${ARGN})
  add_library(kith_${name} STATIC ${ARG_SOURCES})
  add_library(kith::${name} ALIAS kith_${name})
  set_target_properties(kith_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(kith_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                 $<INSTALL_INTERFACE:include>)
  target_compile_features(kith_${name} PUBLIC cxx_std_20)
  list(TRANSFORM ARG_DEPENDS PREPEND kith::)
  target_link_libraries(kith_${name} PUBLIC ${ARG_DEPENDS} ${ARG_LINK}
                                     PRIVATE $<BUILD_INTERFACE:kith_flags> ${ARG_LINK_PRIVATE})
  if(NOT ARG_OWN_HEADERS)
    kith_reuse(kith_${name} kith_layer_header)
  endif()
  set_property(GLOBAL APPEND PROPERTY KITH_LAYERS ${name})
endfunction()

# kith_test(NAME [TORCH] SOURCES a_test.cc ... LINK graph comm ... [LABELS slow] [TIMEOUT seconds])
#   One GoogleTest binary; every case is a ctest case named NAME.Suite.Case (with sanitizers: in parts). TORCH: most of its sources include torch.
function(kith_test name)
  cmake_parse_arguments(ARG "TORCH" "TIMEOUT" "SOURCES;LINK;LINK_PRIVATE;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(test_${name} ${ARG_SOURCES})
  list(TRANSFORM ARG_LINK PREPEND kith::)
  target_link_libraries(test_${name} PRIVATE ${ARG_LINK} ${ARG_LINK_PRIVATE} kith_flags GTest::gmock GTest::gtest_main)
  set_target_properties(test_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests UNITY_BUILD OFF)
  if(ARG_TORCH)
    kith_reuse(test_${name} kith_train)
    # Of such a source most is torch's templates, once more in each: where sources are compiled together, these are too.
    set_target_properties(test_${name} PROPERTIES UNITY_BUILD "${CMAKE_UNITY_BUILD}" UNITY_BUILD_BATCH_SIZE 6)
  else()
    kith_reuse(test_${name} kith_test_header)
  endif()
  # What is tested is compiled as it is used; the tests themselves need not be fast, and compile in three quarters of the time. With
  # sanitizers in two thirds: theirs is most of the code then.
  target_compile_options(test_${name} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
  if(KITH_SANITIZE)
    target_compile_options(test_${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O0>)
  endif()
  set(environment)
  if(KITH_SANITIZE MATCHES "thread")
    # UCX hooks madvise, which the C library calls from threads that have ended for the sanitizer.
    set(environment UCX_MEM_MMAP_HOOK_MODE=none)
  endif()
  if(KITH_SANITIZE)
    kith_test_parts(${name} "${environment}" "${ARG_LABELS}")
  else()
    gtest_discover_tests(test_${name} TEST_PREFIX ${name}. DISCOVERY_TIMEOUT 60
                         PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
  endif()
endfunction()

# kith_test_parts(NAME ENVIRONMENT LABELS): the cases of test_NAME in eight processes, as ctest cases NAME.part_K. With a sanitizer a process
# takes longer to start than most cases take to run.
function(kith_test_parts name environment labels)
  set(parts 8)
  math(EXPR last "${parts} - 1")
  foreach(part RANGE ${last})
    add_test(NAME ${name}.part_${part} COMMAND test_${name})
    set_tests_properties(${name}.part_${part} PROPERTIES TIMEOUT 900 LABELS "${labels}"
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${parts};GTEST_SHARD_INDEX=${part};${environment}")
  endforeach()
endfunction()

# kith_bench(NAME SOURCES a.cc ... LINK graph ...): a program at <build>/bench/NAME.
function(kith_bench name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;LINK_PRIVATE" ${ARGN})
  add_executable(bench_${name} ${ARG_SOURCES})
  list(TRANSFORM ARG_LINK PREPEND kith::)
  target_link_libraries(bench_${name} PRIVATE ${ARG_LINK} ${ARG_LINK_PRIVATE} kith_flags)
  set_target_properties(bench_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench OUTPUT_NAME ${name} UNITY_BUILD OFF)
endfunction()
