#!/usr/bin/env python3
"""Prepares headers and documents for Doxygen.

usage: docs_filter.py FOLDER FILE...      in the root of the repository: writes FOLDER/FILE ...

- The head comment of a header becomes the comment of the class that it names first, or else of the
  file. Comments of the C header become Doxygen's. Indented lines become code.
- Documents: a page and each of its headings get a name, and links lead to those names. Links to
  what the site does not have become plain text.
- Manual pages, as `mandoc -T markdown` writes them: their sections go below the title that
  scripts/docs has written, and references to other pages become links.
"""

import pathlib
import re
import sys

from check_tidy import slug

MANUAL = "build/docs/input/man/"
PAGES = re.compile(rf"^(docs/.*|{MANUAL}.*|[A-Z_]+|bench/README|tests/model/README)\.md$")
CODE_SPAN = re.compile(r"(`[^`]*`)")
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
FENCED = re.compile(r"(^ *```.*?^ *```$)", re.M | re.S)
LONG_SPAN = re.compile(r"`[^`\n]+(?:\n(?! *\n)[^`\n]+)*`")
LONG_LINK = re.compile(r"\[([^\]\n]*)\n *([^\]\n]*)\]\(")
TEMPLATE = re.compile(r"[\w:]+<[^<>`]+>(?:::\w+)*")


def page_name(path):
    return re.sub(r"\W", "_", path.removesuffix(".md")).lower()


def outside_code(text, change):
    """Applies `change` to the text outside of code spans."""
    parts = CODE_SPAN.split(text)
    return "".join(part if at % 2 else change(part) for at, part in enumerate(parts))


# -- headers --------------------------------------------------------------------------------------

def escaped(text):
    """Text of a comment, as Doxygen shows it unchanged."""
    text = outside_code(text, lambda part: TEMPLATE.sub(r"`\g<0>`", part))
    return outside_code(text, lambda part: re.sub(r"[\\@%#<>]", r"\\\g<0>", part))


def comment_line(text):
    """A line of a comment: code where it is indented."""
    if not text.strip():
        return "///"
    if text.startswith("  "):
        return "///     " + text
    return "/// " + escaped(text.strip())


def head_comment(lines, rest):
    title = re.match(r"(\w+)(?:<\w+>)?: ", lines[0]) if lines else None
    kind = title and re.search(rf"^(class|struct)\b[^;]*\b{title.group(1)}\b[^;]*{{", rest, re.M)
    if kind:
        where = f"/// @{kind.group(1)} baton::{title.group(1)}"
    else:
        where = "/// @file"
    return [where, "///", *map(comment_line, lines)]


def cpp_header(text):
    # Everything behind the last namespace is for the compiler, and so are friends.
    text = text[:text.rindex("}  // namespace")] + "}" if "}  // namespace" in text else text
    lines = re.sub(r"^ *friend [^{};]*;\n", "", text, flags=re.M).split("\n")
    count = next(i for i, line in enumerate(lines) if not line.startswith("//"))
    head = [line[2:].removeprefix(" ") if not line.startswith("//   ") else line[2:]
            for line in lines[:count]]
    rest = lines[count:]
    result = head_comment(head, "\n".join(rest))
    for line in rest:
        comment = re.match(r"^(.*?)(///<?)(.*)$", line)
        if not comment:
            result.append(line)
        elif comment.group(1).strip():
            code, mark, text = comment.groups()
            result.append(f"{code}{mark} {escaped(text.strip())}")
        else:
            result.append(comment.group(1) + comment_line(comment.group(3)))
    return "\n".join(result)


def c_header(text):
    """/* */ becomes Doxygen's form; the rulers between sections stay. A function behind another one
    shares the comment of that."""
    text = text.replace("/* baton.h:", "/** @file\n * baton.h:", 1)
    text = re.sub(r"^(BATON_API [^;]*?\b(\w+)\([^;]*;)\n(?=BATON_API)",
                  r"\1\n/* See \2(). */\n", text, flags=re.M)
    result, in_head = [], True
    for line in text.split("\n"):
        if in_head and line.startswith(" *   "):
            line = " *       " + line[5:]
        in_head = in_head and not line.startswith(" */")
        line = re.sub(r"^(\s*)/\* (?!---)", r"\1/** ", line)
        result.append(re.sub(r"(?<=\S)(\s+)/\* ", r"\1/**< ", line))
    return "\n".join(result)


# -- documents ------------------------------------------------------------------------------------

def target_name(target, path):
    """The name of a link's page or heading; None if the site does not have it."""
    file, _, heading = target.partition("#")
    if file:
        folder = pathlib.PurePosixPath(path).parent
        parts = []
        for part in (folder / file).parts:
            parts = parts[:-1] if part == ".." else [*parts, part]
        path = "/".join(parts)
        if path == "docs/man":
            return page_name(MANUAL + "index.md")
    if not PAGES.match(path):
        return None
    return page_name(path) + ("__" + heading if heading else "")


def understood(text):
    """Rewrites links over two lines and quotes in code spans, which Doxygen 1.9 misunderstands."""
    def span(match):
        code = match.group().replace("\n", " ")
        return f"`{code}`" if "'" in code else match.group()

    parts = FENCED.split(text)
    return "".join(part if at % 2 else LONG_LINK.sub(r"[\1 \2](", LONG_SPAN.sub(span, part))
                   for at, part in enumerate(parts))


def document(text, path):
    def link(match):
        image, label, target = match.groups()
        if "://" in target:
            return match.group()
        if image:
            return f"![{label}]({pathlib.PurePosixPath(target).name})"
        name = target_name(target, path)
        # Doxygen shows the marks of code in the text of a reference.
        return f"[{label.replace('`', '')}](@ref {name})" if name else label

    result, in_code, titled = [], False, False
    for line in understood(text).split("\n"):
        fence = line.lstrip().startswith("```")
        in_code ^= fence
        heading = re.match(r"^(#+) (.*)$", line) if not in_code and not fence else None
        if heading:
            name = page_name(path)
            if titled:
                name += "__" + slug(heading.group(2))
            titled = True
            result.append(f"{heading.group(1)} {heading.group(2).replace('`', '')} {{#{name}}}")
        elif in_code or fence:
            result.append(line)
        else:
            result.append(LINK.sub(link, line))
    return "\n".join(result)


def manual(text, path):
    pages = {file.stem for file in pathlib.Path(path).parent.glob("*.md")}

    def link(match):
        name, section = match.group(1).replace("\\", ""), match.group(2)
        page = f"{name}_{section}"
        return f"[{name}({section})]({page}.md)" if page in pages else match.group()

    title, _, *lines = text.rstrip().split("\n")  # without mandoc's own title ...
    body = "\n".join(lines[:-1])  # ... and the system and the date
    body = re.sub(r"^#", "##", body, flags=re.M)
    body = re.sub(r"\*\*#include &lt;(\S+?)>\*\*", r"`#include <\1>`", body)
    body = re.sub(r"(?<!\\)\*(\\\*[\w\\]+)\*", r"<em>\1</em>", body)  # *pointer
    return title + "\n" + re.sub(r"([\w\\]+)\((\d)\)", link, body)


def filtered(path):
    text = pathlib.Path(path).read_text(encoding="utf-8")
    if path.endswith(".hpp"):
        return cpp_header(text)
    if path.endswith(".h"):
        return c_header(text)
    if path.startswith(MANUAL) and not path.endswith("/index.md"):
        text = manual(text, path)
    return document(text, path)


def main(folder, files):
    for file in files:
        path = folder / file.removeprefix(f"{folder}/")
        text = filtered(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2:])
