// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A library that looks like libcupti to the search for it; nothing but cuptiGetVersion works.
// FAKE_VERSION: what cuptiGetVersion answers. FAKE_FAILS: cuptiGetVersion fails, as a newer CUPTI
// does without a driver. FAKE_STUB: only cuptiGetVersion is there.
#include <stdint.h>

int cuptiGetVersion(uint32_t* version) {
#ifdef FAKE_FAILS
  (void)version;
  return 999;
#else
  *version = FAKE_VERSION;
  return 0;
#endif
}

#ifndef FAKE_STUB
#define FUNCTION(name) \
  int name(void) { return 1; }
FUNCTION(cuptiGetTimestamp)
FUNCTION(cuptiGetResultString)
FUNCTION(cuptiActivityRegisterCallbacks)
FUNCTION(cuptiActivityEnable)
FUNCTION(cuptiActivityDisable)
FUNCTION(cuptiActivityFlushAll)
FUNCTION(cuptiActivityGetNextRecord)
FUNCTION(cuptiActivityGetNumDroppedRecords)
FUNCTION(cuptiActivitySetAttribute)
FUNCTION(cuptiActivityGetAttribute)
FUNCTION(cuptiSubscribe)
FUNCTION(cuptiUnsubscribe)
#endif
