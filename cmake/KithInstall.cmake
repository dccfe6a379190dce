# cmake --install: the layers as the package kith (targets kith::LAYER), their headers, and the command.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(KITH_INSTALLED_LAYERS GLOBAL PROPERTY KITH_LAYERS)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/kith)

set(left_out)
if(NOT KITH_CUDA)
  set(left_out PATTERN cuda EXCLUDE PATTERN cuda_ipc EXCLUDE)
endif()
foreach(layer ${KITH_INSTALLED_LAYERS})
  install(TARGETS kith_${layer} EXPORT kith-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/kith/${layer} DESTINATION include/kith FILES_MATCHING PATTERN "*.h" ${left_out})
endforeach()
if(TARGET kith_train)
  install(FILES ${PROJECT_SOURCE_DIR}/kith/kith.h DESTINATION include/kith)
endif()
if(TARGET kith_cli)
  install(TARGETS kith_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  if(TARGET kith_training)
    install(TARGETS kith_training RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
  if(TARGET kith_sentencepiece)
    install(TARGETS kith_sentencepiece RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/share/text ${PROJECT_SOURCE_DIR}/share/hostlab ${PROJECT_SOURCE_DIR}/share/demo
          DESTINATION share/kith
          USE_SOURCE_PERMISSIONS)
endif()

install(EXPORT kith-targets NAMESPACE kith:: DESTINATION ${package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/kith-config.cmake.in
                              ${PROJECT_BINARY_DIR}/kith-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/kith-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/kith-config.cmake ${PROJECT_BINARY_DIR}/kith-config-version.cmake
        DESTINATION ${package_dir})
