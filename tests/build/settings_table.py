# SPDX-License-Identifier: Apache-2.0
"""The README's table of settings, made from the one table in inject/config.cc.

usage: python3 tests/build/settings_table.py --write    (rewrites the section in README.md)
"""

import re

import readme_section

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


if __name__ == "__main__":
    readme_section.main(BEGIN, END, "inject/config.cc", table)
