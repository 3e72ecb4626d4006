# The names that libbaton-ace-preload stands in for: the symbol of ACE_Proactor's constructor
# contains the type of its timer queue, so the compiler is asked. Sets BATON_ACE_SYMBOLS to false,
# or writes ace_symbols.hpp into the build folder.

find_program(BATON_NM nm)
mark_as_advanced(BATON_NM)
set(probe ${CMAKE_CURRENT_BINARY_DIR}/ace_symbols.cpp)
set(object ${CMAKE_CURRENT_BINARY_DIR}/ace_symbols.o)
configure_file(${CMAKE_CURRENT_SOURCE_DIR}/src/ace_symbols.txt ${probe} COPYONLY)
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -std=c++17 -O0 -fPIC -I${ACE_INCLUDE_DIR} -c ${probe}
                        -o ${object}
                RESULT_VARIABLE failed ERROR_VARIABLE errors)
set(names)
if(NOT failed)
  execute_process(COMMAND ${BATON_NM} -u ${object} OUTPUT_VARIABLE names)
endif()

set(BATON_ACE_SYMBOLS TRUE)
set(text "// Written by ace/symbols.cmake.\n#pragma once\n\n")
foreach(pair IN ITEMS "C1=_ZN[A-Za-z0-9_]*ACE_ProactorC1E[A-Za-z0-9_]+"
                      "D1=_ZN[A-Za-z0-9_]*ACE_ProactorD1Ev"
                      "LOOP=_ZN[A-Za-z0-9_]*ACE_Proactor23proactor_run_event_loopEPF[A-Za-z0-9_]+"
                      "TIMED_LOOP=_ZN[A-Za-z0-9_]*ACE_Proactor23[a-z_]+_loopER[A-Za-z0-9_]+"
                      "CLOSE_SINGLETON=_ZN[A-Za-z0-9_]*ACE_Proactor15close_singletonEv"
                      "MAJOR=_ZN3ACE[A-Za-z0-9_]*major_version[A-Za-z0-9_]*"
                      "MINOR=_ZN3ACE[A-Za-z0-9_]*minor_version[A-Za-z0-9_]*"
                      "MICRO=_ZN3ACE[A-Za-z0-9_]*micro_version[A-Za-z0-9_]*")
  string(REGEX MATCH "^([A-Z0-9_]+)=(.*)$" matched "${pair}")
  set(word ${CMAKE_MATCH_1})
  string(REGEX MATCH "${CMAKE_MATCH_2}" symbol "${names}")
  if(NOT symbol)
    set(BATON_ACE_SYMBOLS FALSE)
  endif()
  string(APPEND text "#define BATON_ACE_${word} \"${symbol}\"\n")
  if(word MATCHES "^[CD]1$")
    # The twin, for base classes.
    string(REPLACE "1" "2" twin ${word})
    string(REPLACE "ACE_Proactor${word}E" "ACE_Proactor${twin}E" symbol "${symbol}")
    string(APPEND text "#define BATON_ACE_${twin} \"${symbol}\"\n")
  endif()
endforeach()
string(REPLACE "." ";" parts "${ACE_VERSION}")
list(GET parts 0 major)
list(GET parts 1 minor)
list(GET parts 2 micro)
math(EXPR code "(${major} << 16) + (${minor} << 8) + ${micro}")
string(APPEND text "#define BATON_ACE_BUILT_FOR ${code}U\n"
                   "#define BATON_ACE_MAJOR_VERSION \"${PROJECT_VERSION_MAJOR}\"\n")
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/ace_symbols.hpp CONTENT "${text}" @ONLY)
