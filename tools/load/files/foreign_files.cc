// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/load/files/foreign_files.h"

#include <filesystem>

#include "absl/strings/str_cat.h"

namespace gpuprobe::tools {

std::string AdviceForForeignFile(const std::string& path) {
  const std::filesystem::path file(path);
  const std::string name = file.filename().string(), extension = file.extension().string();
  const std::string exported = file.stem().string() + ".sqlite";
  if (extension == ".nsys-rep" || extension == ".qdrep") {
    return absl::StrCat("a report of Nsight Systems; export it: nsys export --type sqlite ", name,
                        ", and give ", exported);
  }
  if (extension == ".qdstrm") {
    return absl::StrCat(
        "an unfinished report of Nsight Systems; make a report of it (QdstrmImporter, beside "
        "nsys), then: nsys export --type sqlite, and give ",
        exported);
  }
  if (extension == ".ncu-rep") {
    return "a report of Nsight Compute, which measures kernels one by one and holds no timeline; "
           "record the run with probe-run, or with nsys";
  }
  if (extension == ".nvvp" || extension == ".nvprof") {
    return "a file of nvprof or its viewer, which are not read; record the run with probe-run, or "
           "with nsys";
  }
  if (extension == ".arrow" || extension == ".arrows" || extension == ".jsonl" ||
      extension == ".hdf" || extension == ".h5") {
    return "if this is an export of Nsight Systems: nsys export --type sqlite makes one that can "
           "be read";
  }
  return "";
}

}  // namespace gpuprobe::tools
