# Decides whether the Python front (python/) is built: where an interpreter, its headers and pybind11's are. With
# KITH_PYTHON_FRONT=ON what is missing is an error.
set(KITH_WITH_PYTHON_FRONT FALSE)
# An interpreter loads no module that a sanitizer is in.
if(KITH_SANITIZE)
  return()
endif()

set(Python_EXECUTABLE ${KITH_PYTHON})
set(Python_FIND_VIRTUALENV ONLY)
find_package(Python 3.8 QUIET COMPONENTS Interpreter Development.Module)

# pybind11 is headers: the system's, else those that the Python package pybind11 or PyTorch brings along.
find_path(KITH_PYBIND11 pybind11/pybind11.h DOC "Folder with pybind11/pybind11.h")
if(NOT KITH_PYBIND11 AND Python_FOUND)
  execute_process(COMMAND ${KITH_PYTHON} -c "import importlib.util as u, os
for name in 'pybind11', 'torch':
    spec = u.find_spec(name)
    if spec: print(os.path.join(os.path.dirname(spec.origin), 'include'))"
    OUTPUT_VARIABLE folders OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  string(REPLACE "\n" ";" folders "${folders}")
  find_path(KITH_PYBIND11 pybind11/pybind11.h PATHS ${folders} NO_DEFAULT_PATH)
endif()

if(Python_FOUND AND KITH_PYBIND11)
  set(KITH_WITH_PYTHON_FRONT TRUE)
  message(STATUS "Python front: for ${KITH_PYTHON}, Python ${Python_VERSION}, pybind11 in ${KITH_PYBIND11}")
  return()
endif()
set(missing "pybind11 (Debian: pybind11-dev)")
if(NOT Python_FOUND)
  set(missing "a Python with headers at ${KITH_PYTHON} (Debian: python3-dev)")
endif()
if(KITH_PYTHON_FRONT STREQUAL "AUTO")
  message(STATUS "no Python front: ${missing} is not here")
else()
  message(FATAL_ERROR "KITH_PYTHON_FRONT is ON and ${missing} is not here")
endif()
