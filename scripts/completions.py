"""Completions of `outrigger` for bash, zsh and fish. They are self-contained: a shell need not start Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import commands
from commands import Command, Option, Words

_MADE = "# Completion of outrigger, made from its help."


def _tree(known: Sequence[Command]) -> dict[Words, dict[str, str]]:
    """Maps the words of each group to the words that may follow, with their meanings. The first group is empty."""
    named = {each.words: each.summary for each in known}
    named = {**named, **{words: meaning for words, meaning in commands.groups().items() if words not in named}}
    tree: dict[Words, dict[str, str]] = {(): {}}
    for words, meaning in named.items():
        tree.setdefault(words[:-1], {})[words[-1]] = meaning
    return tree


def _choices(option: Option) -> list[str]:
    """The values of an option, if its help lists them."""
    words = option.value.split("|")
    return words if len(words) > 1 and all(word.replace("-", "").isalnum() for word in words) else []


def _named(command: Command) -> list[Option]:
    return [option for option in command.options if option.names]


# --- bash -------------------------------------------------------------------------------------------------------------

_BASH = """{made}
_outrigger() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD - 1]}}"
  local options="" following="" chosen="" i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ "${{COMP_WORDS[i]}}" == -- ]] || continue
    if declare -F _command_offset >/dev/null; then
      _command_offset $((i + 1))
    else
      mapfile -t COMPREPLY < <(compgen -f -c -- "$current")
    fi
    return
  done
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$chosen ${{COMP_WORDS[i]}}" in
      {all_words}) chosen+=" ${{COMP_WORDS[i]}}" ;;
      *) break ;;
    esac
  done
  case "$chosen" in
{cases}
  esac
  ((i == COMP_CWORD)) || following=""
  case "$before" in
{value_cases}
  esac
  if [[ "$current" == -* || -n "$following" || -z "$chosen" ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$following $options --help" -- "$current")
  else
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  fi
}}
complete -F _outrigger outrigger
"""


def _bash_options(command: Command) -> str:
    return " ".join(name for option in _named(command) for name in option.names)


def _shell_words(words: Words) -> str:
    """As the scripts gather them: with a blank before each."""
    return '"' + "".join(f" {word}" for word in words) + '"'


def _all_words(tree: dict[Words, dict[str, str]]) -> str:
    return "|".join(_shell_words((*before, word)) for before, following in tree.items() for word in following)


def bash(known: Sequence[Command]) -> str:
    """For bash, with bash-completion or without."""
    tree = _tree(known)
    by_words = {each.words: each for each in known}
    cases = []
    for given in dict.fromkeys((*tree, *by_words)):
        options = _bash_options(by_words[given]) if given in by_words else ""
        cases.append(f'    {_shell_words(given)}) options="{options}" following="{" ".join(tree.get(given, ()))}" ;;')
    values: dict[str, str] = {}
    for option in (option for each in known for option in _named(each)):
        if option.wants_file:
            answer = 'compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$current"); return'
        elif words := _choices(option):
            answer = f'mapfile -t COMPREPLY < <(compgen -W "{" ".join(words)}" -- "$current"); return'
        elif option.value:
            answer = "return"
        else:
            continue
        values.setdefault(answer, "")
        names = [name for name in option.names if not _is_among(values, name)]
        values[answer] = "|".join(filter(None, (values[answer], *names)))
    value_cases = [f"    {names}) {answer} ;;" for answer, names in values.items() if names]
    return _BASH.format(
        made=_MADE, all_words=_all_words(tree), cases="\n".join(cases), value_cases="\n".join(value_cases)
    )


def _is_among(values: dict[str, str], name: str) -> bool:
    return any(name in names.split("|") for names in values.values())


# --- zsh --------------------------------------------------------------------------------------------------------------

_ZSH = """#compdef outrigger
{made}
_outrigger() {{
  local -a found
  local chosen="" at=2
  while ((at < CURRENT)); do
    case "$chosen $words[at]" in
      {all_words}) chosen+=" $words[at]"; ((at++)) ;;
      *) break ;;
    esac
  done
  if ((at == CURRENT)) && [[ "$words[CURRENT]" != -* ]]; then
    case "$chosen" in
{lists}
    esac
  fi
  words=("${{(@)words[at - 1, -1]}}")
  ((CURRENT -= at - 2))
  case "$chosen" in
{arguments}
  esac
}}
_outrigger "$@"
"""


def _zsh_quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _zsh_label(text: str) -> str:
    return text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")


def _zsh_arguments(command: Command) -> str:
    specs = []
    for option in _named(command):
        words = _choices(option)
        action = "_files" if option.wants_file else f"({' '.join(words)})" if words else " "
        value = f":{_zsh_label(option.value)}:{action}" if option.value else ""
        specs += [_zsh_quoted(f"*{name}[{_zsh_label(option.meaning)}]{value}") for name in option.names]
    takes_program = any("PROGRAM" in option.value for option in command.options)
    specs.append(_zsh_quoted("*:: :_normal" if takes_program else "*: :_files"))
    return "_arguments -S " + " ".join(specs)


def _zsh_list(words: dict[str, str]) -> str:
    return " ".join(_zsh_quoted(f"{word.replace(':', chr(92) + ':')}:{meaning}") for word, meaning in words.items())


def zsh(known: Sequence[Command]) -> str:
    """For zsh."""
    tree = _tree(known)
    lists = [
        f"      {_shell_words(before)}) found=({_zsh_list(words)}); _describe command found ;;"
        for before, words in tree.items()
    ]
    arguments = [f"    {_shell_words(each.words)}) {_zsh_arguments(each)} ;;" for each in known]
    return _ZSH.format(made=_MADE, all_words=_all_words(tree), lists="\n".join(lists), arguments="\n".join(arguments))


# --- fish -------------------------------------------------------------------------------------------------------------


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _fish_option(condition: str, option: Option) -> str:
    names = (f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
    words = _choices(option)
    value = " -r -F" if option.wants_file else f" -x -a {_fish_quoted(' '.join(words))}" if words else " -x"
    return (
        f"complete -c outrigger -n {condition} {' '.join(names)}{value if option.value else ''} "
        f"-d {_fish_quoted(option.meaning)}"
    )


def _fish_words(condition: str, words: dict[str, str]) -> Iterable[str]:
    for word, meaning in words.items():
        yield f"complete -c outrigger -n {condition} -f -a {_fish_quoted(word)} -d {_fish_quoted(meaning)}"


def fish(known: Sequence[Command]) -> str:
    """For fish."""
    lines = [_MADE]
    for before, words in _tree(known).items():
        seen = [f"__fish_seen_subcommand_from {word}" for word in before]
        unseen = f"not __fish_seen_subcommand_from {' '.join(words)}"
        condition = _fish_quoted("; and ".join([*seen, unseen])) if before else "__fish_use_subcommand"
        lines += _fish_words(condition, words)
    for command in known:
        condition = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in command.words)
        lines += [_fish_option(_fish_quoted(condition), option) for option in _named(command)]
    return "\n".join(lines) + "\n"
