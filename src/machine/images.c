/* What is in the store, and pulls that somebody watches. */
#include "base/clock.h"
#include "base/mem.h"
#include "machine/internal.h"

#include <stdio.h>

#define LARGE_BYTES (64 << 20) /* a layer whose download takes long enough to be told of */

/* ---- lists ---- */

/* What others built is not shown, and not taken away. */
static bool is_visible(const struct call *call, const char *name)
{
    return image_local_allowed(machine_owner(call), name);
}

void images_route(struct machine *machine, struct call *call)
{
    struct json *doc = json_new_object(call->arena), *items = json_set_array(call->arena, doc, "items");
    CLEANUP(free) struct images_entry *entries = NULL;
    size_t len = images_list(machine->images, &entries);
    char time[CLOCK_TEXT_MAX];

    for (size_t i = 0; i < len; i++) {
        const struct images_entry *it = &entries[i];
        struct json *out;

        if (!it->name || !is_visible(call, it->name))
            continue;
        out = json_push_object(call->arena, items);
        json_set_string(call->arena, out, "name", it->name);
        json_set_string(call->arena, out, "id", it->image->id);
        json_set_string(call->arena, out, "digest", it->image->digest);
        json_set_int(call->arena, out, "bytes", it->image->size);
        json_set_int(call->arena, out, "unpackedBytes", it->image->unpacked);
        json_set_int(call->arena, out, "layers", (int64_t)it->image->layers_len);
        json_set_string(call->arena, out, "used", clock_format(it->used, time));
        json_set_bool(call->arena, out, "inUse", it->in_use);
        json_set_bool(call->arena, out, "keep", it->keep);
    }
    call_reply_json(call, 200, doc);
}

/* The name in the store of what the caller calls `name`. */
static int stored_name(const struct machine *machine, const struct call *call, const char *name,
                       char text[IMAGE_REF_MAX], struct err *err)
{
    struct image_ref ref;

    if (image_ref_parse(str_from(name), &ref, err) < 0)
        return -1;
    if (images_find_local(machine->images, machine_owner(call), name, text))
        return 0;
    if (query_bool(call, "local"))
        return err_set(err, ERR_NOT_FOUND, "'%s' was not built or imported here", name);
    image_ref_format(&ref, text);
    return 0;
}

void images_remove_route(struct machine *machine, struct call *call)
{
    char name[IMAGE_REF_MAX];
    struct err err = {0};

    if (stored_name(machine, call, query_string(call, "name"), name, &err) < 0) {
        call_fail_err(call, &err);
        return;
    }
    if (!images_find(machine->images, name)) {
        err_set(&err, ERR_NOT_FOUND, "there is no image '%s' here", name);
        call_fail_err(call, &err);
        return;
    }
    if (!access_is_admin(&call->who) && (!starts_with(name, IMAGE_HOST_OWN "/") || !is_visible(call, name))) {
        failure_set(&call->failure, call->arena, 403, "Forbidden",
                    "forbidden: '%s' is for everybody; only admins remove it", name);
        call_fail(call);
        return;
    }
    if (images_remove(machine->images, name, &err) < 0)
        call_fail_err(call, &err);
    else
        call_reply_json(call, 200, json_new_object(call->arena));
}

void images_gc_route(struct machine *machine, struct call *call)
{
    struct json *doc = json_new_object(call->arena);
    struct images_gc gone = {0};

    images_gc(machine->images, &gone);
    json_set_int(call->arena, doc, "images", (int64_t)gone.images);
    json_set_int(call->arena, doc, "layers", (int64_t)gone.layers);
    json_set_int(call->arena, doc, "bytes", gone.bytes);
    call_reply_json(call, 200, doc);
}

/* ---- lines ---- */

bool progress_is_news(const struct image_progress *progress)
{
    bool begins = progress->step == IMAGE_STEP_DOWNLOADING && progress->done == 0;

    return progress->step == IMAGE_STEP_DONE || progress->step == IMAGE_STEP_PRESENT ||
           (begins && progress->total >= LARGE_BYTES);
}

void progress_line(struct buf *out, const struct image_progress *progress)
{
    char text[128];

    image_progress_format(progress, text);
    buf_printf(out, "layer %zu of %zu %s\n", progress->number, progress->count, text);
}

void result_line(struct buf *out, const struct image_pull_result *result)
{
    if (result->image)
        buf_printf(out, "ok %s\n", result->image->id);
    else
        buf_printf(out, "fail %s: %s\n", image_fail_name(result->fail),
                   result->sentence ? result->sentence : "");
}

/* ---- a pull that somebody watches ---- */

struct fetch {
    struct machine *machine;
    struct http_req *req;
    struct image_pull *pull;
    bool all; /* every step is told, not only news */
    char *owner;
};

static void fetch_free(struct fetch *fetch)
{
    for (size_t i = 0; i < fetch->machine->fetches.len; i++)
        if (fetch->machine->fetches.v[i] == fetch) {
            vec_remove(&fetch->machine->fetches, i);
            break;
        }
    if (fetch->pull)
        image_pull_cancel(fetch->pull);
    free(fetch->owner);
    free(fetch);
}

static void on_progress(void *arg, const struct image_progress *progress)
{
    struct fetch *fetch = arg;
    CLEANUP(buf_done) struct buf line = {0};

    if (!fetch->all && !progress_is_news(progress))
        return;
    progress_line(&line, progress);
    http_stream_write(fetch->req, buf_view(&line));
}

static void on_done(void *arg, const struct image_pull_result *result)
{
    struct fetch *fetch = arg;
    CLEANUP(buf_done) struct buf line = {0};

    fetch->pull = NULL;
    result_line(&line, result);
    http_stream_write(fetch->req, buf_view(&line));
    http_stream_end(fetch->req);
    fetch_free(fetch);
}

static void on_gone(struct http_req *req)
{
    fetch_free(req->user);
    http_abandon(req);
}

void fetch_route(struct machine *machine, struct call *call)
{
    static const struct image_pull_events events = {on_progress, on_done};
    struct fetch *fetch;
    CLEANUP(buf_done) struct buf login = {0};
    const char *auths[1];
    size_t own = 0;
    struct image_pull_spec spec = {
        .image = query_string(call, "name"), .policy = IMAGE_ALWAYS, .auths = auths};

    VEC_EACH(&machine->fetches, it)
        own += streq((*it)->owner, call->who.user);
    if (share_used_up(call, "pulls", own, FETCHES_PERSON_MAX, machine->fetches.len, FETCHES_MAX))
        return;
    fetch = NEW(struct fetch);
    images_auths_of(machine->images, call->who.user, &login);
    if (login.len)
        auths[spec.auths_len++] = login.data;
    *fetch = (struct fetch){.machine = machine,
                            .req = call->req,
                            .all = query_bool(call, "progress"),
                            .owner = mem_strdup(call->who.user)};
    vec_push(&machine->fetches, fetch);
    call->req->user = fetch;
    call->req->gone = on_gone;
    http_stream_begin(call->req, 200, "text/plain", NULL, 0);
    fetch->pull = images_pull(machine->images, &spec, &events, fetch);
    if (login.data)
        explicit_bzero(login.data, login.len);
}

void fetches_end(struct machine *machine)
{
    while (machine->fetches.len > 0)
        fetch_free(vec_pop(&machine->fetches));
    vec_done(&machine->fetches);
}
