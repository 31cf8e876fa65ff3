# find_package(trainwright): trainwright::cli is everything, trainwright::model, ... its modules.
include(CMakeFindDependencyMacro)
foreach(package fmt tl-expected nlohmann_json TBB CLI11 yaml-cpp glog Eigen3)
  find_dependency(${package} CONFIG)
endforeach()
find_dependency(Threads)
include("${CMAKE_CURRENT_LIST_DIR}/trainwright.cmake")
