// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The table of CUPTI functions that we call, and the search for the right libcupti. This is the
// seam for tests: everything in cupti/ and inject/ calls through a CuptiApi. libcupti is never
// linked. This header does not include <cupti.h>, so that inject/ can use it; the types are
// declared here as far as needed.
//
// Which copy: the one already loaded in the process wins (torch, for one, brings its own and has
// loaded it when the driver opens our door); then GPUPROBE_CUPTI_PATH; then beside a loaded
// libcudart; then the loader's search for libcupti.so.13, .12, .11.8 ...; then the toolkits below
// /usr/local/cuda*.
#ifndef GPUPROBE_CUPTI_CUPTI_API_H_
#define GPUPROBE_CUPTI_CUPTI_API_H_

#include <cstddef>
#include <cstdint>

namespace gpuprobe::cupti {

using Result = int32_t;  // CUptiResult; 0: success
inline constexpr Result kSuccess = 0;
inline constexpr Result kNoSuchFunction = -1;  // the loaded libcupti does not have it

using BufferRequestedFn = void (*)(uint8_t** buffer, size_t* size, size_t* max_records);
using BufferCompletedFn = void (*)(void* context, uint32_t stream_id, uint8_t* buffer, size_t size,
                                   size_t valid_size);
using TimestampFn = uint64_t (*)();

// Function pointers; nullptr where this libcupti lacks the function. Required ones are checked by
// Load.
struct CuptiApi {
  Result (*GetVersion)(uint32_t* version) = nullptr;
  Result (*GetTimestamp)(uint64_t* ns) = nullptr;
  Result (*GetResultString)(Result result, const char** text) = nullptr;
  Result (*ActivityRegisterCallbacks)(BufferRequestedFn, BufferCompletedFn) = nullptr;
  Result (*ActivityEnable)(int32_t kind) = nullptr;
  Result (*ActivityDisable)(int32_t kind) = nullptr;
  Result (*ActivityFlushAll)(uint32_t flag) = nullptr;
  Result (*ActivityGetNextRecord)(uint8_t* buffer, size_t valid_bytes, void** record) = nullptr;
  Result (*ActivityGetNumDroppedRecords)(void* context, uint32_t stream_id,
                                         size_t* dropped) = nullptr;
  Result (*ActivitySetAttribute)(int32_t attribute, size_t* size, void* value) = nullptr;
  Result (*ActivityGetAttribute)(int32_t attribute, size_t* size, void* value) = nullptr;
  Result (*ActivityEnableRuntimeApi)(uint32_t cbid, uint8_t enable) = nullptr;  // optional (12.?)
  Result (*ActivityEnableDriverApi)(uint32_t cbid, uint8_t enable) = nullptr;   // optional
  Result (*ActivityEnableLatencyTimestamps)(uint8_t enable) = nullptr;          // optional
  Result (*ActivityEnableHwTrace)(uint8_t enable) = nullptr;                    // optional (12.8)
  Result (*SetThreadIdType)(int32_t type) = nullptr;                            // optional
  Result (*Subscribe)(void** subscriber, void* callback, void* user) = nullptr;
  Result (*Unsubscribe)(void* subscriber) = nullptr;
  Result (*GetThreadIdType)(int32_t* type) = nullptr;  // optional
  // NVTX's own convention, not CUPTI's: takes nvtxGetExportTable of a module, 1: attached.
  // Optional.
  int (*InitializeInjectionNvtx2)(void* get_export_table) = nullptr;

  void* handle = nullptr;  // from dlopen; never closed
  char path[512] = {};     // of the library that was chosen
  uint32_t version = 0;    // cuptiGetVersion; 18: 11.8, 26: 12.8, 28: 12.9, 130001: 13.0
};

// Fills `api`. On failure returns false with one clear sentence in `why` (what was tried, what
// failed). Calls no CUDA function. `preferred_path`: GPUPROBE_CUPTI_PATH or nullptr.
[[nodiscard]] bool LoadCupti(CuptiApi* api, const char* preferred_path, char* why, size_t why_size);

// The same from an open handle; for LoadCupti and tests.
[[nodiscard]] bool FillCuptiApi(CuptiApi* api, void* handle, char* why, size_t why_size);

// "CUPTI_ERROR_NOT_SUPPORTED" and the like; never nullptr.
const char* ResultName(Result result);

}  // namespace gpuprobe::cupti

#endif  // GPUPROBE_CUPTI_CUPTI_API_H_
