# cmake -D MODE=installed|subfolder -D SOURCE=.. -D BUILD=.. -D WORK=.. [-D ARGUMENTS=-Dx=y;..] [-D PREFIXES=a:b] -P consumer_test.cmake
# Builds and runs tests/consumer/app against this build, in the fresh folder WORK.
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

set(ENV{CMAKE_PREFIX_PATH} "${PREFIXES}:$ENV{CMAKE_PREFIX_PATH}")
file(REMOVE_RECURSE ${WORK})
if(MODE STREQUAL installed)
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
  list(APPEND ARGUMENTS -Dkith_ROOT=${WORK}/prefix)
else()
  list(APPEND ARGUMENTS -DKITH_SOURCE=${SOURCE} -DKITH_TRAIN=OFF)
endif()
run(${CMAKE_COMMAND} -S ${SOURCE}/tests/consumer/app -B ${WORK}/build ${ARGUMENTS})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/consumer)
