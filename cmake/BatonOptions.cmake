# How everything of ours is compiled. Nothing here leaks to users of the installed package: flags
# are set on our own targets by baton_target_defaults(), never globally.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
  endif()
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  # -O2 as distributions build, not CMake's -O3: what we measure is what users get.
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
  set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")
  set(CMAKE_CXX_FLAGS_DEBUG "-Og -g")
  set(CMAKE_C_FLAGS_DEBUG "-Og -g")

  find_program(BATON_CCACHE ccache)
  if(BATON_CCACHE AND BATON_UNITY)
    # For precompiled headers; no file of ours asks for the time.
    set(BATON_CCACHE env CCACHE_SLOPPINESS=pch_defines,time_macros ${BATON_CCACHE})
  endif()
  if(BATON_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${BATON_CCACHE})
    set(CMAKE_C_COMPILER_LAUNCHER ${BATON_CCACHE})
  endif()
endif()

# Executables are position independent; this asks for -pie at link time too.
include(CheckPIESupported)
check_pie_supported(LANGUAGES C CXX)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

set(BATON_WARNINGS -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Wformat=2
                   -Wimplicit-fallthrough -Werror)
set(BATON_WARNINGS_CXX -Wnon-virtual-dtor)
set(BATON_COMPILE_OPTIONS)
set(BATON_LINK_OPTIONS)
set(BATON_RELEASE_OPTIONS)
set(BATON_RELEASE_DEFINITIONS)

if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # The lock discipline of src/os/mutex.hpp is checked by clang alone; gcc ignores the annotations.
  # clang 19 reports what libstdc++ 12 itself deprecates inside std::stable_sort.
  list(APPEND BATON_WARNINGS -Wthread-safety -Wno-deprecated-declarations)
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # gcc 12 reports overlapping copies inside std::string itself for `"text" + string`
  # (gcc bug 105651, fixed in 13).
  list(APPEND BATON_WARNINGS -Wno-restrict)
endif()

if(BATON_COVERAGE)
  # -O0, so that every line is one; counted by several threads.
  list(APPEND BATON_COMPILE_OPTIONS --coverage -O0 -fprofile-update=atomic)
  list(APPEND BATON_LINK_OPTIONS --coverage)
endif()

option(BATON_TESTS_ONCE
       "Leave to the AddressSanitizer build what it runs as well as this one" OFF)
option(BATON_SANITIZE_EVERYTHING
       "Sanitizer builds also have the tests without threads or memory hazards" OFF)

if(BATON_SANITIZE)
  # -O1 keeps the trees quick to build and the stack traces honest.
  list(APPEND BATON_COMPILE_OPTIONS -fsanitize=${BATON_SANITIZE} -fno-sanitize-recover=all
       -fno-omit-frame-pointer -O1 -g1)
  list(APPEND BATON_LINK_OPTIONS -fsanitize=${BATON_SANITIZE})
  if(BATON_SANITIZE MATCHES "undefined")
    # This check looks whether memory can be read with a pipe of its own, so that in a process
    # without free descriptors, as some tests make it, every object seems invalid.
    list(APPEND BATON_COMPILE_OPTIONS -fno-sanitize=vptr)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # gcc's words for what it compiles for; the tests and the C library's headers ask for them.
    if(BATON_SANITIZE MATCHES "address")
      list(APPEND BATON_COMPILE_OPTIONS -D__SANITIZE_ADDRESS__=1)
    elseif(BATON_SANITIZE MATCHES "thread")
      list(APPEND BATON_COMPILE_OPTIONS -D__SANITIZE_THREAD__=1)
    endif()
  endif()
  # One runtime for a program and the libraries that are preloaded into it. A program's own operator
  # new comes before it.
  string(REGEX MATCH "address|thread" BATON_SANITIZER_RUNTIME "${BATON_SANITIZE}")
  if(BATON_SANITIZER_RUNTIME)
    string(REPLACE "address" "asan" BATON_SANITIZER_RUNTIME ${BATON_SANITIZER_RUNTIME})
    string(REPLACE "thread" "tsan" BATON_SANITIZER_RUNTIME ${BATON_SANITIZER_RUNTIME})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
      string(PREPEND BATON_SANITIZER_RUNTIME clang_rt.)
      string(APPEND BATON_SANITIZER_RUNTIME -${CMAKE_SYSTEM_PROCESSOR})
    endif()
    execute_process(
      COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=lib${BATON_SANITIZER_RUNTIME}.so
      OUTPUT_VARIABLE BATON_SANITIZER_RUNTIME OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
      get_filename_component(folder ${BATON_SANITIZER_RUNTIME} DIRECTORY)
      list(APPEND BATON_LINK_OPTIONS -shared-libsan LINKER:-rpath,${folder})
    endif()
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # The sanitizers' own code splits the paths that these flow analyses follow, and gcc then
    # reports variables and copies that are right (gcc manual, -fsanitize=; bugs 105562, 105616).
    # The release build keeps all of them on.
    list(APPEND BATON_WARNINGS -Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow
         -Wno-stringop-overread)
  endif()
elseif(BATON_HARDENING)
  # Hardening as the OpenSSF's compiler guide has it, for release builds; tools/check_hardening.py
  # looks for what it leaves in the files. Left out, with reason:
  #   -fstrict-flex-arrays=3: gcc 13 and later.
  #   -z nodlopen: the shared library is meant to be loaded at run time too (other languages).
  # _FORTIFY_SOURCE needs optimisation and disturbs the sanitizers' interceptors: only here.
  # What -ftrivial-auto-var-init would clear on the hot path is marked BATON_UNINITIALIZED.
  list(APPEND BATON_RELEASE_OPTIONS -fstack-protector-strong -fstack-clash-protection
       -ftrivial-auto-var-init=zero -Werror=format-security)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND BATON_RELEASE_OPTIONS -fcf-protection=full)
  endif()
  list(APPEND BATON_RELEASE_OPTIONS -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
  list(APPEND BATON_RELEASE_DEFINITIONS _GLIBCXX_ASSERTIONS)
  if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
    list(APPEND BATON_LINK_OPTIONS -Wl,-z,relro,-z,now,-z,noexecstack)
  endif()
endif()

# baton_target_defaults(target): warnings, hardening, sanitizers and visibility for one of our
# own targets.
function(baton_target_defaults target)
  target_compile_options(
    ${target} PRIVATE ${BATON_WARNINGS} $<$<COMPILE_LANGUAGE:CXX>:${BATON_WARNINGS_CXX}>
                      ${BATON_COMPILE_OPTIONS} $<$<CONFIG:Release>:${BATON_RELEASE_OPTIONS}>)
  target_compile_definitions(${target}
                             PRIVATE $<$<CONFIG:Release>:${BATON_RELEASE_DEFINITIONS}>)
  get_target_property(type ${target} TYPE)
  if(NOT type MATCHES "OBJECT_LIBRARY|STATIC_LIBRARY")
    target_link_options(${target} PRIVATE ${BATON_LINK_OPTIONS})
  endif()
  set_target_properties(
    ${target} PROPERTIES CXX_VISIBILITY_PRESET hidden C_VISIBILITY_PRESET hidden
                         VISIBILITY_INLINES_HIDDEN ON)
endfunction()
