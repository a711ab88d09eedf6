// A stream that closes itself.
#pragma once

#include <cstdio>
#include <memory>

namespace outrigger {

struct CloseFile {
  void operator()(std::FILE* file) const { (void)std::fclose(file); }
};
using UniqueFile = std::unique_ptr<std::FILE, CloseFile>;

}  // namespace outrigger
