#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Writes api_calls_table.inc from NVIDIA's lists of callback ids.

usage: gen_api_calls.py DIR... > api_calls_table.inc

Each DIR holds cupti_runtime_cbid.h and cupti_driver_cbid.h of one CUDA version, oldest first.
The numbers are append-only; a later version may publish the name of a number that was reserved
before, or hide one that was public, so the newest real name wins. Numbers that never had a real
name stay out of the table and are thereby recorded as unknown calls.

Taken from the headers are facts only (number, name); what a call does is decided by RULES below.
"""
import os
import re
import sys

DOMAINS = (
    ("Runtime", "cupti_runtime_cbid.h", "CUPTI_RUNTIME_TRACE_CBID_"),
    ("Driver", "cupti_driver_cbid.h", "CUPTI_DRIVER_TRACE_CBID_"),
)

# First match wins; tried on the name without "cuda"/"cu", version suffix and _ptsz/_ptds.
# (class, recorded, pattern). No match: kOther, not recorded.
RULES = (
    ("HostFunc", True,
     r"LaunchHostFunc|StreamAddCallback"),
    ("Launch", True,
     r"(__)?Launch(Grid|GridAsync)?|(__)?LaunchKernel(Ex|ExC)?"
     r"|LaunchCooperativeKernel(MultiDevice)?|GraphLaunch(WithArguments)?"
     r"|SubgridScheduleLaunch"),
    ("Sync", True,
     r".*Synchronize|(DeviceF|F)lushGPUDirectRDMAWrites"),
    ("StreamWait", True,
     r"StreamWaitEvent|StreamWaitValue(32|64)|StreamBatchMemOp|WaitExternalSemaphoresAsync"
     r"|(Execution|Green)?CtxWaitEvent"),
    ("EventRecord", True,
     r"EventRecord(WithFlags)?|StreamWriteValue(32|64)|SignalExternalSemaphoresAsync"
     r"|(Execution|Green)?CtxRecordEvent"),
    ("Copy", True,
     r"(Memcpy|Memset).*Async|Mem(Prefetch|Discard|DiscardAndPrefetch)(Batch)?Async"
     r"|MemBatchDecompressAsync"),
    ("CopyBlocking", True,
     r"(Memcpy|Memset).*"),
    ("HostMemory", True,
     r"HostAlloc|MallocHost|MemAllocHost|MemHostAlloc|(Mem)?Host(Register|Unregister)"),
    ("Alloc", True,
     r"Malloc.*|MemAlloc.*|MemCreate|MemMap|MemMapArrayAsync|MemAddressReserve|MemSetAccess"
     r"|Array(3D)?Create|MipmappedArrayCreate|MemPoolCreate|MemPoolImport.*"
     r"|MemPoolSetAccess|IpcOpenMemHandle|ImportExternalMemory|ExternalMemoryGetMapped.*"
     r"|MemImportFromShareableHandle|Multicast(Create|AddDevice|BindMem|BindAddr)"),
    ("Free", True,
     r"Free.*|MemFree.*|MemRelease|MemUnmap|MemAddressFree|ArrayDestroy"
     r"|MipmappedArrayDestroy|MemPoolDestroy|MemPoolTrimTo|DeviceGraphMemTrim"
     r"|IpcCloseMemHandle|DestroyExternalMemory|MulticastUnbind"),
    # With lazy loading (default since CUDA 12.2 at the latest) the first look at a function
    # loads it.
    ("Module", True,
     r"ModuleLoad.*|ModuleUnload|ModuleGetFunction|ModuleGetGlobal|ModuleEnumerateFunctions"
     r"|LibraryLoad.*|LibraryUnload|LibraryGet(Kernel|Module|Global|Managed)"
     r"|LibraryEnumerateKernels|KernelGetFunction|FuncLoad"
     r"|Link(Create|AddData|AddFile|Complete|Destroy)|GetFuncBySymbol|(__)?GetKernel"
     r"|__(RegisterFatBinary|RegisterFatBinaryEnd|UnregisterFatBinary|InitModule)"
     r"|GetSymbolAddress|Func(SetAttribute|GetAttributes)|KernelSetAttribute(ForDevice)?"
     r"|CompilePtx"),
    ("Module", False,
     r"Module.*|Library.*|Kernel(Get|Set).*|Func(Get|Set|Is).*|__Register.*|GetSymbolSize"),
    ("Graph", True,
     r"Stream(Begin|End)(Capture|Recapture).*|GraphInstantiate.*|GraphExecUpdate"
     r"|GraphUpload|GraphExecDestroy|GraphDestroy|GraphClone"
     r"|GraphExec.*(SetParams.*|SetEvent)"),
    ("Graph", False,
     r"Graph(?!ics).*"),
    ("Context", True,
     r"Init|InitDevice|DeviceReset|ThreadExit|DevicePrimaryCtx(Retain|Release|Reset)"
     r"|Ctx(Create|Destroy|Attach|Detach|SetLimit|ResetPersistingL2Cache)"
     r"|(Device|Thread)SetLimit|(D3D9|D3D10|D3D11|GL|VDPAU)CtxCreate(OnDevice)?"
     r"|GreenCtx(Create|Destroy|StreamCreate)|ExecutionCtx(Destroy|StreamCreate)"
     r"|StreamCreate.*|StreamDestroy|EventCreate.*|EventDestroy|IpcOpenEventHandle"
     r"|(Device|Ctx)(Enable|Disable)PeerAccess|Peer(Register|Unregister)"
     r"|CheckpointProcess(Lock|Checkpoint|Restore|Unlock)"),
    # Rare calls that can block without fitting a class.
    ("Other", True,
     r"Graphics(Map|Unmap)Resources|GL(Map|Unmap)BufferObject(Async)?"
     r"|EGLStream(Consumer|Producer)(AcquireFrame|ReleaseFrame|PresentFrame|ReturnFrame)"
     r"|MemAdvise|StreamAttachMemAsync|MemGetInfo|Profiler(Start|Stop)"),
)
RULES = tuple((c, r, re.compile(p)) for c, r, p in RULES)

PLACEHOLDER = re.compile(r"(cuda|reserved)\d+(_v\d+)?$")


def read_names(directories, file_name, prefix):
    names = {}
    for directory in directories:
        with open(os.path.join(directory, file_name), encoding="utf-8", errors="replace") as header:
            text = header.read()
            for name, number in re.findall(prefix + r"(\w+)\s*=\s*(\d+)\s*,", text):
                if name in ("INVALID", "SIZE") or PLACEHOLDER.match(name):
                    continue
                names[int(number)] = name
    return names


def public_name(name):
    return re.sub(r"_v\d+(?=_|$)", "", name)


def classify(name):
    base = re.sub(r"_pt[sd][sz]$", "", name)
    base = re.sub(r"^(__)?cu(da|64)?", lambda m: m.group(1) or "", base)
    for api_class, recorded, pattern in RULES:
        if pattern.fullmatch(base):
            return api_class, recorded
    return "Other", False


def main(directories):
    print("// SPDX-License-Identifier: Apache-2.0")
    print("// Generated by cupti/gen_api_calls.py from the callback id lists of CUDA 11.7 to 13.5;")
    print("// do not edit.")
    print("// {cbid, class, recorded, name}")
    for domain, file_name, prefix in DOMAINS:
        print(f"inline constexpr ApiCall k{domain}Calls[] = {{")
        for number, raw in sorted(read_names(directories, file_name, prefix).items()):
            name = public_name(raw)
            api_class, recorded = classify(name)
            flag = "true" if recorded else "false"
            print(f'    {{{number}, ApiClass::k{api_class}, {flag}, "{name}"}},')
        print("};")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
