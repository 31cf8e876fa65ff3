# trainwright_ceres: Ceres for dense problems alone.
#
# Debian's Ceres links SuiteSparse, part of which is GPL, and ATLAS with Fortran's runtime, for solvers of sparse
# problems and for LAPACK. The fit asks for neither (calibrate/fit.cc: DENSE_QR with Eigen), so a copy of the
# archive whose references to them are weak links without them, and nothing that ships has them inside.
find_package(Ceres CONFIG REQUIRED)
get_target_property(archive Ceres::ceres LOCATION)
if(NOT archive MATCHES "\\.a$" OR NOT CMAKE_OBJCOPY)
  message(STATUS "no static Ceres or no objcopy: linking Ceres with all that it links")
  add_library(trainwright_ceres ALIAS Ceres::ceres)
  return()
endif()
set(dense "${CMAKE_BINARY_DIR}/libceres_dense.a")
if("${archive}" IS_NEWER_THAN "${dense}")
  execute_process(COMMAND "${CMAKE_OBJCOPY}" --wildcard --weaken-symbol=cholmod_* --weaken-symbol=cs_di_*
                          --weaken-symbol=_Z13SuiteSparseQR* --weaken-symbol=dgeqrf_ --weaken-symbol=dormqr_
                          --weaken-symbol=dpotrf_ --weaken-symbol=dpotrs_ --weaken-symbol=dtrtrs_
                          "${archive}" "${dense}"
                  COMMAND_ERROR_IS_FATAL ANY)
endif()
add_library(trainwright_ceres INTERFACE)
target_include_directories(trainwright_ceres SYSTEM INTERFACE
                           $<BUILD_INTERFACE:$<TARGET_PROPERTY:Ceres::ceres,INTERFACE_INCLUDE_DIRECTORIES>>)
target_link_libraries(trainwright_ceres INTERFACE
                      "$<BUILD_INTERFACE:${dense}>"
                      "$<INSTALL_INTERFACE:$<INSTALL_PREFIX>/${CMAKE_INSTALL_LIBDIR}/trainwright/libceres_dense.a>"
                      glog::glog Eigen3::Eigen Threads::Threads)
