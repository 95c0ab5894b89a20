/* Kept documents are in one list, the one read last first. A document that was read in this turn may still be
 * in somebody's hands, so it is neither dropped nor freed before the turn is over; when its object goes
 * earlier, it waits among the orphans. All of it is one thread's, as objects are. */
#include "objects/object_doc.h"

#include "base/bug.h"
#include "base/mem.h"
#include "objects/kind.h"

#include <stdlib.h>

struct object_doc {
    const struct object *object; /* NULL: gone */
    struct object_doc *prev, *next;
    struct arena arena;
    struct json *doc;
    uint64_t turn; /* in which it was last read */
};

static struct {
    struct object_doc *first, *last;
    struct object_doc *orphans;
    size_t bytes;
    uint64_t turn;
    uint64_t parses;
    bool check;
    bool asked; /* for a call at the end of this turn */
    void (*ask)(void *arg);
    void *arg;
} docs = {.turn = 1};

/* ---- the list ---- */

static void unlink_doc(struct object_doc *kept)
{
    *(kept->prev ? &kept->prev->next : &docs.first) = kept->next;
    *(kept->next ? &kept->next->prev : &docs.last) = kept->prev;
}

static void link_first(struct object_doc *kept)
{
    kept->prev = NULL;
    kept->next = docs.first;
    *(docs.first ? &docs.first->prev : &docs.last) = kept;
    docs.first = kept;
}

static void free_doc(struct object_doc *kept)
{
    arena_done(&kept->arena);
    free(kept);
}

static struct object_doc **slot_of(const struct object *object)
{
    return &((struct object *)(uintptr_t)object)->doc;
}

/* Its object holds it no more. */
static void drop(struct object_doc *kept)
{
    unlink_doc(kept);
    docs.bytes -= kept->arena.total;
    *slot_of(kept->object) = NULL;
    kept->object = NULL;
    if (kept->turn != docs.turn) {
        free_doc(kept);
        return;
    }
    kept->next = docs.orphans;
    docs.orphans = kept;
}

static void trim(void)
{
    while (docs.bytes > OBJECT_DOCS_BYTES && docs.last->turn != docs.turn)
        drop(docs.last);
}

static struct object_doc *add(const struct object *object, struct object_doc *kept)
{
    kept->object = object;
    docs.bytes += kept->arena.total;
    *slot_of(object) = kept;
    link_first(kept);
    trim();
    return kept;
}

/* ---- reading ---- */

static struct json *parse(const struct object *object, struct arena *arena)
{
    char *copy = arena_strndup(arena, object->text, object->text_len);
    struct json *doc;

    docs.parses++;
    /* A text that went bad in the database reads as nothing at all. */
    if (json_parse_in_place(copy, object->text_len, arena, &doc, NULL) < 0)
        return json_new_object(arena);
    return doc;
}

struct json *object_json(const struct object *object, struct arena *arena)
{
    return object->doc ? json_copy(arena, object->doc->doc) : parse(object, arena);
}

static void ask_for_turn(void)
{
    if (docs.asked || !docs.ask)
        return;
    docs.asked = true;
    docs.ask(docs.arg);
}

const struct json *object_doc(const struct object *object)
{
    struct object_doc *kept = object->doc;

    ask_for_turn();
    if (!kept) {
        kept = NEW(struct object_doc);
        kept->turn = docs.turn; /* before it is added, which may drop others */
        kept->doc = parse(object, &kept->arena);
        return add(object, kept)->doc;
    }
    kept->turn = docs.turn;
    if (docs.first != kept) {
        unlink_doc(kept);
        link_first(kept);
    }
    return kept->doc;
}

const struct json *object_doc_once(const struct object *object, struct arena *arena)
{
    return object->doc ? object_doc(object) : parse(object, arena);
}

/* ---- writing ---- */

void object_doc_keep(struct object *object, const struct json *doc)
{
    struct object_doc *kept = NEW(struct object_doc);
    struct json *copy;

    arena_expect(&kept->arena, object->text_len * 3);
    copy = json_new_object(&kept->arena);
    json_reserve(&kept->arena, copy, json_len(doc) + 2);
    json_set_string(&kept->arena, copy, "kind", object->kind->name);
    json_set_string(&kept->arena, copy, "apiVersion", kind_api_version(object->kind));
    json_set(&kept->arena, copy, "metadata", *json_copy(&kept->arena, json_get(doc, "metadata")));
    JSON_EACH_MEMBER(doc, it)
        if (!json_get(copy, it->key))
            json_set_str(&kept->arena, copy, (struct str){it->key, it->key_len},
                         *json_copy(&kept->arena, &it->value));
    kept->doc = copy;
    add(object, kept);
}

void object_doc_done(struct object *object)
{
    if (object->doc)
        drop(object->doc);
}

/* ---- turns ---- */

static void check(const struct object_doc *kept)
{
    CLEANUP(buf_done) struct buf text = {0};

    json_write(&text, kept->doc);
    if (str_eq(buf_view(&text), (struct str){kept->object->text, kept->object->text_len}))
        return;
    bug("a reader changed the document of %s '%s/%s': %s", kept->object->kind->name, kept->object->ns,
        kept->object->name, text.data);
}

void object_docs_turn(void)
{
    for (struct object_doc *it = docs.first; docs.check && it; it = it->next)
        if (it->turn == docs.turn)
            check(it);
    while (docs.orphans) {
        struct object_doc *orphan = docs.orphans;

        docs.orphans = orphan->next;
        free_doc(orphan);
    }
    docs.turn++;
    docs.asked = false;
    trim();
}

void object_docs_ask(void (*ask)(void *arg), void *arg)
{
    docs.ask = ask;
    docs.arg = arg;
    docs.asked = false;
}

void object_docs_unask(const void *arg)
{
    if (docs.arg == arg)
        object_docs_ask(NULL, NULL);
}

uint64_t object_parse_count(void)
{
    return docs.parses;
}

size_t object_docs_bytes(void)
{
    return docs.bytes;
}

void object_docs_check(void)
{
    docs.check = true;
}
