#!/usr/bin/python3
"""Writes entity_tables.c, HTML's named characters:  python3 gen_entities.py > entity_tables.c"""

import html.entities

print("/* entity_tables.c - made by gen_entities.py. */")
print('#include "jinja/textwrap.h"\n\n/* clang-format off */\nconst struct html_entity html_entities[] = {')
for name in sorted(html.entities.html5, key=lambda n: n.encode()):
    print('    {"%s", "%s"},' % (name, "".join("\\x%02x" % b for b in html.entities.html5[name].encode())))
print("};\n/* clang-format on */\nconst size_t html_entities_len = sizeof(html_entities) / sizeof(html_entities[0]);")
