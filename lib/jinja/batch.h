/* batch - requests to render, one JSON object a line, answered one a line: how libjinja is compared with
 * Jinja2 (tests/jinja/README.md has the protocol).
 *
 *     {"id": ..., "template": "...", "templates": {...}?, "context": {...}, "options": {...}}
 *     {"id": ..., "output": "..."}   or   {"id": ..., "error": "KIND", "line": 3, "message": "..."}
 */
#pragma once

#include <stdio.h>

/* Until the end of `in`; out is flushed after each line. -1: out is closed. */
int jinja_batch(FILE *in, FILE *out);
