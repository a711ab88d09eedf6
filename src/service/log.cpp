#include "service/log.hpp"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/null_sink.h>

#include <cstdlib>
#include <memory>
#include <vector>

namespace outrigger::service {

void start_log(const std::string& who) {
  const char* level = std::getenv("OUTRIGGER_LOG");
  const char* path = std::getenv("OUTRIGGER_LOG_FILE");
  spdlog::sink_ptr sink = std::make_shared<spdlog::sinks::null_sink_mt>();
  spdlog::level::level_enum wanted = spdlog::level::off;
  if (level != nullptr && path != nullptr && *path != '\0') {
    try {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path, false);
      wanted = spdlog::level::from_str(level);
    } catch (const spdlog::spdlog_ex&) {
      wanted = spdlog::level::off;  // a log that cannot be written must not stop the program
    }
  }
  auto logger = std::make_shared<spdlog::logger>(who, std::move(sink));
  logger->set_level(wanted);
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%f %n[%P] %l: %v");
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace outrigger::service
