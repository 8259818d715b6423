"""``allot completion``: prints shell scripts that call ``allot __complete``."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Final

# readline replaces only the part of a word after ``=`` or ``:``, and COMP_WORDS is split there: words are
# split at blanks here. Several candidates are shown with descriptions; only their common prefix is inserted.
_BASH: Final = r"""# bash completion for allot
_allot() {
    local line=${COMP_LINE:0:COMP_POINT} words=() out=() one before directive i value wide=0
    read -ra words <<<"$line"
    [[ $line == *[[:blank:]] ]] && words+=("")
    mapfile -t out < <("${words[0]/#\~/$HOME}" __complete "${words[@]:1}" 2>/dev/null </dev/null)
    directive=${out[-1]#:}
    unset 'out[-1]'
    COMPREPLY=()
    ((directive & 20)) && compopt +o default
    ((directive & 16)) && compopt -o dirnames
    ((directive & 2)) && compopt -o nospace
    before=${words[-1]}
    [[ $before == -*=* ]] && before=${before#*=}
    before=${before%"${before##*[=:]}"}
    for one in "${out[@]%%$'\t'*}"; do
        ((${#one} > wide)) && wide=${#one}
    done
    for i in "${!out[@]}"; do
        one=${out[i]%%$'\t'*} value=${one#"$before"}
        if ((${#out[@]} > 1 && COMP_TYPE != 37 && COMP_TYPE != 42)) && [[ ${out[i]} == *$'\t'* ]]; then
            printf -v one '%-*s  (%s)' "$wide" "$one" "${out[i]#*$'\t'}"
            one=${one#"$before"} value=${one:0:${COLUMNS:-80} - 3}
        fi
        COMPREPLY+=("$value")
    done
}
complete -o default -F _allot allot
"""

_ZSH: Final = r"""#compdef allot
# zsh completion for allot
_allot() {
    local -a out described space
    local one value directive
    out=("${(@f)$("${words[1]}" __complete "${(@Q)words[2,CURRENT]}" 2>/dev/null </dev/null)}")
    directive=${out[-1]#:}
    out[-1]=()
    [[ $PREFIX == -*=* ]] && compset -P 1 '*='
    if (( ! $#out )); then
        (( directive & 4 )) && return 1
        if (( directive & 16 )); then _files -/; else _files; fi
        return
    fi
    (( directive & 2 )) && space=(-S '')
    for one in "${out[@]}"; do
        value=${one%%$'\t'*}
        described+=("${value//:/\\:}${${one#"$value"}/$'\t'/:}")
    done
    _describe -V -t values value described "${space[@]}"
}
if [[ $funcstack[1] == _allot ]]; then _allot "$@"; else compdef _allot allot; fi
"""

_FISH: Final = r"""# fish completion for allot
function __allot_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l flag (string match -r -- '^-[^=]*=' $words[-1])
    set -l word (string replace -r -- '^-[^=]*=' '' $words[-1])
    set -l out (command $words[1] __complete $words[2..-1] 2>/dev/null </dev/null)
    set -q out[1]; or return
    set -l directive (string sub -s 2 -- $out[-1])
    set -e out[-1]
    if set -q out[1]
        string replace -r -- '^' "$flag" $out
    else if test (math "bitand($directive, 16)") -ne 0
        __fish_complete_directories "$word" | string replace -r -- '^' "$flag"
    else if test (math "bitand($directive, 4)") -eq 0
        __fish_complete_path "$word" | string replace -r -- '^' "$flag"
    end
end
complete -c allot -f -a '(__allot_complete)'
"""

_SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def run(arguments: Namespace) -> int:
    """Print the script of a shell."""
    sys.stdout.write(_SCRIPTS[arguments.shell])
    return 0
