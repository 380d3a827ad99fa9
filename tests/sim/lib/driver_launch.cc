// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Driver API: modules, functions, kernel launches, graphs. A module's image is ignored: every name
// that is asked for exists, and its duration is what the script says.
#include <cupti.h>
#include <dlfcn.h>

#include <cstring>

#include "tests/sim/lib/api_scope.h"
#include "tests/sim/lib/engine.h"
#include "tests/sim/lib/settings.h"

namespace gpuprobe::sim {
namespace {

struct Module {
  uint32_t id;
};

std::atomic<uint32_t> g_next_module{1};

void AnnounceModule(uint32_t cbid, Module* module) {
  CUpti_ModuleResourceData data{module->id, 0, nullptr};
  Context* context = EngineState::current();
  ForEachClient([&](const Hooks& hooks) { hooks.resource(cbid, context, &data); });
}

GpuOp KernelOp(const Function* function, const unsigned int grid[3], const unsigned int block[3],
               unsigned int shared_bytes) {
  GpuOp op;
  op.kind = OpKind::kKernel;
  op.name = function->name;
  for (int i = 0; i < 3; ++i) {
    op.grid[i] = grid[i];
    op.block[i] = block[i];
  }
  op.dynamic_shared_bytes = shared_bytes;
  op.asynchronous = true;
  return op;
}

CUresult Launch(const Function* function, const unsigned int grid[3], const unsigned int block[3],
                unsigned int shared_bytes, CUstream handle) {
  EngineState& engine = EngineState::Get();
  Stream* stream = engine.ResolveStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  for (int i = 0; i < 3; ++i) {
    if (grid[i] == 0 || block[i] == 0) return CUDA_ERROR_INVALID_VALUE;
  }
  const int64_t duration = EngineState::TakeDuration(Settings::Get().KernelNs(function->name));
  return engine.Submit(stream, Engine::kCompute, KernelOp(function, grid, block, shared_bytes),
                       duration);
}

const Function* AsFunction(CUfunction f) { return reinterpret_cast<const Function*>(f); }

}  // namespace
}  // namespace gpuprobe::sim

using namespace gpuprobe::sim;  // NOLINT: this file is the API's implementation

// ---- modules ----

GPUSIM_EXPORT CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  DRIVER_CALL(cuModuleLoadData, module, image);
  if (EngineState::current() == nullptr) return scope.Done(CUDA_ERROR_INVALID_CONTEXT);
  auto* loaded = new Module{g_next_module.fetch_add(1, std::memory_order_relaxed)};
  *module = reinterpret_cast<CUmodule>(loaded);
  AnnounceModule(CUPTI_CBID_RESOURCE_MODULE_LOADED, loaded);
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuModuleUnload(CUmodule hmod) {
  DRIVER_CALL(cuModuleUnload, hmod);
  auto* module = reinterpret_cast<Module*>(hmod);
  if (module == nullptr) return scope.Done(CUDA_ERROR_INVALID_HANDLE);
  AnnounceModule(CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING, module);
  delete module;
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name) {
  DRIVER_CALL(cuModuleGetFunction, hfunc, hmod, name);
  if (hmod == nullptr || name == nullptr) return scope.Done(CUDA_ERROR_INVALID_VALUE);
  *hfunc = reinterpret_cast<CUfunction>(new Function{EngineState::Get().InternName(name)});
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuFuncGetName(const char** name, CUfunction hfunc) {
  DRIVER_CALL(cuFuncGetName, name, hfunc);
  *name = AsFunction(hfunc)->name;
  return CUDA_SUCCESS;
}

// ---- launches ----

GPUSIM_EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                      unsigned int gridDimZ, unsigned int blockDimX,
                                      unsigned int blockDimY, unsigned int blockDimZ,
                                      unsigned int sharedMemBytes, CUstream hStream,
                                      void** kernelParams, void** extra) {
  const cuLaunchKernel_params api_params{f,         gridDimX,     gridDimY,  gridDimZ,
                                         blockDimX, blockDimY,    blockDimZ, sharedMemBytes,
                                         hStream,   kernelParams, extra};
  const Function* function = AsFunction(f);
  ApiScope scope(Domain::kDriver, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, "cuLaunchKernel",
                 &api_params, false, function != nullptr ? function->name : nullptr);
  if (scope.refused()) return scope.Done(static_cast<CUresult>(scope.refusal()));
  if (function == nullptr) return scope.Done(CUDA_ERROR_INVALID_HANDLE);
  const unsigned int grid[3] = {gridDimX, gridDimY, gridDimZ},
                     block[3] = {blockDimX, blockDimY, blockDimZ};
  return scope.Done(Launch(function, grid, block, sharedMemBytes, hStream));
}

GPUSIM_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f,
                                        void** kernelParams, void** extra) {
  const cuLaunchKernelEx_params api_params{config, f, kernelParams, extra};
  const Function* function = AsFunction(f);
  ApiScope scope(Domain::kDriver, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, "cuLaunchKernelEx",
                 &api_params, false, function != nullptr ? function->name : nullptr);
  if (scope.refused()) return scope.Done(static_cast<CUresult>(scope.refusal()));
  if (function == nullptr || config == nullptr) return scope.Done(CUDA_ERROR_INVALID_VALUE);
  const unsigned int grid[3] = {config->gridDimX, config->gridDimY, config->gridDimZ};
  const unsigned int block[3] = {config->blockDimX, config->blockDimY, config->blockDimZ};
  return scope.Done(Launch(function, grid, block, config->sharedMemBytes, config->hStream));
}

// ---- graphs ----

GPUSIM_EXPORT CUresult cuGraphCreate(CUgraph* phGraph, unsigned int flags) {
  DRIVER_CALL(cuGraphCreate, phGraph, flags);
  *phGraph = reinterpret_cast<CUgraph>(new Graph{EngineState::Get().NextGraphId(), {}});
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph,
                                               const CUgraphNode* dependencies,
                                               size_t numDependencies,
                                               const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  DRIVER_CALL(cuGraphAddKernelNode_v2, phGraphNode, hGraph, dependencies, numDependencies,
              nodeParams);
  auto* graph = reinterpret_cast<Graph*>(hGraph);
  if (graph == nullptr || nodeParams == nullptr || nodeParams->func == nullptr) {
    return scope.Done(CUDA_ERROR_INVALID_VALUE);
  }
  const unsigned int grid[3] = {nodeParams->gridDimX, nodeParams->gridDimY, nodeParams->gridDimZ};
  const unsigned int block[3] = {nodeParams->blockDimX, nodeParams->blockDimY,
                                 nodeParams->blockDimZ};
  auto* node =
      new GraphNode{graph,
                    static_cast<uint32_t>(graph->nodes.size()),
                    KernelOp(AsFunction(nodeParams->func), grid, block, nodeParams->sharedMemBytes),
                    EngineState::TakeDuration(-1),
                    {}};
  for (size_t i = 0; i < numDependencies; ++i) {
    const auto* before = reinterpret_cast<const GraphNode*>(dependencies[i]);
    if (before->graph != graph) return scope.Done(CUDA_ERROR_INVALID_VALUE);
    node->dependencies.push_back(before->index);
  }
  graph->nodes.push_back(node);
  *phGraphNode = reinterpret_cast<CUgraphNode>(node);
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* phGraphExec, CUgraph hGraph,
                                                   unsigned long long flags) {
  DRIVER_CALL(cuGraphInstantiateWithFlags, phGraphExec, hGraph, flags);
  const auto* graph = reinterpret_cast<const Graph*>(hGraph);
  if (graph == nullptr) return scope.Done(CUDA_ERROR_INVALID_VALUE);
  auto* executable = new Graph(*graph);  // shares the nodes, which are never freed
  executable->id = EngineState::Get().NextGraphId();
  ForEachClient([executable](const Hooks& hooks) { hooks.graph_instantiated(executable->id); });
  *phGraphExec = reinterpret_cast<CUgraphExec>(executable);
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream) {
  DRIVER_CALL(cuGraphLaunch, hGraphExec, hStream);
  const auto* graph = reinterpret_cast<const Graph*>(hGraphExec);
  Stream* stream = EngineState::Get().ResolveStream(hStream);
  if (graph == nullptr || stream == nullptr) return scope.Done(CUDA_ERROR_INVALID_VALUE);
  return scope.Done(EngineState::Get().LaunchGraph(*graph, stream));
}

GPUSIM_EXPORT CUresult cuGraphExecDestroy(CUgraphExec hGraphExec) {
  DRIVER_CALL(cuGraphExecDestroy, hGraphExec);
  delete reinterpret_cast<Graph*>(hGraphExec);
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuGraphDestroy(CUgraph hGraph) {
  DRIVER_CALL(cuGraphDestroy, hGraph);
  delete reinterpret_cast<Graph*>(hGraph);
  return CUDA_SUCCESS;
}

// ---- look-up ----

GPUSIM_EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion,
                                           cuuint64_t flags,
                                           CUdriverProcAddressQueryResult* symbolStatus) {
  // The newest variant of the name, as the driver gives for the newest version; not an API call to
  // trace.
  static void* self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  *pfn = nullptr;
  for (const char* suffix : {"_v4", "_v2", ""}) {
    const std::string name = std::string(symbol) + suffix;
    if (*pfn == nullptr) *pfn = dlsym(self, name.c_str());
  }
  if (symbolStatus != nullptr) {
    *symbolStatus =
        *pfn != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return *pfn != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
