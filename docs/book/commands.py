"""The commands that pages show, held against what `--help` of the binary and the repository know."""

from __future__ import annotations

import functools
import os
import re
import subprocess
from pathlib import Path

# What stands between two commands of a line.
BETWEEN = re.compile(r"\$\(|`|\s\|\|?\s|;|\s&&?(?:\s|$)|\s--\s")
# A command, perhaps after a prompt, a variable or a `docker exec`.
STATEHOLD = re.compile(r"^(?:\$ |\w+=\S* |docker exec \S+ |exec )?(?:/usr/bin/|target/\w+/|\./)?statehold((?:\s.*)?)$")
SCRIPT = re.compile(r"(?:^|[|;&]\s*)((?:bench|deploy|docs|examples|interop|\.ci)/[\w/.-]+)(?:\s|$)")
# Where `statehold ...` is what files begin with.
NOT_COMMANDS = ("storage.md",)
END = re.compile(r"\s(?:[|;>&<]|\d>|&&|--(?=\s)|#)|\)")


class Commands:
    """What can be asked of the binary."""

    def __init__(self, binary: Path, root: Path) -> None:
        self.binary = binary
        self.root = root

    @functools.cache
    def known(self, words: tuple[str, ...]) -> tuple[set[str], set[str]]:
        """The commands below a command, and its options."""
        said = subprocess.run([self.binary, *words, "--help"], capture_output=True, text=True, check=True).stdout
        listed = re.search(r"^Commands:\n((?:  .*\n|\n(?=  \S))+)", said, re.M)
        commands = set(re.findall(r"^  ([a-z][\w-]*)", listed[1], re.M)) if listed else set()
        return commands, set(re.findall(r"(?<![\w-])(--?[a-zA-Z][\w-]*)", said))

    def problem(self, text: str) -> str:
        """What is wrong with the arguments of `statehold`, as a page shows them; nothing if nothing is."""
        words = END.split(" " + text)[0].replace("[", " ").replace("]", " ").split()
        path: tuple[str, ...] = ()
        for word in words:
            commands, options = self.known(path)
            if word.startswith("-") and len(word) > 1 and word[1].isalpha() or word.startswith("--"):
                option = word.partition("=")[0]
                if option not in options:
                    return f"`statehold {' '.join(path)}` has no option {option}"
            elif commands and path != ("help",):
                if not all(part in commands for part in word.split("|")):
                    return "" if not word[0].isalpha() or word.isupper() else f"`statehold {' '.join([*path, word])}` is no command"
                path = (*path, word.partition("|")[0])
        return ""

    def check(self, page: Path) -> list[str]:
        problems = []
        for line in [] if page.name in NOT_COMMANDS else shown(page.read_text()):
            for part in BETWEEN.split(line):
                found = STATEHOLD.search(part.strip())
                # That line is what a server prints.
                if found and not found[1].startswith(" ready"):
                    problems.append(self.problem(found[1]))
            for script in SCRIPT.findall(line.strip()):
                path = self.root / script
                if not path.is_file() or (not path.suffix and not os.access(path, os.X_OK)):
                    problems.append(f"`{script}` is no program of the repository")
        return [f"{page.relative_to(self.root)}: {problem}" for problem in problems if problem]


def shown(text: str) -> list[str]:
    """The lines of shell that a page shows: in blocks without a language or of a shell, and `statehold ...` in running text."""
    lines, language = [], None
    for line in re.sub(r"\\\n\s*", " ", text).split("\n"):
        if line.startswith("```"):
            language = line[3:].strip() if language is None else None
        elif language in ("", "sh", "bash", "console"):
            # A synopsis goes on in lines that are indented.
            if re.match(r"\s+\[?--", line) and lines:
                lines[-1] += " " + line.strip()
            else:
                lines.append(line)
        elif language is None:
            lines += [code for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", line) if re.match(r"statehold |(?:bench|deploy|docs|examples|interop)/\w+(?: |$)", code)]
    return lines
