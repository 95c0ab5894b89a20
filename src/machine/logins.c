/* Passwords for registries. They come in a body and leave only to the one whose they are, who needs them to
 * build and push; lists show names of users, not passwords. */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "machine/internal.h"

#define CA_MAX (256 << 10) /* bytes of a registry's CA file */

static void add_registries(const struct machine *machine, struct arena *arena, struct json *doc)
{
    struct json *list = json_set_array(arena, doc, "registries");

    for (size_t i = 0; i < machine->registries_len; i++) {
        const struct images_registry *from = &machine->registries[i];
        struct json *out = json_push_object(arena, list);
        CLEANUP(buf_done) struct buf ca = {0};

        json_set_string(arena, out, "host", from->host);
        json_set_bool(arena, out, "insecure", from->insecure);
        /* The text: the file may be on another machine than the caller, or not for their eyes. */
        if (from->ca_file && file_read(from->ca_file, CA_MAX, &ca, NULL) == 0)
            json_set_string(arena, out, "ca", ca.data ? ca.data : "");
        if (from->mirror) {
            json_set_string(arena, out, "mirror", from->mirror);
            json_set_bool(arena, out, "mirrorInsecure", from->mirror_insecure);
        }
    }
    if (machine->push_to)
        json_set_string(arena, doc, "pushTo", machine->push_to);
}

/* The name in "dXNlcjpwdw==" */
static const char *user_of(struct arena *arena, const char *auth)
{
    CLEANUP(buf_done) struct buf text = {0};
    const char *colon;
    const char *name = "";

    if (auth && buf_base64_decode(&text, str_from(auth)) && (colon = strchr(buf_view(&text).s, ':')))
        name = arena_strndup(arena, text.data, (size_t)(colon - text.data));
    if (text.data)
        explicit_bzero(text.data, text.len);
    return name;
}

void logins_route(struct machine *machine, struct call *call)
{
    struct json *doc = json_new_object(call->arena), *items = json_set_array(call->arena, doc, "items");
    CLEANUP(buf_done) struct buf text = {0};
    struct json *stored = NULL;

    if (machine->images)
        images_auths_of(machine->images, call->who.user, &text);
    if (text.len)
        (void)json_parse(buf_view(&text), call->arena, &stored, NULL, NULL);
    JSON_EACH_MEMBER(json_get(stored, "auths"), it) {
        struct json *out = json_push_object(call->arena, items);

        json_set_string(call->arena, out, "registry", it->key);
        json_set_string(call->arena, out, "user", user_of(call->arena, json_get_string(&it->value, "auth")));
    }
    if (query_bool(call, "secrets") && stored)
        json_set(call->arena, doc, "config", *stored);
    if (text.data)
        explicit_bzero(text.data, text.len);
    add_registries(machine, call->arena, doc);
    call_reply_json(call, 200, doc);
}

static void change(struct machine *machine, struct call *call, bool shared, const char *registry,
                   const char *user, const char *password)
{
    struct json *doc = json_new_object(call->arena);
    struct err err = {0};
    int result;

    if (shared && !access_is_admin(&call->who)) {
        failure_set(&call->failure, call->arena, 403, "Forbidden",
                    "forbidden: only admins set passwords that all pods use");
        call_fail(call);
        return;
    }
    result = shared ? images_login(machine->images, registry, user, password, &err)
                    : images_login_of(machine->images, call->who.user, registry, user, password, &err);
    if (result < 0) {
        call_fail_err(call, &err);
        return;
    }
    json_set_string(call->arena, doc, "registry", registry);
    call_reply_json(call, 200, doc);
}

void logins_add_route(struct machine *machine, struct call *call)
{
    struct json *doc;
    struct err err = {0};

    if (json_parse(call->req->body, call->arena, &doc, NULL, &err) < 0) {
        call_fail_err(call, &err);
        return;
    }
    change(machine, call, json_bool(json_get(doc, "machine")), json_string_or(json_get(doc, "registry"), ""),
           json_string_or(json_get(doc, "user"), ""), json_string_or(json_get(doc, "password"), ""));
}

void logins_remove_route(struct machine *machine, struct call *call)
{
    change(machine, call, query_bool(call, "machine"), query_string(call, "registry"), NULL, NULL);
}
