#!/usr/bin/env python3
"""Checks what Doxygen has made. Prints every fault.

usage: check_site.py build/docs

- every public declaration has a comment; overloads of one name may share one
- every link, and every name within a page that a link asks for, exists
- no page shows markup: Doxygen has understood all of it
"""

import html.parser
import pathlib
import re
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree

# The language or its library documents them.
OBVIOUS = {"operator=", "operator==", "operator!=", "operator|", "operator|=", "operator&",
           "operator-", "operator*", "operator->", "operator bool", "operator co_await",
           "await_ready", "await_suspend", "await_resume", "promise_type", "value_type",
           "error_type", "swap", "keeps_task_context", "reserved"}


def commented(node):
    return any("".join(part.itertext()).strip()
               for name in ("briefdescription", "detaileddescription", "inbodydescription")
               for part in node.findall(name))


def uncommented(folder):
    """Public declarations without a comment, in order."""
    for file in sorted(folder.glob("*.xml")):
        for compound in ElementTree.parse(file).getroot().findall("compounddef"):
            kind, name = compound.get("kind"), compound.findtext("compoundname")
            if kind not in ("class", "struct", "namespace", "file") or "detail" in name.split("::"):
                continue
            if kind == "file" and not name.endswith(".h"):
                continue  # what is in a file of C++ is in a namespace or a class
            if compound.get("prot") == "private":
                continue
            if kind in ("class", "struct") and not commented(compound):
                yield name
            members = {}
            for member in compound.iter("memberdef"):
                if member.get("prot") == "public":
                    members.setdefault(member.findtext("name"), []).append(member)
            for member, overloads in members.items():
                own = member in (name.rsplit("::", 1)[-1], "~" + name.rsplit("::", 1)[-1])
                if member in OBVIOUS or own and kind != "namespace" or member[0] == "@":
                    continue
                if member.endswith("_"):
                    continue  # in a union without a name, whose members Doxygen calls public
                if overloads[0].get("kind") in ("friend", "define"):
                    continue
                if not any(map(commented, overloads)):
                    yield f"{name}::{member}" if kind != "file" else member


class Page(html.parser.HTMLParser):

    def __init__(self, path):
        super().__init__()
        self.names, self.links, self.text = set(), [], ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if value and (name == "id" or name == "name" and tag == "a"):
                self.names.add(value)
            elif value and name in ("href", "src"):
                self.links.append(value)

    def handle_data(self, data):
        self.text += data


def broken_links(folder):
    pages = {path.name: Page(path) for path in sorted(folder.glob("*.html"))}
    for name, page in pages.items():
        for link in dict.fromkeys(page.links):
            url = urllib.parse.urlsplit(link)
            if url.scheme or url.netloc or link.startswith("javascript:"):
                continue
            if link == "#nested-classes":
                continue  # of a class that shows none: Doxygen's
            target = url.path or name
            if target in pages:
                if url.fragment and url.fragment not in pages[target].names:
                    yield f"{name}: link to {link}: no such place in that page"
            elif not (folder / target).exists():
                yield f"{name}: link to {link}: no such file"


def shown_markup(folder):
    for path in sorted(folder.glob("*.html")):
        found = re.search(r"@(ref|section) \w+|markdownTable", Page(path).text)
        if found:
            yield f"{path.name}: shows {found.group()!r}: the text before it is misunderstood"


def main(folder):
    faults = [f"{name} has no comment" for name in uncommented(folder / "xml")]
    faults += broken_links(folder / "html")
    faults += shown_markup(folder / "html")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
