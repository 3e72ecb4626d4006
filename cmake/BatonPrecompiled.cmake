# Precompiled headers for scripts/test, in addition to joined sources (BatonUnity.cmake): most of
# the time for a small file goes into the standard library's headers. Off without BATON_UNITY,
# because a missing #include goes unseen.

# baton_precompile(): for all targets but UAIO's, some of which are compiled with macros that change
# the system's headers. Those that are compiled in the same way share one precompiled header; for a
# few sources it is not worth its time.
function(baton_precompile)
  set(keys)
  set(folders ${PROJECT_SOURCE_DIR})
  while(folders)
    list(POP_FRONT folders folder)
    get_property(nested DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
    list(FILTER nested EXCLUDE REGEX "/uaio$")
    list(APPEND folders ${nested})
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target IN LISTS targets)
      get_target_property(type ${target} TYPE)
      get_target_property(sources ${target} SOURCES)
      list(FILTER sources INCLUDE REGEX "[.]cpp$")
      if(type MATCHES "EXECUTABLE|LIBRARY" AND sources)
        if(NOT type STREQUAL "EXECUTABLE")
          set(type LIBRARY)  # -fPIC, where programs have -fPIE
        endif()
        get_target_property(options ${target} COMPILE_OPTIONS)
        list(FILTER options EXCLUDE REGEX "-Wno-")
        get_target_property(libraries ${target} LINK_LIBRARIES)
        set(tests "")
        if("GTest::gtest" IN_LIST libraries)
          set(tests GTEST_HAS_PTHREAD=1)
        endif()
        string(MD5 key "${type} ${tests} ${options}")
        list(APPEND keys ${key})
        list(APPEND targets_${key} ${target})
        list(APPEND sources_${key} ${sources})
        set(type_${key} ${type})
        set(options_${key} ${options})
        set(tests_${key} ${tests})
      endif()
    endforeach()
  endwhile()
  list(REMOVE_DUPLICATES keys)
  foreach(key IN LISTS keys)
    list(LENGTH sources_${key} count)
    if(count GREATER 20)
      baton_share_precompiled("${type_${key}}" "${options_${key}}" "${tests_${key}}"
                              ${targets_${key}})
    endif()
  endforeach()
endfunction()

# It belongs to a target of its own, because gcc takes it only where each macro of its command line
# is defined as well.
function(baton_share_precompiled type options definitions)
  list(GET ARGN 0 first)
  set(owner precompiled_for_${first})
  set(source ${PROJECT_SOURCE_DIR}/cmake/precompiled.cpp)
  if(type STREQUAL "EXECUTABLE")
    add_executable(${owner} EXCLUDE_FROM_ALL ${source})
  else()
    add_library(${owner} OBJECT EXCLUDE_FROM_ALL ${source})
  endif()
  baton_target_defaults(${owner})
  set_target_properties(${owner} PROPERTIES COMPILE_OPTIONS "${options}")
  target_compile_definitions(${owner} PRIVATE ${definitions})
  target_precompile_headers(${owner} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/precompiled.hpp)
  foreach(target IN LISTS ARGN)
    target_precompile_headers(${target} REUSE_FROM ${owner})
    # gcc 12 then takes std::string's own moves for faults.
    target_compile_options(
      ${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds>
                        $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-stringop-overflow>
                        $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-stringop-overread>)
  endforeach()
endfunction()
