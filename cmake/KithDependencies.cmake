# Every outside library, in one place. Header-only ones may come from -DCMAKE_PREFIX_PATH or -DKITH_PREFIX.
if(KITH_PREFIX)
  list(PREPEND CMAKE_PREFIX_PATH ${KITH_PREFIX} ${KITH_PREFIX}/usr)
endif()

find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(nlohmann_json 3.10 REQUIRED)
find_package(hwy QUIET)
if(KITH_TRAIN)
  find_package(Torch REQUIRED)
  find_path(KITH_TOML_INCLUDE toml++/toml.h REQUIRED)  # its package links a library; the headers alone do
endif()
if(KITH_CLI OR KITH_BENCH)
  find_package(CLI11 2.1 REQUIRED)
endif()
if(KITH_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()
