#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Makes a copy of a library that lacks symbols, or has them with a null address.

    cupti_variant.py --from build/sim/lib/libcupti.so.13 --to DIR/libcupti.so.13 \
                     [--remove cuptiX]... [--null cuptiY]...

--remove: dlsym does not find the symbol. --null: dlsym finds it and gives a null pointer, without
an error.
Works on the dynamic symbol table of a 64-bit little-endian ELF file.
"""

import argparse
import os
import struct
import sys

_SHT_DYNSYM, _SHN_ABS = 11, 0xFFF1


def _sections(image):
    (offset,) = struct.unpack_from("<Q", image, 0x28)
    entry, count = struct.unpack_from("<HH", image, 0x3A)
    for i in range(count):
        # sh_name, sh_type, sh_flags, sh_addr, sh_offset, sh_size, sh_link
        yield struct.unpack_from("<IIQQQQI", image, offset + i * entry)


def _symbols(image):
    """(offset of the symbol table entry, offset of its name, name)"""
    sections = list(_sections(image))
    table = next(s for s in sections if s[1] == _SHT_DYNSYM)
    strings = sections[table[6]]
    for at in range(table[4], table[4] + table[5], 24):
        (name,) = struct.unpack_from("<I", image, at)
        begin = strings[4] + name
        yield at, begin, bytes(image[begin : image.index(b"\0", begin)]).decode()


def change(image, remove=(), null=()):
    """Changes the image in place; KeyError for a symbol that is not there."""
    missing = set(remove) | set(null)
    for entry, name_at, name in list(_symbols(image)):
        if name in remove:
            image[name_at : name_at + 1] = (
                b"~"  # the hash still matches, the comparison of names does not
            )
        elif name in null:
            struct.pack_into("<HQ", image, entry + 6, _SHN_ABS, 0)  # st_shndx, st_value
        missing.discard(name)
    if missing:
        raise KeyError(", ".join(sorted(missing)))


def make(source, target, remove=(), null=()):
    with open(source, "rb") as file:
        image = bytearray(file.read())
    change(image, remove, null)
    os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
    with open(target, "wb") as file:
        file.write(image)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--from", dest="source", required=True)
    parser.add_argument("--to", dest="target", required=True)
    parser.add_argument("--remove", action="append", default=[])
    parser.add_argument("--null", action="append", default=[])
    options = parser.parse_args()
    try:
        make(options.source, options.target, options.remove, options.null)
    except (OSError, KeyError) as error:
        sys.exit("cupti_variant.py: %s" % error)


if __name__ == "__main__":
    main()
