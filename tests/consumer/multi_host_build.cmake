# cmake -D SOURCE=.. -D BUILD=.. -D WORK=.. [-D ARGUMENTS=-Dx=y;..] [-D PREFIXES=a:b] -P multi_host_build.cmake
# Installs this build to WORK/prefix and builds a copy of examples/multi_host against it in WORK/build.
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

set(ENV{CMAKE_PREFIX_PATH} "${PREFIXES}:$ENV{CMAKE_PREFIX_PATH}")
file(REMOVE_RECURSE ${WORK})
file(COPY ${SOURCE}/examples/multi_host DESTINATION ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} -S ${WORK}/multi_host -B ${WORK}/build ${ARGUMENTS} -Dkith_ROOT=${WORK}/prefix)
run(${CMAKE_COMMAND} --build ${WORK}/build)
