#include "base/program_name.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <string_view>
#include <vector>

namespace outrigger {
namespace {

struct Interpreter {
  std::string_view name;       // a version may follow: python3.11
  std::string_view takes_one;  // options whose value is the next word
};
constexpr std::array kInterpreters{
    Interpreter{"python", " -W -X --check-hash-based-pycs "},
    Interpreter{"pypy", " -W -X "},
    Interpreter{"julia", " -t -p -J -L -C -H "},
    Interpreter{"java", " -cp -classpath --class-path -p --module-path --add-modules "},
    Interpreter{"perl", " -I "},
    Interpreter{"ruby", " -I -r -C "},
    Interpreter{"lua", " -l "},
    Interpreter{"octave", " -p --path "},
    Interpreter{"R", ""},
    Interpreter{"Rscript", ""},
};
// The next word names what is run.
constexpr std::string_view kNamesProgram = " -m -jar --module ";
// The program is the next word itself, and has no name.
constexpr std::string_view kIsProgram = " -c -e --eval ";
constexpr std::string_view kFileIs = "--file=";  // of R, behind Rscript

std::string file_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);  // from the start if there is no slash
}

bool is_version(std::string_view text) {
  return std::ranges::all_of(text, [](char letter) { return (letter >= '0' && letter <= '9') || letter == '.'; });
}

const Interpreter* interpreter_named(std::string_view name) {
  for (const Interpreter& each : kInterpreters) {
    if (name.starts_with(each.name) && is_version(name.substr(each.name.size()))) return &each;
  }
  return nullptr;
}

bool is_in(std::string_view list, const std::string& word) {
  return list.find(" " + word + " ") != std::string_view::npos;
}

// Empty if an interpreter's program has no name.
std::string script_in(const Interpreter& interpreter, std::span<const std::string> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool has_next = i + 1 < words.size();
    if (word.starts_with(kFileIs)) return file_name(word.substr(kFileIs.size()));
    if (is_in(kIsProgram, word)) return {};
    if (is_in(interpreter.takes_one, word)) {
      ++i;
    } else if (is_in(kNamesProgram, word) && has_next) {
      const std::string& named = words[++i];
      if (named != "mpi4py" && named != "mpi4py.run") return file_name(named);  // these run the script that follows
    } else if (!word.starts_with('-')) {
      return file_name(word);
    }
  }
  return {};
}

std::string as_line(std::string name) {
  if (name.empty()) return "unknown";
  name.resize(std::min(name.size(), kMostOfProgramName));
  std::ranges::replace_if(
      name, [](char letter) { return static_cast<unsigned char>(letter) < ' '; }, '?');
  return name;
}

std::vector<std::string> own_command() {
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

}  // namespace

std::string program_name(std::span<const std::string> command) {
  if (command.empty()) return as_line({});
  const std::string executable = file_name(command.front());
  const Interpreter* interpreter = interpreter_named(executable);
  const std::string script = interpreter == nullptr ? std::string() : script_in(*interpreter, command.subspan(1));
  return as_line(script.empty() ? executable : script);
}

std::string program_name() {
  return program_name(own_command());
}

}  // namespace outrigger
