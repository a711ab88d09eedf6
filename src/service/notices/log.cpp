#include "service/notices/log.hpp"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/null_sink.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "protocol/options/settings.hpp"

namespace outrigger::service {

void start_log(const std::string& who) {
  const char* text = std::getenv(setting::kLog);
  const LogSetting log = parse_log(text == nullptr ? std::string_view() : std::string_view(text));
  spdlog::sink_ptr sink = std::make_shared<spdlog::sinks::null_sink_mt>();
  spdlog::level::level_enum wanted = spdlog::level::off;
  if (is_log_level(log.level) && !log.file.empty()) {
    try {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(std::string(log.file), false);
      wanted = spdlog::level::from_str(std::string(log.level));
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
