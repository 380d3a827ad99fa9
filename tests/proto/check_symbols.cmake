# SPDX-License-Identifier: Apache-2.0
# cmake -DNM=nm -DLIBRARY=libx.a -P check_symbols.cmake: fails if the library needs the C++ runtime
# (mangled std:: symbols, operator new and delete, exceptions, RTTI, static guards).
execute_process(COMMAND ${NM} -u ${LIBRARY} OUTPUT_VARIABLE _symbols RESULT_VARIABLE _result)
if(NOT _result EQUAL 0)
  message(FATAL_ERROR "${NM} failed on ${LIBRARY}")
endif()
string(REGEX MATCHALL "U (_ZS[^ \n]*|_ZNS[^ \n]*|_ZNKS[^ \n]*|_Zn[wa][^ \n]*|_Zd[la][^ \n]*|_ZT[IVS][^ \n]*|__cxa[^ \n]*|__gxx[^ \n]*|_Unwind[^ \n]*)"
       _found "${_symbols}")
if(_found)
  message(FATAL_ERROR "C++ runtime symbols: ${_found}")
endif()
