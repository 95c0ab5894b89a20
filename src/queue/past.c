#include "queue/past.h"

#include "registry/access.h"

struct viewer viewer_copy(struct arena *arena, const struct identity *who)
{
    return (struct viewer){who ? arena_strdup(arena, who->user) : NULL, who && access_is_admin(who)};
}

bool viewer_owns(const struct viewer *viewer, const char *user, const char *ns)
{
    if (!viewer->user)
        return false;
    return streq(viewer->user, user) || streq(viewer->user, ns) ||
           (streq(user, ADMIN_USER) && starts_with(viewer->user, "system:") && viewer->admin);
}

bool row_mine(const struct identity *who, const char *user, const char *ns)
{
    struct viewer viewer = {who ? who->user : NULL, who && access_is_admin(who)};

    return viewer_owns(&viewer, user, ns);
}

/* ---- running ---- */

struct queue_past *past_new(const struct identity *who,
                            int (*fn)(struct queue_past *past, struct record_source *source, struct err *err))
{
    struct queue_past *past = NEW(struct queue_past);

    past->viewer = viewer_copy(&past->arena, who);
    past->fn = fn;
    return past;
}

void past_free(void *arg)
{
    struct queue_past *past = arg;

    buf_done(&past->answer.text);
    arena_done(&past->arena);
    free(past);
}

static int past_run(void *work, struct record_source *source, struct err *err)
{
    struct queue_past *past = work;

    return past->fn(past, source, err);
}

static void past_on_done(void *owner, void *work, const struct err *err)
{
    struct queue_past *past = work;

    (void)owner;
    past->done(past->arg, &past->answer, err);
    past_free(past);
}

int past_start(struct queue *queue, struct queue_past *past, const struct queue_reader *reader,
               struct queue_past **ret, struct err *err)
{
    struct store_read *read = NULL;

    past->done = reader->done;
    past->arg = reader->arg;
    if (store_read(queue->store, reader->person, past_run, past_on_done, past_free, NULL, past, &read, err) <
        0) {
        past_free(past);
        return -1;
    }
    *ret = read ? past : NULL;
    if (read) /* else it has been told, and is gone */
        past->read = read;
    return 0;
}

void queue_past_cancel(struct queue_past *past)
{
    if (past)
        store_read_cancel(past->read);
}

/* ---- one job ---- */

struct taking {
    struct queue_past *past;
    struct past_search *search;
};

static bool take_row(void *arg, const struct record *record)
{
    struct taking *taking = arg;
    struct arena *arena = &taking->past->arena;
    struct json *row = NULL;

    if (json_parse(record->doc, arena, &row, NULL, NULL) < 0)
        return true;
    json_set_bool(
        arena, row, "mine",
        viewer_owns(&taking->past->viewer, json_get_string(row, "user"), json_get_string(row, "namespace")));
    taking->search->found = arena_strdup(arena, record->job);
    taking->search->row = row;
    return false;
}

int past_find(struct queue_past *past, struct record_source *source, struct past_search *search,
              struct err *err)
{
    struct taking taking = {past, search};
    struct record_query query = {.type = RECORD_JOB, .job = search->uid, .newest_first = true};

    if (search->uid && records_read(source, &query, take_row, &taking, err) < 0)
        return -1;
    if (search->found || !search->name)
        return 0;
    query.job = NULL;
    query.name = search->name;
    query.ns = search->ns;
    return records_read(source, &query, take_row, &taking, err);
}

static int recall(struct queue_past *past, struct record_source *source, struct err *err)
{
    struct past_search *search = past->work;

    if (past_find(past, source, search, err) < 0)
        return -1;
    past->answer.uid = search->found;
    past->answer.row = search->row;
    return 0;
}

/* "NAMESPACE/NAME", or a name or uid. */
void past_search_of(const char *id, struct arena *arena, struct past_search *ret)
{
    const char *slash = strchr(id, '/');

    *ret = (struct past_search){.uid = slash ? NULL : arena_strdup(arena, id),
                                .name = arena_strdup(arena, slash ? slash + 1 : id),
                                .ns = slash ? arena_strndup(arena, id, (size_t)(slash - id)) : NULL};
}

int queue_recall(struct queue *queue, const struct identity *who, const char *id,
                 const struct queue_reader *reader, struct queue_past **ret, struct err *err)
{
    struct queue_past *past = past_new(who, recall);

    past->work = arena_zalloc(&past->arena, sizeof(struct past_search));
    past_search_of(id, &past->arena, past->work);
    return past_start(queue, past, reader, ret, err);
}
