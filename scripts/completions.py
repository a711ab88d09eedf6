"""Completions of `outrigger` for bash, zsh and fish. They are self-contained: a shell need not start Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import commands
from commands import Command, Option

_MADE = "# Completion of outrigger, made from its help."


def _firsts(known: Sequence[Command]) -> dict[str, str]:
    """The first words, with their descriptions."""
    alone = {each.words[0]: each.summary for each in known if len(each.words) == 1}
    return {**commands.groups(), **alone}


def _seconds(known: Sequence[Command], first: str) -> dict[str, str]:
    return {each.words[1]: each.summary for each in known if each.words[0] == first and len(each.words) > 1}


def _choices(option: Option) -> list[str]:
    """The values of an option, if its help lists them."""
    words = option.value.split("|")
    return words if len(words) > 1 and all(word.replace("-", "").isalnum() for word in words) else []


def _named(command: Command) -> list[Option]:
    return [option for option in command.options if option.names]


# --- bash -------------------------------------------------------------------------------------------------------------

_BASH = """{made}
_outrigger() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD - 1]}}" options="" seconds="" files="" i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ "${{COMP_WORDS[i]}}" == -- ]] || continue
    if declare -F _command_offset >/dev/null; then
      _command_offset $((i + 1))
    else
      mapfile -t COMPREPLY < <(compgen -f -c -- "$current")
    fi
    return
  done
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "{firsts} --help" -- "$current")
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{first_cases}
  esac
  ((COMP_CWORD == 2)) || seconds=""
  case "${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}}" in
{second_cases}
  esac
  case "$before" in
{value_cases}
  esac
  if [[ "$current" == -* || ( -n "$seconds" && -z "$files" ) ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$seconds $options --help" -- "$current")
  else
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -W "$seconds" -- "$current"; compgen -f -- "$current")
  fi
}}
complete -F _outrigger outrigger
"""


def _bash_options(command: Command) -> str:
    return " ".join(name for option in _named(command) for name in option.names)


def bash(known: Sequence[Command]) -> str:
    """For bash, with bash-completion or without."""
    by_words = {each.words: each for each in known}
    firsts = []
    for first in _firsts(known):
        options = _bash_options(by_words[(first,)]) if (first,) in by_words else ""
        firsts.append(f'    {first}) options="{options}" seconds="{" ".join(_seconds(known, first))}" ;;')
    seconds = [f'    "{" ".join(each.words)}") options="{_bash_options(each)}" ;;' for each in known if each.words[1:]]
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
    cases = [f"    {names}) {answer} ;;" for answer, names in values.items() if names]
    return _BASH.format(
        made=_MADE,
        firsts=" ".join(_firsts(known)),
        first_cases="\n".join(firsts),
        second_cases="\n".join(seconds),
        value_cases="\n".join(cases),
    )


def _is_among(values: dict[str, str], name: str) -> bool:
    return any(name in names.split("|") for names in values.values())


# --- zsh --------------------------------------------------------------------------------------------------------------

_ZSH = """#compdef outrigger
{made}
_outrigger() {{
  local -a found
  if ((CURRENT == 2)); then
    found=({firsts})
    _describe command found
    return
  fi
  local first="$words[2]" second="$words[3]"
  if ((CURRENT == 3)) && [[ "$words[3]" != -* ]]; then
    case "$first" in
{second_lists}
    esac
  fi
  shift words
  ((CURRENT--))
  case "$first $second" in
{two_words}
  esac
  case "$first" in
{one_word}
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
    firsts = _firsts(known)
    lists = {first: _zsh_list(words) for first in firsts if (words := _seconds(known, first))}
    second_lists = [f"      {first}) found=({words}); _describe command found ;;" for first, words in lists.items()]
    two = [
        f"    {_zsh_quoted(' '.join(each.words))}) shift words; ((CURRENT--)); {_zsh_arguments(each)}; return ;;"
        for each in known
        if each.words[1:]
    ]
    one = [f"    {each.words[0]}) {_zsh_arguments(each)} ;;" for each in known if not each.words[1:]]
    return _ZSH.format(
        made=_MADE,
        firsts=_zsh_list(firsts),
        second_lists="\n".join(second_lists),
        two_words="\n".join(two),
        one_word="\n".join(one),
    )


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
    lines += _fish_words("__fish_use_subcommand", _firsts(known))
    for first in _firsts(known):
        seconds = _seconds(known, first)
        if seconds:
            others = " ".join(seconds)
            condition = f"'__fish_seen_subcommand_from {first}; and not __fish_seen_subcommand_from {others}'"
            lines += _fish_words(condition, seconds)
    for command in known:
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in command.words)
        lines += [_fish_option(_fish_quoted(seen), option) for option in _named(command)]
    return "\n".join(lines) + "\n"
