# SPDX-License-Identifier: Apache-2.0
"""The README's table of settings, made from the one table in inject/config.cc.

usage: python3 tests/build/settings_table.py --write    (rewrites the section in README.md)
"""

import os
import re
import sys

BEGIN = "<!-- settings: from inject/config.cc, by tests/build/settings_table.py --write -->\n"
END = "<!-- end of settings -->\n"

ROW = re.compile(r'\{"(GPUPROBE_\w+)",\s*SettingType::k(\w+),\s*AT\(\w+\),\s*([\d<>\s]+),\s*([\d<>\s]+),\s*([\d<>\s]+),'
                 r'\s*((?:"[^"]*"\s*)+)\}')


def number(text):
    """A literal, or a shift of two."""
    parts = [int(part) for part in text.split("<<")]
    return parts[0] if len(parts) == 1 else parts[0] << parts[1]


def rows(config):
    for name, kind, default, low, high, help_text in ROW.findall(config):
        words = "".join(re.findall(r'"([^"]*)"', help_text))
        if kind == "Bool":
            default_text = "on" if number(default) else "off"
            range_text = "on, off"
        elif kind == "Integer":
            default_text = str(number(default))
            range_text = f"{number(low)} to {number(high)}"
        else:
            default_text, range_text = "", "text"
        yield name, default_text, range_text, words


def table(config):
    lines = ["| variable | default | values | what |", "|---|---|---|---|"]
    for name, default, values, words in rows(config):
        words = words.replace("<", "&lt;").replace(">", "&gt;")
        lines.append(f"| `{name}` | {default} | {values} | {words} |")
    return "\n".join(lines) + "\n"


def section(readme):
    begin = readme.index(BEGIN) + len(BEGIN)
    return begin, readme.index(END, begin)


def main():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    path = os.path.join(root, "README.md")
    with open(os.path.join(root, "inject/config.cc"), encoding="utf-8") as file:
        config = file.read()
    with open(path, encoding="utf-8") as file:
        readme = file.read()
    begin, end = section(readme)
    if "--write" in sys.argv:
        with open(path, "w", encoding="utf-8") as file:
            file.write(readme[:begin] + table(config) + readme[end:])
    else:
        print(table(config), end="")


if __name__ == "__main__":
    main()
