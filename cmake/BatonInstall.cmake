# Installation: headers, both libraries, the CMake package, the pkg-config file, manual pages and
# the licence, under any prefix, also one chosen at install time; and the way back.

include(CMakePackageConfigHelpers)

install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h"
                                                                     PATTERN "*.hpp")
install(TARGETS baton EXPORT BatonTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
# The static library needs pugixml when a program is linked, unless BATON_XML is off; the shared one
# does not. Two export files, so that find_package() asks for pugixml only where it is there.
install(TARGETS baton_static EXPORT BatonStaticTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Baton)
install(EXPORT BatonTargets NAMESPACE Baton:: DESTINATION ${package_dir})
install(EXPORT BatonStaticTargets NAMESPACE Baton:: DESTINATION ${package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/BatonConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/BatonConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
# Before 1.0 every minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/BatonConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/BatonConfig.cmake ${PROJECT_BINARY_DIR}/BatonConfigVersion.cmake
        DESTINATION ${package_dir})

# baton.pc finds its prefix from its own place, so that `cmake --install --prefix` and moving the
# tree both work. With an absolute libdir outside the prefix there is nothing to be relative to.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(pc_prefix "${CMAKE_INSTALL_PREFIX}")
  set(pc_libdir "${CMAKE_INSTALL_FULL_LIBDIR}")
  set(pc_includedir "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
else()
  file(RELATIVE_PATH up "/p/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/p")
  string(REGEX REPLACE "/$" "" up "${up}")
  set(pc_prefix "\${pcfiledir}/${up}")
  set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
  set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
# The libraries that only the static library needs. No Requires.private: pkg-config looks for such
# a package also when the shared library is asked for.
set(pc_private "-l${BATON_CXX_RUNTIME} -lm -pthread")
if(BATON_XML)
  string(PREPEND pc_private "-lpugixml ")
  find_library(BATON_PUGIXML pugixml HINTS ${pugixml_DIR}/../.. ${pugixml_DIR}/../../..)
  mark_as_advanced(BATON_PUGIXML)
  if(BATON_PUGIXML)
    get_filename_component(pugixml_dir ${BATON_PUGIXML} DIRECTORY)
    if(NOT pugixml_dir IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
      set(pc_private "-L${pugixml_dir} ${pc_private}")
    endif()
  endif()
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/baton.pc.in ${PROJECT_BINARY_DIR}/baton.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/baton.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

foreach(section IN ITEMS 1 3 7)
  file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/man/*.${section})
  if(pages)
    install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
  endif()
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

if(PROJECT_IS_TOP_LEVEL)
  add_custom_target(
    uninstall
    COMMAND ${CMAKE_COMMAND} -D MANIFEST=${PROJECT_BINARY_DIR}/install_manifest.txt -P
            ${CMAKE_CURRENT_LIST_DIR}/BatonUninstall.cmake
    COMMENT "Removing what was installed"
    VERBATIM)
endif()
