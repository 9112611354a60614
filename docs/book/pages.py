"""The pages of the book: which there are, what they link to, and what they look like in the book.

The pages stay where they are, so that they can be read in the repository; in the book links between them lead to
chapters, and links to anything else of the repository to the repository. What is wrong is collected in `problems`, never raised.
"""

from __future__ import annotations

import html.parser
import os
import re
from pathlib import Path

LINK = re.compile(r"(!?\[(?:[^\]\[]|\[[^\]]*\])*\])\(([^()\s]+)\)")
FENCE = re.compile(r"^(```+|~~~+)(.*)$")
QUOTED = re.compile(r"^<!-- from (\S+) -->$")
LANGUAGES = {".rs": "rust", ".py": "python", ".js": "js", ".go": "go", ".cs": "csharp", ".toml": "toml", ".sh": "sh"}


class Book:
    """The pages that SUMMARY.md lists. `root` is the repository, `url` where it can be read."""

    def __init__(self, root: Path, url: str) -> None:
        self.root = root
        self.url = url
        self.summary = root / "docs/book/SUMMARY.md"
        self.problems: list[str] = []
        # By path in the repository: by name in the book.
        self.chapters: dict[Path, str] = {}
        for _, target in LINK.findall(self.summary.read_text()):
            page = self.resolve(self.summary, target)
            if not page.is_file():
                self.problems.append(f"SUMMARY.md: {target} does not exist")
            elif page in self.chapters:
                self.problems.append(f"SUMMARY.md: {target} stands twice")
            else:
                self.chapters[page] = self.name(page)
        # The chapters below the last one of SUMMARY.md, which is their list.
        self.dated = sorted((root / "docs/decisions").glob("2*.md"))
        self.chapters |= {page: self.name(page) for page in self.dated}
        names = list(self.chapters.values())
        self.problems += [f"SUMMARY.md: two chapters would be {name}" for name in set(names) if names.count(name) > 1]

    @staticmethod
    def resolve(page: Path, target: str) -> Path:
        return Path(os.path.normpath(page.parent / target.partition("#")[0]))

    def name(self, page: Path) -> str:
        """Pages of the repository's top and of the book are beside those of docs/, as none has the name of another."""
        for directory in ("docs/book/src", "docs", "."):
            if page.is_relative_to(self.root / directory):
                return str(page.relative_to(self.root / directory)).replace("README.md", "index.md")
        return page.name

    def missing(self) -> None:
        """Every page of docs/ is a chapter."""
        for page in sorted((self.root / "docs").rglob("*.md")):
            if page != self.summary and page not in self.chapters:
                self.problems.append(f"{page.relative_to(self.root)} is not in SUMMARY.md")

    def links(self) -> None:
        """Every link leads to something that is there, in the repository as well as in the book."""
        anchors: dict[Path, set[str]] = {}
        for page in self.chapters:
            for target in (target for _, target in LINK.findall(without_code(page.read_text()))):
                if "://" in target or target.startswith("mailto:"):
                    continue
                to = page if target.startswith("#") else self.resolve(page, target)
                where = f"{page.relative_to(self.root)}: {target}"
                if not to.exists() or not to.is_relative_to(self.root):
                    self.problems.append(f"{where} leads nowhere")
                elif "#" in target and to.suffix == ".md":
                    if to not in anchors:
                        anchors[to] = headings(to.read_text())
                    if target.partition("#")[2] not in anchors[to]:
                        self.problems.append(f"{where}: there is no such heading")

    def quotes(self, update: bool) -> None:
        """A block of code after `<!-- from PATH -->` is what the file at PATH says, without its first comment line `#!`."""
        for page in self.chapters:
            if not page.is_relative_to(self.root / "docs"):
                continue
            lines, at = page.read_text().split("\n"), 0
            while at < len(lines):
                quoted = QUOTED.match(lines[at])
                at += 1
                if not quoted:
                    continue
                source = self.resolve(page, quoted[1])
                if not source.is_file():
                    self.problems.append(f"{page.relative_to(self.root)}: {quoted[1]} does not exist")
                    continue
                text = source.read_text().rstrip("\n").split("\n")
                wanted = ["```" + LANGUAGES.get(source.suffix, ""), *(text[1:] if text[0].startswith("#!") else text), "```"]
                end = at
                if at < len(lines) and lines[at].startswith("```"):
                    end = next((n for n in range(at + 1, len(lines)) if lines[n] == "```"), len(lines) - 1) + 1
                if lines[at:end] != wanted:
                    if not update:
                        self.problems.append(f"{page.relative_to(self.root)}: is not what {quoted[1]} says: docs/book/build --update")
                    lines[at:end] = wanted
            if update:
                page.write_text("\n".join(lines))

    def messages(self) -> None:
        """What programs say, in the first column of the tables that begin with `it says`, is in the source."""
        page = self.root / "docs/book/src/troubleshooting.md"
        source = "\n".join(file.read_text() for file in sorted((self.root / "crates").glob("*/src/**/*.rs")))
        source = re.sub(r"\\\n\s*", "", source)
        table = ""
        for line in page.read_text().split("\n"):
            table = line if line.startswith("|") and not table else table if line.startswith("|") else ""
            if not table.startswith("| it says"):
                continue
            said = re.match(r"\| `([^`]+)`", line)
            for part in said[1].split("...") if said else []:
                if len(part.strip(" ,:()")) > 3 and part.strip() not in source:
                    self.problems.append(f"troubleshooting.md: nothing says {part.strip()!r}")

    def write(self, source: Path) -> None:
        """The pages as mdBook reads them, below `source`."""
        for page, name in self.chapters.items():
            to = source / name
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_text(outside_code(page.read_text(), lambda text, page=page, name=name: self.rewrite(page, name, text)))
        (source / "SUMMARY.md").write_text(self.rewrite(self.summary, "SUMMARY.md", self.summary.read_text() + self.decisions()))
        for image in (self.root / "docs/images").iterdir():
            (source / "images").mkdir(exist_ok=True)
            (source / "images" / image.name).write_bytes(image.read_bytes())

    def decisions(self) -> str:
        titles = [page.read_text().partition("\n")[0].lstrip("# ") for page in self.dated]
        lines = [f"  - [{title}]({os.path.relpath(page, self.summary.parent)})" for title, page in zip(titles, self.dated, strict=True)]
        return "\n".join(lines) + "\n"

    def rewrite(self, page: Path, name: str, text: str) -> str:
        def link(match: re.Match[str]) -> str:
            shown, target = match.groups()
            if "://" in target or target.startswith(("#", "mailto:")):
                return match[0]
            to = self.resolve(page, target)
            anchor = "#" + target.partition("#")[2] if "#" in target else ""
            if to in self.chapters or to.is_relative_to(self.root / "docs/images"):
                return f"{shown}({os.path.relpath(self.chapters.get(to, self.name(to)), Path(name).parent)}{anchor})"
            kind = "tree" if to.is_dir() else "blob"
            return f"{shown}({self.url}/{kind}/main/{to.relative_to(self.root)}{anchor})"

        return LINK.sub(link, text)


def outside_code(text: str, change) -> str:
    """The text with everything changed but blocks of code."""
    parts, plain, fence = [], [], ""
    for line in text.split("\n"):
        mark = FENCE.match(line)
        if fence:
            parts.append(line)
            if mark and mark[1] == fence and not mark[2]:
                fence = ""
        elif mark:
            parts += [change("\n".join(plain))] if plain else []
            parts.append(line)
            plain, fence = [], mark[1]
        else:
            plain.append(line)
    return "\n".join(parts + ([change("\n".join(plain))] if plain else []))


def without_code(text: str) -> str:
    kept: list[str] = []
    outside_code(text, lambda part: kept.append(part) or part)
    return re.sub(r"(`+)[^`].*?\1", lambda code: "" if "](" in code[0] else code[0], "\n".join(kept))


def headings(text: str) -> set[str]:
    """The anchors of a page, as GitHub makes them."""
    found: dict[str, int] = {}
    anchors = set(re.findall(r'<a (?:id|name)="([^"]+)"', text))
    for title in re.findall(r"^#{1,6} +(.*?) *$", without_code(text), re.M):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "").replace("*", "")
        slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        anchors.add(f"{slug}-{found[slug]}" if slug in found else slug)
        found[slug] = found.get(slug, 0) + 1
    return anchors


class Html(html.parser.HTMLParser):
    """The links and the anchors of a page that mdBook has made."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            if value and ((tag == "a" and name == "href") or (tag == "img" and name == "src")):
                self.links.append(value)


def dead_links(made: Path) -> list[str]:
    """Links between the pages below `made` that lead nowhere."""
    # 404.html stands for any address, and print.html has all pages in one.
    pages = {page: Html(page.read_text()) for page in made.rglob("*.html") if page.name not in ("404.html", "print.html", "toc.html")}
    problems = []
    for page, parsed in pages.items():
        for link in parsed.links:
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            to = Path(os.path.normpath(page.parent / path)) if path else page
            if not to.exists():
                problems.append(f"{page.relative_to(made)}: {link} leads nowhere")
            elif anchor and to in pages and anchor not in pages[to].anchors:
                problems.append(f"{page.relative_to(made)}: {link}: there is no such anchor")
    return sorted(set(problems))
