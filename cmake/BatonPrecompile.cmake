# Precompiled headers, for those who build everything anew (scripts/test): a third of the time goes
# into reading the same headers. Off by default: a header changed compiles more than it must, and a
# missing #include goes unseen (the stage `clang` of scripts/test builds the library without).

option(BATON_PRECOMPILE "Precompile the headers that most files read" OFF)

# baton_precompile(target header...): for the files of one target.
function(baton_precompile target)
  if(BATON_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()

# baton_precompile_test(target): one header for all test programs, and one for all object libraries,
# as those are compiled with other options.
function(baton_precompile_test target)
  if(NOT BATON_PRECOMPILE)
    return()
  endif()
  get_target_property(type ${target} TYPE)
  set(owner baton_precompiled_${type})
  if(NOT TARGET ${owner})
    set(source ${PROJECT_BINARY_DIR}/precompiled.cpp)
    file(WRITE ${source} "int main() { return 0; }\n")
    if(type STREQUAL "EXECUTABLE")
      add_executable(${owner} ${source})
      target_link_libraries(${owner} PRIVATE baton_static)
    else()
      add_library(${owner} OBJECT ${source})
    endif()
    baton_target_defaults(${owner})
    baton_test_defaults(${owner})
    target_include_directories(${owner} PRIVATE ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(${owner} PRIVATE GTest::gtest Threads::Threads)
    target_precompile_headers(${owner} PRIVATE ${PROJECT_SOURCE_DIR}/tests/precompiled.hpp)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()
