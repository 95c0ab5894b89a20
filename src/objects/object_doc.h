/* object_doc - documents of objects, made once and kept with them, for everybody to read.
 *
 * A write hands over the document it has built; otherwise the first reader's parse is kept. What is kept is
 * bounded: those not read for longest go first. A document is borrowed until control returns to the loop,
 * even when its object is replaced or dropped before. Nobody may change one: object_json gives a tree of
 * one's own. */
#pragma once

#include "objects/object.h"

#define OBJECT_DOCS_BYTES ((size_t)1 << 20) /* of all that are kept */

const struct json *object_doc(const struct object *object);
/* For those that go through many objects: the kept document, or one parsed in arena and not kept. */
const struct json *object_doc_once(const struct object *object, struct arena *arena);
/* The document of which `object` was just made: a copy of it is kept. */
void object_doc_keep(struct object *object, const struct json *doc);
/* A turn of the loop is over: nothing is borrowed any more. `ask` is called when there will be something to
 * do then, once a turn; NULL: nobody calls, and everything that was read stays. */
void object_docs_turn(void);
void object_docs_ask(void (*ask)(void *arg), void *arg);
void object_docs_unask(const void *arg); /* where it is still this one that is asked */
/* For object.c: its object goes. */
void object_doc_done(struct object *object);

/* ---- for tests ---- */

uint64_t object_parse_count(void); /* texts of objects that were parsed so far, but for loading */
size_t object_docs_bytes(void);    /* taken by what is kept */
/* From now on each document is held against its object's text at the end of a turn in which it was read: a
 * reader that changed one ends the process. */
void object_docs_check(void);
