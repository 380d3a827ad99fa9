// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Binds functions that moved into libc.so.6 with a new version in glibc 2.34 to their old versions,
// so that the library, built on a new system, loads on glibc 2.28 too. A preload that needs a newer
// symbol version than the host has is fatal for the host. The build includes it first in every
// source that goes into the library (GpuprobeTargets.cmake); tests/contract checks the built
// object.
#ifndef GPUPROBE_CMAKE_GLIBC_COMPAT_H_
#define GPUPROBE_CMAKE_GLIBC_COMPAT_H_

#if defined(__x86_64__) && defined(__GLIBC__) || defined(__x86_64__) && defined(__linux__)
__asm__(".symver dlopen, dlopen@GLIBC_2.2.5");
__asm__(".symver dlsym, dlsym@GLIBC_2.2.5");
__asm__(".symver dlerror, dlerror@GLIBC_2.2.5");
__asm__(".symver dlclose, dlclose@GLIBC_2.2.5");
__asm__(".symver dladdr, dladdr@GLIBC_2.2.5");
__asm__(".symver dladdr1, dladdr1@GLIBC_2.3.3");
__asm__(".symver dlinfo, dlinfo@GLIBC_2.3.3");
__asm__(".symver pthread_create, pthread_create@GLIBC_2.2.5");
__asm__(".symver pthread_join, pthread_join@GLIBC_2.2.5");
__asm__(".symver pthread_detach, pthread_detach@GLIBC_2.2.5");
__asm__(".symver pthread_key_create, pthread_key_create@GLIBC_2.2.5");
__asm__(".symver pthread_setspecific, pthread_setspecific@GLIBC_2.2.5");
__asm__(".symver pthread_getspecific, pthread_getspecific@GLIBC_2.2.5");
__asm__(".symver pthread_once, pthread_once@GLIBC_2.2.5");
__asm__(".symver pthread_sigmask, pthread_sigmask@GLIBC_2.2.5");
__asm__(".symver pthread_attr_setstacksize, pthread_attr_setstacksize@GLIBC_2.2.5");
#endif

#endif  // GPUPROBE_CMAKE_GLIBC_COMPAT_H_
