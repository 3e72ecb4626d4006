# Unity builds for scripts/test: the files of a target are compiled as a few large ones, because a
# compiler spends most of its time on reading the same headers. Off by default: a change of one file
# compiles all files that are joined with it, and a missing #include goes unseen.
#
#   BATON_UNITY=tests   tests, tools and httpd; the library is built as users get it
#   BATON_UNITY=all     the library, the benchmarks, UAIO and the ACE bridge as well
#
# The other examples are compiled as their readers would compile them.
#
# Siblings have functions of the same names in their anonymous namespaces, which clash once they
# are joined. cmake/unity.exclusions lists the files that are compiled alone for that reason. A
# file belongs there when a unity build reports a "redefinition" in it.

set(BATON_UNITY OFF CACHE STRING "Join source files before they are compiled: OFF, tests or all")

# baton_join_sources(batch folder...): all targets of these folders and below; not of examples/,
# unless a folder in it is named.
function(baton_join_sources batch)
  set(list ${PROJECT_SOURCE_DIR}/cmake/unity.exclusions)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  file(STRINGS ${list} excluded REGEX "^[^#]")
  list(TRANSFORM excluded PREPEND ${PROJECT_SOURCE_DIR}/)
  set(folders ${ARGN})
  while(folders)
    list(POP_FRONT folders folder)
    if(folder STREQUAL "${PROJECT_SOURCE_DIR}/examples")
      continue()
    endif()
    get_property(nested DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
    list(APPEND folders ${nested})
    set_source_files_properties(${excluded} DIRECTORY ${folder}
                                PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target IN LISTS targets)
      get_target_property(type ${target} TYPE)
      if(type MATCHES "EXECUTABLE|LIBRARY")
        set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
        # A name of one file is no shadow of another's. And gcc takes the files that are joined for
        # headers, whose types should have linkage.
        target_compile_options(
          ${target}
          PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-shadow>
                  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
      endif()
    endforeach()
  endwhile()
endfunction()
