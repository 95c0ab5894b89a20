#!/usr/bin/python3
"""Writes HTML's named characters as a C table:  gen_entities.py OUT.c"""

import html.entities
import sys

with open(sys.argv[1], "w", encoding="ascii") as out:
    print('#include "jinja/textwrap.h"\n\nconst struct html_entity html_entities[] = {', file=out)
    for name in sorted(html.entities.html5, key=lambda n: n.encode()):
        print('    {"%s", "%s"},' % (name, "".join("\\x%02x" % b for b in html.entities.html5[name].encode())), file=out)
    print("};\nconst size_t html_entities_len = sizeof(html_entities) / sizeof(html_entities[0]);", file=out)
