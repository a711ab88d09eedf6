"""The check of classes counts what it is there to count."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import check_classes

SCRIPT = Path(check_classes.__file__)

FOUR = """
namespace outrigger {
class Four final : public Base {
 public:
  explicit Four(int a) : a_(a) {}
  ~Four() override;
  [[nodiscard]] const std::vector<int>& read(std::span<const int> some) const { return all_; }
  void read(int one) {
    helper(one);
    if (one) call(2);
  }
  template <class T>
  Result<T> write(T value,
                  int more);
  using Done = std::function<void(int)>;
  friend void swap(Four&, Four&);
  struct Part {
    int inner() const { return 1; }
  };

 private:
  static_assert(sizeof(int) == 4);
  std::function<void(int)> on_done_;
  int a_ = compute(3);  // not one(of them)
  const char* text_ = "{ no(brace)";
};
struct Empty {};
}  // namespace outrigger
"""


def test_methods_are_counted(tmp_path: Path) -> None:
    (tmp_path / "four.hpp").write_text(FOUR)
    assert list(check_classes.classes(tmp_path / "four.hpp")) == [("Four", 4), ("Part", 1)]


@pytest.mark.parametrize(
    ("name", "count", "code"), [("Any", 28, 0), ("Any", 29, 1), ("Replicas", 30, 0), ("Replicas", 31, 1)]
)
def test_large_classes_are_named(tmp_path: Path, name: str, count: int, code: int) -> None:
    (tmp_path / "src").mkdir()
    lines = "".join(f"  void f{index}();\n" for index in range(count))
    (tmp_path / "src" / "a.hpp").write_text(f"class {name} {{\n{lines}}};\n")
    done = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert (f"{name} has {count} methods" in done.stderr) == bool(code)


def test_an_empty_tree_is_not_a_pass(tmp_path: Path) -> None:
    assert subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, check=False).returncode == 1
