#!/usr/bin/python3
"""Writes what Python's str methods know about characters as C tables, from the Unicode data of the Python that runs it
(3.11: Unicode 14):  gen_unicode.py OUT.c"""

import sys
import unicodedata

ALPHA, DECIMAL, DIGIT, NUMERIC, LOWER, UPPER, TITLE, SPACE, PRINT, CASED, IGNORABLE, IDSTART, IDCONT, LINE = (
    1 << i for i in range(14))


def final_sigma_props(c):
    """Cased and case-ignorable show only in how a sigma after or before c is lowered."""
    cased = ("A" + "\u03a3")[1:] and (c + "\u03a3").lower()[-1:] == "\u03c2"
    ignorable = ("a" + c + "\u03a3").lower()[-1:] == "\u03c2" and not cased
    return cased, ignorable


def record(cp, special):
    c = chr(cp)
    surrogate = 0xD800 <= cp <= 0xDFFF
    flags = 0
    for bit, test in ((ALPHA, c.isalpha()), (DECIMAL, c.isdecimal()), (DIGIT, c.isdigit()),
                      (NUMERIC, c.isnumeric()), (LOWER, c.islower()), (UPPER, c.isupper()),
                      (TITLE, unicodedata.category(c) == "Lt"), (SPACE, c.isspace()),
                      (PRINT, c.isprintable()), (IDSTART, c.isidentifier()),
                      (IDCONT, ("a" + c).isidentifier()), (LINE, len(("a" + c + "b").splitlines()) == 2)):
        flags |= bit if test else 0
    if not surrogate:
        cased, ignorable = final_sigma_props(c)
        flags |= (CASED if cased else 0) | (IGNORABLE if ignorable else 0)
    deltas = []
    for text in (c.upper(), c.lower(), c.title(), c.casefold()):
        if len(text) == 1:
            deltas.append(ord(text) - cp)
        else:
            special.setdefault(text, len(special))
            deltas.append(0x200000 + special[text])
    digit = unicodedata.decimal(c, 0)
    return (flags, *deltas, digit)


def main():
    special, records, index, empty = {}, {}, [], {}
    for cp in range(0x110000):
        category = unicodedata.category(chr(cp))
        rec = empty.get(category) or record(cp, special)
        if category in ("Cn", "Co", "Cs"):  # no characters, and most of all: each kind is looked at once
            empty[category] = rec
        index.append(records.setdefault(rec, len(records)))
    blocks, stage1 = {}, []
    for at in range(0, 0x110000, 128):
        block = tuple(index[at:at + 128])
        stage1.append(blocks.setdefault(block, len(blocks)))
    out = open(sys.argv[1], "w", encoding="ascii")
    print('/* Unicode %s */\n#include "jinja/unicode.h"\n' % unicodedata.unidata_version, file=out)
    print("const struct unicode_record unicode_records[] = {", file=out)
    for rec in records:
        print("    {%d, %d, {%d, %d, %d, %d}}," % (rec[0], rec[5], *rec[1:5]), file=out)
    print("};\n\nconst char *const unicode_special[] = {", file=out)
    for text in special:
        print('    "%s",' % "".join("\\x%02x" % b for b in text.encode()), file=out)
    print("};\n\nconst uint16_t unicode_stage1[] = {", file=out)
    for at in range(0, len(stage1), 24):
        print("    " + " ".join("%d," % x for x in stage1[at:at + 24]), file=out)
    print("};\n\nconst uint16_t unicode_stage2[] = {", file=out)
    for block in blocks:
        for at in range(0, 128, 32):
            print("    " + " ".join("%d," % x for x in block[at:at + 32]), file=out)
    print("};", file=out)


main()
