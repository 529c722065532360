# Given to CMake as CMAKE_PROJECT_INCLUDE: read after every project() call of the llama-cpp-python build.
#
# Only the target "llama" is built (5-7 minutes become 2). The install rule of "llama-common", which is then not
# built, would fail, so install() is wrapped to leave it out. CMake keeps one level of the overridden command
# (_install), and this file is read several times: the guard keeps the wrapper from calling itself.
get_property(_muniment_wrapped GLOBAL PROPERTY MUNIMENT_INSTALL_WRAPPED)
if(NOT _muniment_wrapped)
  set_property(GLOBAL PROPERTY MUNIMENT_INSTALL_WRAPPED TRUE)
  macro(install)
    set(_muniment_args ${ARGV})
    if(NOT "llama-common" IN_LIST _muniment_args)
      _install(${ARGV})
    endif()
  endmacro()
endif()
