#include "objects/names.h"

#include "base/str.h"
#include "domain/workload.h"
#include "objects/condition.h"

#define MIB_MAX (1 << 30)

const char *annotation_get(const struct json *doc, const char *key)
{
    return json_get_string(json_at(doc, "metadata.annotations"), key);
}

const char *label_get(const struct json *doc, const char *key)
{
    return json_get_string(json_at(doc, "metadata.labels"), key);
}

static void set_in(struct arena *arena, struct json *doc, const char *list, const char *key,
                   const char *value)
{
    struct json *meta = json_need_object(arena, doc, "metadata");

    json_set_string(arena, json_need_object(arena, meta, list), key, value);
}

void annotation_set(struct arena *arena, struct json *doc, const char *key, const char *value)
{
    set_in(arena, doc, "annotations", key, value);
}

void label_set(struct arena *arena, struct json *doc, const char *key, const char *value)
{
    set_in(arena, doc, "labels", key, value);
}

/* ---- whose it is ---- */

const char *work_rights(const struct json *doc)
{
    const char *owner = annotation_get(doc, OWNER_ANNOTATION);

    return owner && *owner ? owner : NULL;
}

const char *work_owner(const struct json *doc)
{
    const char *owner = work_rights(doc);

    return owner && !starts_with(owner, "system:") && !streq(owner, ADMIN_USER) ? owner : NULL;
}

const char *work_user(const struct json *doc)
{
    const char *user = label_get(doc, USER_LABEL);

    if (!user || !*user)
        user = work_owner(doc);
    return user ? user : ADMIN_USER;
}

bool work_is_kept(const struct json *doc)
{
    return streq(annotation_get(doc, KEEP_ANNOTATION), "true");
}

bool work_is_retained(const struct json *doc)
{
    return streq(annotation_get(doc, RETAIN_ANNOTATION), "true");
}

bool work_is_claimed(const struct json *doc)
{
    return annotation_get(doc, CLAIM_ANNOTATION) != NULL;
}

bool priority_is_valid(struct str text)
{
    const char *warning;

    priority_parse(text, &warning);
    return !warning;
}

/* ---- pods ---- */

bool pod_phase_is_over(const char *phase)
{
    return streq(phase, "Succeeded") || streq(phase, "Failed");
}

bool pod_is_over(const struct json *doc)
{
    return pod_phase_is_over(json_at_string(doc, "status.phase"));
}

int64_t pod_share_mib(const struct json *doc)
{
    const char *text = label_get(doc, GPU_MEMORY_ANNOTATION);
    int64_t mib = 0;

    if (!text)
        text = annotation_get(doc, GPU_MEMORY_ANNOTATION);
    return text && str_to_int(str_from(text), &mib) && mib > 0 && mib < MIB_MAX ? mib : 0;
}

bool pod_set_scheduled(struct arena *arena, struct json *doc, const char *reason, const char *message,
                       int64_t now)
{
    return condition_set(arena, json_need_object(arena, doc, "status"), SCHEDULED_CONDITION,
                         reason ? "False" : "True", reason, message, now);
}

/* ---- cards ---- */

static bool part_read(struct str text, struct card_part *ret)
{
    const char *colon = memchr(text.s, ':', text.len);
    struct str card = text;
    uint64_t index, mib = 0;

    if (colon)
        card.len = (size_t)(colon - text.s);
    if (!str_to_uint(card, &index) || index >= CARDS_MAX)
        return false;
    if (colon && (!str_to_uint((struct str){colon + 1, text.len - card.len - 1}, &mib) || mib > UINT32_MAX))
        return false;
    *ret = (struct card_part){(uint32_t)index, (uint32_t)mib};
    return true;
}

bool cards_read(const char *text, struct card_part ret[CARDS_MAX], size_t *len)
{
    struct str rest = str_from(text), part;

    *len = 0;
    while (text && *text && str_split(&rest, ',', &part)) {
        if (*len >= CARDS_MAX || !part_read(part, &ret[*len]))
            return false;
        ++*len;
    }
    return true;
}

char *cards_write(struct arena *arena, const struct card_part *parts, size_t len)
{
    CLEANUP(buf_done) struct buf text = {0};

    for (size_t i = 0; i < len; i++) {
        buf_printf(&text, "%s%u", i ? "," : "", parts[i].card);
        if (parts[i].mib)
            buf_printf(&text, ":%u", parts[i].mib);
    }
    return arena_strndup(arena, text.data ? text.data : "", text.len);
}
