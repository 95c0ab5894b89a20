/* Lists and the deletion of what they show. Pages are read from the newest state; all pages of a list
 * carry the revision of the first, so that a watch from there tells of everything that changed between. */
#include "api/kube/kube.h"
#include "base/clock.h"
#include "base/vec.h"
#include "base/yaml.h"
#include "loop/loop.h"
#include "objects/table.h"

#define DELETE_NSEC (4 * NSEC_PER_MSEC) /* of one turn */

int list_selector(struct call *call, const struct route *route, struct selector **ret)
{
    struct err err = {0};

    if (selector_parse(route->kind, query_string(call, "labelSelector"), query_string(call, "fieldSelector"),
                       call->arena, ret, &err) < 0)
        return failure_bad_request(&call->failure, call->arena, "%s", err.msg);
    return 0;
}

struct page {
    VEC(const struct object *) objects;
    int64_t revision;
    const char *more;  /* the continue token, NULL on the last page */
    int64_t remaining; /* -1: not known */
    size_t text_bytes;
};

static char *continue_token(struct call *call, int64_t revision, const struct object *last)
{
    CLEANUP(buf_done) struct buf token = {0};
    struct json *doc = json_new_object(call->arena);
    CLEANUP(buf_done) struct buf text = {0};

    json_set_int(call->arena, doc, "rv", revision);
    json_set_string(call->arena, doc, "ns", last->ns);
    json_set_string(call->arena, doc, "name", last->name);
    json_write(&text, doc);
    buf_base64(&token, buf_view(&text));
    return arena_strndup(call->arena, token.data, token.len);
}

/* Where the page starts. */
static int continue_from(struct call *call, const char *token, struct store_slice slice, size_t *ret,
                         int64_t *revision)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct json *doc;

    if (!buf_base64_decode(&text, str_from(token)) ||
        json_parse(buf_view(&text), call->arena, &doc, NULL, NULL) < 0 || !json_get_string(doc, "name") ||
        !json_get_string(doc, "ns"))
        return failure_bad_request(
            &call->failure, call->arena,
            "invalid continue token: continue key is not valid: it is no token of this server");
    *revision = json_int(json_get(doc, "rv"), 0);
    if (*revision < store_oldest(call->store))
        return failure_set(
            &call->failure, call->arena, 410, "Expired",
            "The provided continue parameter is too old to display a consistent list result. You can "
            "start a new list without the continue parameter.");
    *ret = store_slice_after(slice, json_get_string(doc, "ns"), json_get_string(doc, "name"));
    return 0;
}

static int check_number(struct call *call, const char *name, int64_t *ret)
{
    const char *text = query_string(call, name);

    *ret = 0;
    if (*text && !str_to_int(str_from(text), ret))
        return failure_bad_request(&call->failure, call->arena,
                                   "strconv.ParseInt: parsing \"%s\": invalid syntax", text);
    return 0;
}

static int check_match(struct call *call)
{
    static const char *const choices[] = {"Exact", "NotOlderThan", "", NULL};
    const char *match = query_string(call, "resourceVersionMatch"),
               *version = query_string(call, "resourceVersion");
    struct field_errors errors = {.arena = call->arena};

    if (!*match)
        return 0;
    if (!*version)
        field_forbidden(&errors, "resourceVersionMatch", "%s",
                        "resourceVersionMatch is forbidden unless resourceVersion is provided");
    else if (!streq(match, "Exact") && !streq(match, "NotOlderThan"))
        field_unsupported(&errors, "resourceVersionMatch", json_new_string(call->arena, match), choices);
    else if (streq(match, "Exact") && streq(version, "0"))
        field_forbidden(&errors, "resourceVersionMatch", "%s",
                        "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
    return field_errors_finish(&errors, &call->failure, "meta.k8s.io", "ListOptions", "");
}

/* resourceVersion of a list: the newest state answers every one that is not in the future. */
static int check_revision(struct call *call)
{
    const char *text = query_string(call, "resourceVersion");
    int64_t revision;

    if (!*text)
        return 0;
    if (!str_to_int(str_from(text), &revision) || revision < 0)
        return failure_bad_request(
            &call->failure, call->arena,
            "invalid resource version: resourceVersion: Invalid value: \"%s\": strconv.ParseUint: parsing "
            "\"%s\": invalid syntax",
            text, text);
    return revision > store_revision(call->store) ? revision_too_large(call, revision) : 0;
}

/* durable: of the durable state, else of the newest. */
static int collect(struct call *call, const struct route *route, bool durable, struct page *page)
{
    const char *ns = *route->ns ? route->ns : NULL;
    struct store_slice slice = durable ? store_list_durable(call->store, route->kind->id, ns, call->arena)
                                       : store_list(call->store, route->kind->id, ns);
    const char *token = query_string(call, "continue");
    struct selector *selector;
    int64_t limit, timeout;
    size_t at = 0;

    page->revision = durable ? store_durable_revision(call->store) : store_revision(call->store);
    page->remaining = -1;
    if (check_number(call, "limit", &limit) < 0 || check_number(call, "timeoutSeconds", &timeout) < 0 ||
        check_match(call) < 0 || list_selector(call, route, &selector) < 0 || check_revision(call) < 0)
        return -1;
    if (*token && *query_string(call, "resourceVersion") &&
        !streq(query_string(call, "resourceVersion"), "0"))
        return failure_bad_request(&call->failure, call->arena,
                                   "specifying resource version is not allowed when using continue");
    if (*token && continue_from(call, token, slice, &at, &page->revision) < 0)
        return -1;
    for (; at < slice.len; at++) {
        const struct object *object = slice.v[at];

        if (!selector_matches(selector, object) || !access_shows(call->registry, &call->who, object))
            continue;
        if (limit > 0 && page->objects.len == (size_t)limit) {
            page->more = continue_token(call, page->revision, page->objects.v[page->objects.len - 1]);
            if (!*query_string(call, "labelSelector") && !*query_string(call, "fieldSelector"))
                page->remaining = (int64_t)(slice.len - at);
            break;
        }
        vec_push(&page->objects, object);
        page->text_bytes += object->text_len;
    }
    return 0;
}

static char *list_metadata(struct call *call, const struct page *page)
{
    CLEANUP(buf_done) struct buf text = {0};

    buf_printf(&text, "{\"resourceVersion\":\"%lld\"", (long long)page->revision);
    if (page->more)
        buf_printf(&text, ",\"continue\":\"%s\"", page->more);
    if (page->remaining >= 0)
        buf_printf(&text, ",\"remainingItemCount\":%lld", (long long)page->remaining);
    buf_putc(&text, '}');
    return arena_strndup(call->arena, text.data, text.len);
}

static void write_table(struct call *call, const struct route *route, const struct page *page,
                        struct buf *body)
{
    enum table_include what = TABLE_METADATA;

    table_include_of(call, FORM_JSON, &what);
    buf_reserve(body, 4096 + page->objects.len * 512);
    table_begin(body, route->kind, str_from(list_metadata(call, page)), true);
    for (size_t i = 0; i < page->objects.len; i++) {
        if (i)
            buf_putc(body, ',');
        table_row(body, page->objects.v[i], what, call->now);
    }
    table_end(body);
}

static void write_list(struct call *call, const struct route *route, const struct page *page,
                       struct buf *body)
{
    buf_reserve(body, 4096 + page->text_bytes + page->objects.len);
    buf_printf(body, "{\"kind\":\"%sList\",\"apiVersion\":\"%s\",\"metadata\":%s,\"items\":[",
               route->kind->name, kind_api_version(route->kind), list_metadata(call, page));
    for (size_t i = 0; i < page->objects.len; i++) {
        const struct object *object = page->objects.v[i];

        buf_puts(body, i ? ",{" : "{");
        buf_add(body, object->text + object->body_at, object->text_len - object->body_at);
    }
    buf_puts(body, "]}\n");
}

static void write_partial_list(struct call *call, const struct page *page, struct buf *body)
{
    buf_printf(body,
               "{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/"
               "v1\",\"metadata\":%s,\"items\":[",
               list_metadata(call, page));
    for (size_t i = 0; i < page->objects.len; i++) {
        const struct object *object = page->objects.v[i];

        buf_printf(body,
                   "%s{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":",
                   i ? "," : "");
        buf_add(body, object->text + object->meta_at, object->meta_len);
        buf_putc(body, '}');
    }
    buf_puts(body, "]}\n");
}

/* YAML, and JSON for people: by way of the tree. */
static void rewrite(struct call *call, enum form form, struct buf *body)
{
    struct buf text = {0};
    struct json *doc;

    if (json_parse(buf_view(body), call->arena, &doc, NULL, NULL) < 0)
        return;
    if (form == FORM_YAML)
        call_write_yaml(&text, doc);
    else
        json_write_pretty(&text, doc, 2);
    buf_done(body);
    *body = text;
}

static void reply_page(struct call *call, const struct route *route, const struct page *page, enum form form)
{
    struct buf body = {0};

    if (form == FORM_TABLE)
        write_table(call, route, page, &body);
    else if (form == FORM_PARTIAL)
        write_partial_list(call, page, &body);
    else
        write_list(call, route, page, &body);
    if (form == FORM_YAML || (form == FORM_JSON && query_bool(call, "pretty")))
        rewrite(call, form, &body);
    call_reply(call, 200, form == FORM_YAML ? "application/yaml" : "application/json", &body);
}

void collection_list(struct call *call, const struct route *route)
{
    struct page page = {0};
    enum form form;

    if (*query_string(call, "sendInitialEvents")) {
        struct field_errors errors = {.arena = call->arena};

        field_forbidden(&errors, "sendInitialEvents", "%s", "sendInitialEvents is forbidden for list");
        field_errors_finish(&errors, &call->failure, "meta.k8s.io", "ListOptions", "");
        call_fail(call);
        return;
    }
    if (accept_form(call, &form) < 0 || table_include_of(call, form, NULL) < 0 ||
        collect(call, route, call_reads_durable(call), &page) < 0)
        call_fail(call);
    else
        reply_page(call, route, &page, form);
    vec_done(&page.objects);
}

/* ---- deleting what a list shows ---- */

/* Thousands take a while: a few milliseconds of each turn are theirs, and the answer comes at the end. */
struct deletion {
    struct call *call;
    struct route route;
    struct delete_options options;
    struct write write;
    struct page page; /* holds its objects: the answer tells what they were before */
    size_t at;
    enum form form;
    struct loop_timer *rest;
};

/* The answer may be the end of the call, and of the deletion, which is in the call's arena. */
static void deletion_end(struct deletion *d)
{
    struct deletion last = *d;

    last.page.revision = store_revision(last.call->store);
    if (last.call->failure.code)
        call_fail(last.call);
    else
        reply_page(last.call, &last.route, &last.page, last.form == FORM_TABLE ? FORM_JSON : last.form);
    VEC_EACH(&last.page.objects, it)
        object_unref((struct object *)*it);
    vec_done(&last.page.objects);
    loop_timer_free(last.rest);
}

static int delete_with(const struct deletion *d, const struct object *object, struct arena *arena,
                       struct failure *failure)
{
    struct write write = d->write;
    struct delete_options options = d->options;
    CLEANUP(written_done) struct written written = {0};

    write.arena = arena;
    write.failure = failure;
    write.warnings = d->at == 1 ? d->write.warnings : NULL; /* once is enough */
    if (!options.uid)
        options.uid = object->uid; /* not another one that has come in its place */
    return registry_delete(d->call->registry, &write, d->route.kind, object->ns, object->name, &options,
                           &written);
}

static void delete_one(struct deletion *d, const struct object *object, struct arena *arena)
{
    const struct object *there = store_get(d->call->store, object->kind->id, object->ns, object->name);
    struct failure failure = {0};

    if (!there || !streq(there->uid, object->uid))
        return;
    if (delete_with(d, object, d->at == 1 ? d->call->arena : arena, &failure) < 0)
        delete_with(d, object, d->call->arena, &d->call->failure); /* the words must outlive this turn */
}

static void deletion_go_on(void *arg)
{
    struct deletion *d = arg;
    CLEANUP(arena_done) struct arena arena = {0};
    int64_t start = clock_monotonic();

    while (d->at < d->page.objects.len && !d->call->failure.code) {
        delete_one(d, d->page.objects.v[d->at++], &arena);
        arena_reset(&arena);
        if (clock_monotonic() - start > DELETE_NSEC) {
            loop_timer_set(d->rest, 0);
            return;
        }
    }
    deletion_end(d);
}

void collection_delete(struct call *call, const struct route *route)
{
    struct deletion *d = arena_zalloc(call->arena, sizeof(*d));

    d->call = call;
    d->route = *route;
    if (accept_form(call, &d->form) < 0 || body_write(call, &d->write, route, NULL) < 0 ||
        body_delete_options(call, &d->options, &d->write.dry_run) < 0 ||
        collect(call, route, false, &d->page) < 0) {
        vec_done(&d->page.objects);
        call_fail(call);
        return;
    }
    VEC_EACH(&d->page.objects, it)
        object_ref(*it);
    d->rest = loop_timer_new(call->api->config.loop, deletion_go_on, d);
    deletion_go_on(d);
}
