// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/import/call_class.h"

#include <cstddef>

namespace gpuprobe::tools {
namespace {

struct Rule {
  CallClass call_class;
  std::string_view pattern;  // '*': any text; of the name without "cuda"/"cu" and suffixes
};

// The first match wins. Mirrors the recorded calls of cupti/gen_api_calls.py.
constexpr Rule kRules[] = {
    {CallClass::kHostFunc, "LaunchHostFunc"},
    {CallClass::kHostFunc, "StreamAddCallback"},
    {CallClass::kLaunch, "Launch"},
    {CallClass::kLaunch, "LaunchGrid"},
    {CallClass::kLaunch, "LaunchGridAsync"},
    {CallClass::kLaunch, "__Launch"},
    {CallClass::kLaunch, "LaunchKernel"},
    {CallClass::kLaunch, "LaunchKernelEx"},
    {CallClass::kLaunch, "LaunchKernelExC"},
    {CallClass::kLaunch, "__LaunchKernel"},
    {CallClass::kLaunch, "LaunchCooperativeKernel"},
    {CallClass::kLaunch, "LaunchCooperativeKernelMultiDevice"},
    {CallClass::kLaunch, "GraphLaunch"},
    {CallClass::kLaunch, "GraphLaunchWithArguments"},
    {CallClass::kLaunch, "SubgridScheduleLaunch"},
    // HIP: hipModuleLaunchKernel, hipExtLaunchKernel, hipExtModuleLaunchKernel, ...
    {CallClass::kLaunch, "ModuleLaunch*Kernel"},
    {CallClass::kLaunch, "Ext*Launch*Kernel"},
    {CallClass::kLaunch, "HccModuleLaunchKernel"},
    {CallClass::kSync, "*Synchronize"},
    {CallClass::kSync, "*lushGPUDirectRDMAWrites"},
    {CallClass::kStreamWait, "StreamWaitEvent"},
    {CallClass::kStreamWait, "StreamWaitValue32"},
    {CallClass::kStreamWait, "StreamWaitValue64"},
    {CallClass::kStreamWait, "StreamBatchMemOp"},
    {CallClass::kStreamWait, "WaitExternalSemaphoresAsync"},
    {CallClass::kStreamWait, "*CtxWaitEvent"},
    {CallClass::kEventRecord, "EventRecord"},
    {CallClass::kEventRecord, "EventRecordWithFlags"},
    {CallClass::kEventRecord, "StreamWriteValue32"},
    {CallClass::kEventRecord, "StreamWriteValue64"},
    {CallClass::kEventRecord, "SignalExternalSemaphoresAsync"},
    {CallClass::kEventRecord, "*CtxRecordEvent"},
    {CallClass::kCopy, "Memcpy*Async"},
    {CallClass::kCopy, "Memset*Async"},
    {CallClass::kCopy, "MemPrefetch*Async"},
    {CallClass::kCopy, "MemDiscard*Async"},
    {CallClass::kCopy, "MemBatchDecompressAsync"},
    {CallClass::kCopyBlocking, "Memcpy*"},
    {CallClass::kCopyBlocking, "Memset*"},
    {CallClass::kHostMemory, "HostAlloc"},
    {CallClass::kHostMemory, "MallocHost"},
    {CallClass::kHostMemory, "MemAllocHost"},
    {CallClass::kHostMemory, "MemHostAlloc"},
    {CallClass::kHostMemory, "HostMalloc"},  // HIP
    {CallClass::kHostMemory, "HostRegister"},
    {CallClass::kHostMemory, "HostUnregister"},
    {CallClass::kHostMemory, "MemHostRegister"},
    {CallClass::kHostMemory, "MemHostUnregister"},
    {CallClass::kAlloc, "Malloc*"},
    {CallClass::kAlloc, "MemAlloc*"},
    {CallClass::kAlloc, "MemCreate"},
    {CallClass::kAlloc, "MemMap"},
    {CallClass::kAlloc, "MemMapArrayAsync"},
    {CallClass::kAlloc, "MemAddressReserve"},
    {CallClass::kAlloc, "MemSetAccess"},
    {CallClass::kAlloc, "ArrayCreate"},
    {CallClass::kAlloc, "Array3DCreate"},
    {CallClass::kAlloc, "MipmappedArrayCreate"},
    {CallClass::kAlloc, "MemPoolCreate"},
    {CallClass::kAlloc, "MemPoolImport*"},
    {CallClass::kAlloc, "MemPoolSetAccess"},
    {CallClass::kAlloc, "IpcOpenMemHandle"},
    {CallClass::kAlloc, "ImportExternalMemory"},
    {CallClass::kAlloc, "ExternalMemoryGetMapped*"},
    {CallClass::kAlloc, "MemImportFromShareableHandle"},
    {CallClass::kAlloc, "MulticastCreate"},
    {CallClass::kAlloc, "MulticastAddDevice"},
    {CallClass::kAlloc, "MulticastBindMem"},
    {CallClass::kAlloc, "MulticastBindAddr"},
    {CallClass::kFree, "Free*"},
    {CallClass::kFree, "MemFree*"},
    {CallClass::kFree, "MemRelease"},
    {CallClass::kFree, "MemUnmap"},
    {CallClass::kFree, "MemAddressFree"},
    {CallClass::kFree, "ArrayDestroy"},
    {CallClass::kFree, "MipmappedArrayDestroy"},
    {CallClass::kFree, "MemPoolDestroy"},
    {CallClass::kFree, "MemPoolTrimTo"},
    {CallClass::kFree, "DeviceGraphMemTrim"},
    {CallClass::kFree, "IpcCloseMemHandle"},
    {CallClass::kFree, "DestroyExternalMemory"},
    {CallClass::kFree, "MulticastUnbind"},
    {CallClass::kModule, "ModuleLoad*"},
    {CallClass::kModule, "ModuleUnload"},
    {CallClass::kModule, "ModuleGetFunction"},
    {CallClass::kModule, "ModuleGetGlobal"},
    {CallClass::kModule, "ModuleEnumerateFunctions"},
    {CallClass::kModule, "LibraryLoad*"},
    {CallClass::kModule, "LibraryUnload"},
    {CallClass::kModule, "LibraryGetKernel"},
    {CallClass::kModule, "LibraryGetModule"},
    {CallClass::kModule, "LibraryGetGlobal"},
    {CallClass::kModule, "LibraryGetManaged"},
    {CallClass::kModule, "LibraryEnumerateKernels"},
    {CallClass::kModule, "KernelGetFunction"},
    {CallClass::kModule, "FuncLoad"},
    {CallClass::kModule, "LinkCreate"},
    {CallClass::kModule, "LinkAddData"},
    {CallClass::kModule, "LinkAddFile"},
    {CallClass::kModule, "LinkComplete"},
    {CallClass::kModule, "LinkDestroy"},
    {CallClass::kModule, "GetFuncBySymbol"},
    {CallClass::kModule, "GetKernel"},
    {CallClass::kModule, "__GetKernel"},
    {CallClass::kModule, "__RegisterFatBinary"},
    {CallClass::kModule, "__RegisterFatBinaryEnd"},
    {CallClass::kModule, "__UnregisterFatBinary"},
    {CallClass::kModule, "__InitModule"},
    {CallClass::kModule, "GetSymbolAddress"},
    {CallClass::kModule, "FuncSetAttribute"},
    {CallClass::kModule, "FuncGetAttributes"},
    {CallClass::kModule, "KernelSetAttribute"},
    {CallClass::kModule, "KernelSetAttributeForDevice"},
    {CallClass::kModule, "CompilePtx"},
    {CallClass::kGraph, "StreamBeginCapture*"},
    {CallClass::kGraph, "StreamBeginRecapture*"},
    {CallClass::kGraph, "StreamEndCapture*"},
    {CallClass::kGraph, "StreamEndRecapture*"},
    {CallClass::kGraph, "GraphInstantiate*"},
    {CallClass::kGraph, "GraphExecUpdate"},
    {CallClass::kGraph, "GraphUpload"},
    {CallClass::kGraph, "GraphExecDestroy"},
    {CallClass::kGraph, "GraphDestroy"},
    {CallClass::kGraph, "GraphClone"},
    {CallClass::kGraph, "GraphExec*SetParams*"},
    {CallClass::kGraph, "GraphExec*SetEvent"},
    {CallClass::kContext, "Init"},
    {CallClass::kContext, "InitDevice"},
    {CallClass::kContext, "DeviceReset"},
    {CallClass::kContext, "ThreadExit"},
    {CallClass::kContext, "DevicePrimaryCtxRetain"},
    {CallClass::kContext, "DevicePrimaryCtxRelease"},
    {CallClass::kContext, "DevicePrimaryCtxReset"},
    {CallClass::kContext, "CtxCreate"},
    {CallClass::kContext, "CtxDestroy"},
    {CallClass::kContext, "CtxAttach"},
    {CallClass::kContext, "CtxDetach"},
    {CallClass::kContext, "CtxSetLimit"},
    {CallClass::kContext, "CtxResetPersistingL2Cache"},
    {CallClass::kContext, "DeviceSetLimit"},
    {CallClass::kContext, "ThreadSetLimit"},
    {CallClass::kContext, "D3D9CtxCreate*"},
    {CallClass::kContext, "D3D10CtxCreate*"},
    {CallClass::kContext, "D3D11CtxCreate*"},
    {CallClass::kContext, "GLCtxCreate"},
    {CallClass::kContext, "VDPAUCtxCreate"},
    {CallClass::kContext, "GreenCtxCreate"},
    {CallClass::kContext, "GreenCtxDestroy"},
    {CallClass::kContext, "GreenCtxStreamCreate"},
    {CallClass::kContext, "ExecutionCtxDestroy"},
    {CallClass::kContext, "ExecutionCtxStreamCreate"},
    {CallClass::kContext, "StreamCreate*"},
    {CallClass::kContext, "StreamDestroy"},
    {CallClass::kContext, "EventCreate*"},
    {CallClass::kContext, "EventDestroy"},
    {CallClass::kContext, "IpcOpenEventHandle"},
    {CallClass::kContext, "DeviceEnablePeerAccess"},
    {CallClass::kContext, "DeviceDisablePeerAccess"},
    {CallClass::kContext, "CtxEnablePeerAccess"},
    {CallClass::kContext, "CtxDisablePeerAccess"},
    {CallClass::kContext, "PeerRegister"},
    {CallClass::kContext, "PeerUnregister"},
    {CallClass::kContext, "CheckpointProcessLock"},
    {CallClass::kContext, "CheckpointProcessCheckpoint"},
    {CallClass::kContext, "CheckpointProcessRestore"},
    {CallClass::kContext, "CheckpointProcessUnlock"},
};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool Matches(std::string_view pattern, std::string_view text) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (text.substr(0, star) != pattern.substr(0, star)) return false;
  pattern.remove_prefix(star + 1);
  if (pattern.empty()) return true;
  for (size_t at = star; at <= text.size(); ++at) {
    if (Matches(pattern, text.substr(at))) return true;
  }
  return false;
}

bool RemovePrefix(std::string_view prefix, std::string_view* text) {
  if (text->substr(0, prefix.size()) != prefix) return false;
  text->remove_prefix(prefix.size());
  return true;
}

// "" for what is no CUDA call.
std::string BaseName(std::string_view name) {
  std::string base = WithoutVersion(name);
  for (const std::string_view suffix : {"_ptsz", "_ptds"}) {
    if (base.size() > suffix.size() && base.ends_with(suffix)) {
      base.resize(base.size() - suffix.size());
    }
  }
  std::string_view rest = base;
  const bool internal = RemovePrefix("__", &rest);
  if (RemovePrefix("hip", &rest)) return std::string(rest);
  if (!RemovePrefix("cu", &rest)) return "";
  if (!RemovePrefix("da", &rest)) RemovePrefix("64", &rest);
  return (internal ? "__" : "") + std::string(rest);
}

}  // namespace

std::string WithoutVersion(std::string_view name) {
  std::string out;
  while (!name.empty()) {
    if (name.substr(0, 2) == "_v" && name.size() > 2 && IsDigit(name[2])) {
      size_t end = 2;
      while (end < name.size() && IsDigit(name[end])) ++end;
      if (end == name.size() || name[end] == '_') {
        name.remove_prefix(end);
        continue;
      }
    }
    out += name.front();
    name.remove_prefix(1);
  }
  return out;
}

CallClass CallClassOfName(std::string_view name) {
  const std::string base = BaseName(name);
  if (base.empty()) return CallClass::kOther;
  for (const Rule& rule : kRules) {
    if (Matches(rule.pattern, base)) return rule.call_class;
  }
  return CallClass::kOther;
}

}  // namespace gpuprobe::tools
