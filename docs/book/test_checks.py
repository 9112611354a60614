#!/usr/bin/env python3
"""The checks of the book find what they are for, in a small repository of their own."""

from __future__ import annotations

import os
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from commands import Commands  # noqa: E402
from pages import Book, dead_links, headings  # noqa: E402

HELP = """#!/bin/sh
case "$*" in
    --help) printf 'Commands:\\n  set  Set\\n  cluster  Show\\n\\nOptions:\\n  -h, --help\\n' ;;
    "set --help") printf 'Options:\\n  -p, --port <PORT>\\n' ;;
    "cluster --help") printf 'Commands:\\n  status  Show\\n\\nOptions:\\n  -h, --help\\n' ;;
    *) printf 'Options:\\n  --json\\n' ;;
esac
"""


class Checks(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        self.put("docs/book/SUMMARY.md", "# Summary\n\n- [A](../a.md)\n- [New](src/new.md)\n")
        self.put("docs/a.md", "# A\n\n## What it is\n\n[new](book/src/new.md) [code](../code/x.py) [here](#what-it-is)\n")
        self.put("docs/book/src/new.md", "# New\n\n[a](../../a.md#what-it-is)\n")
        self.put("docs/book/src/troubleshooting.md", "| it says |\n|---|\n| `the disk of ... is full` |\n")
        self.put("crates/a/src/lib.rs", 'bail!("the disk of {name} is full")')
        self.put("code/x.py", "#!/usr/bin/env python3\nprint(1)\n")
        (self.root / "docs/images").mkdir()

    def put(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def problems(self) -> list[str]:
        book = Book(self.root, "https://example.org/r")
        book.missing()
        book.links()
        book.quotes(update=False)
        book.messages()
        return [problem for problem in book.problems if "troubleshooting.md is not in" not in problem]

    def test_nothing_is_wrong(self) -> None:
        self.assertEqual(self.problems(), [])

    def test_a_page_in_no_chapter(self) -> None:
        self.put("docs/b.md", "# B\n")
        self.assertEqual(self.problems(), ["docs/b.md is not in SUMMARY.md"])

    def test_a_dead_link_and_a_dead_anchor(self) -> None:
        self.put("docs/a.md", "# A\n\n[x](x.md) [y](book/src/new.md#nothing)\n")
        self.assertEqual([problem.split(": ")[1] for problem in self.problems()], ["x.md leads nowhere", "book/src/new.md#nothing", "../../a.md#what-it-is"])

    def test_what_is_quoted_has_changed(self) -> None:
        page = self.put("docs/a.md", "# A\n\n## What it is\n\n<!-- from ../code/x.py -->\n```python\nprint(2)\n```\n")
        self.assertEqual(len(self.problems()), 1)
        Book(self.root, "").quotes(update=True)
        self.assertIn("```python\nprint(1)\n```", page.read_text())
        self.assertEqual(self.problems(), [])

    def test_a_message_that_nothing_says(self) -> None:
        self.put("crates/a/src/lib.rs", 'bail!("the disk of {name} has no room")')
        self.assertEqual(self.problems(), ["troubleshooting.md: nothing says 'is full'"])

    def test_links_in_the_book(self) -> None:
        source = self.root / "made"
        Book(self.root, "https://example.org/r").write(source)
        self.assertIn("[new](new.md) [code](https://example.org/r/blob/main/code/x.py) [here](#what-it-is)", (source / "a.md").read_text())
        self.assertIn("[a](a.md#what-it-is)", (source / "new.md").read_text())
        self.assertIn("- [New](new.md)", (source / "SUMMARY.md").read_text())

    def test_dead_links_of_the_made_book(self) -> None:
        self.put("made/a.html", '<h1 id="a">A</h1><a href="b.html#b">b</a><a href="#a">a</a>')
        self.put("made/b.html", '<a href="a.html#x">x</a><a href="c.html">c</a><a href="https://example.org">e</a>')
        self.assertEqual(
            dead_links(self.root / "made"),
            ["a.html: b.html#b: there is no such anchor", "b.html: a.html#x: there is no such anchor", "b.html: c.html leads nowhere"],
        )

    def test_commands(self) -> None:
        binary = self.put("statehold", HELP)
        binary.chmod(0o755)
        script = self.put("bench/run", "#!/bin/sh\n")
        os.chmod(script, 0o755)
        page = self.put(
            "docs/a.md",
            "`statehold status` and `statehold cluster status --json`\n\n```\nstatehold set -p 1 a b | statehold watch a\nstatehold set --prot 1\n"
            "statehold cluster statuses\nstatehold ready mqtt=1\nExecStartPost=/usr/bin/find /var/statehold -name a\n/usr/bin/statehold fetch\nbench/run\nbench/walk\n```\n\n```toml\nstatehold nonsense\n```\n",
        )
        self.assertEqual(
            Commands(binary, self.root).check(page),
            [
                f"docs/a.md: {problem}"
                for problem in [
                    "`statehold status` is no command",
                    "`statehold watch` is no command",
                    "`statehold set` has no option --prot",
                    "`statehold cluster statuses` is no command",
                    "`statehold fetch` is no command",
                    "`bench/walk` is no program of the repository",
                ]
            ],
        )

    def test_headings_as_github_makes_them(self) -> None:
        self.assertEqual(headings("# `[limits]`, and *more*\n## A\n## A\n```\n# no\n```\n"), {"limits-and-more", "a", "a-1"})


if __name__ == "__main__":
    unittest.main()
