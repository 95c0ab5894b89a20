#include "story.h"

#include "base/file.h"
#include "base/str.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#define STORY_BYTES_MAX (16 << 20)

const char *const story_users[STORY_USERS] = {"ann", "bob", "cyd", "dan", "eve", "fay"};

static const char *const type_names[ACT_TYPES] = {"lab",   "submit", "cancel", "delete", "priority",
                                                  "label", "claim",  "quota",  "node",   "card",
                                                  "clock", "kill",   "full"};
static const char *const kind_names[JOB_KINDS] = {"pod", "job", "training", "task"};
static const char *const fault_names[FAULTS] = {"none", "image",    "crash", "deaf", "silent",
                                                "cpu",  "selector", "claim", "never"};

struct names {
    const char *const *v;
    size_t len;
};

/* A key of the text form; names: its value is written as one of them. */
static const struct field {
    const char *key;
    size_t offset;
    struct names names;
} fields[] = {
#define AT(member) offsetof(struct act, member)
    {"job", AT(job), {0}},
    {"user", AT(user), {story_users, STORY_USERS}},
    {"kind", AT(kind), {kind_names, JOB_KINDS}},
    {"gpus", AT(gpus), {0}},
    {"min", AT(min), {0}},
    {"max", AT(max), {0}},
    {"cpu", AT(cpu), {0}},
    {"mib", AT(mib), {0}},
    {"priority", AT(priority), {0}},
    {"epochs", AT(epochs), {0}},
    {"epoch_s", AT(epoch_s), {0}},
    {"declared_h", AT(declared_h), {0}},
    {"pull_s", AT(pull_s), {0}},
    {"run_s", AT(run_s), {0}},
    {"leave_s", AT(leave_s), {0}},
    {"fault", AT(fault), {fault_names, FAULTS}},
    {"retries", AT(retries), {0}},
    {"node", AT(node), {0}},
    {"card", AT(card), {0}},
    {"n", AT(n), {0}},
    {"down_s", AT(down_s), {0}},
    {"nodes", AT(nodes), {0}},
    {"users", AT(users), {0}},
    {"min_run_s", AT(min_run_s), {0}},
    {"stop_s", AT(stop_s), {0}},
    {"ask", AT(ask), {0}},
    {"quota", AT(quota), {0}},
    {"latency_ms", AT(latency_ms), {0}},
#undef AT
};

static int64_t *member(struct act *act, const struct field *field)
{
    return (int64_t *)((char *)act + field->offset);
}

void story_done(struct story *story)
{
    vec_done(&story->acts);
}

void story_copy(const struct story *from, struct story *ret)
{
    *ret = (struct story){.seed = from->seed, .hours = from->hours};
    VEC_EACH(&from->acts, it)
        vec_push(&ret->acts, *it);
}

/* ---- text ---- */

static void write_act(const struct act *act, struct buf *ret)
{
    struct act copy = *act;

    buf_printf(ret, "%" PRId64 " %s", act->at_ms, type_names[act->type]);
    for (const struct field *f = fields; f < fields + ARRAY_LEN(fields); f++) {
        int64_t value = *member(&copy, f);

        if (f->names.v && (value || (f->names.v == story_users && act->type != ACT_LAB)))
            buf_printf(ret, " %s=%s", f->key, f->names.v[value]);
        else if (!f->names.v && value)
            buf_printf(ret, " %s=%" PRId64, f->key, value);
    }
    buf_puts(ret, "  # ");
    act_words(act, ret);
    buf_putc(ret, '\n');
}

void story_write(const struct story *story, struct buf *ret)
{
    buf_printf(ret, "story seed=%" PRIu64 " hours=%" PRId64 "\n", story->seed, story->hours);
    VEC_EACH(&story->acts, it)
        write_act(it, ret);
}

static int find_name(const struct names *names, struct str text)
{
    for (size_t i = 0; i < names->len; i++)
        if (str_is(text, names->v[i]))
            return (int)i;
    return -1;
}

static bool read_value(struct str text, const struct names *names, int64_t *ret)
{
    int at = names->v ? find_name(names, text) : -1;

    if (at < 0)
        return str_to_int(text, ret);
    *ret = at;
    return true;
}

static bool read_field(struct str word, struct act *act)
{
    struct str key;

    if (!str_split(&word, '=', &key))
        return false;
    for (const struct field *f = fields; f < fields + ARRAY_LEN(fields); f++)
        if (str_is(key, f->key))
            return read_value(word, &f->names, member(act, f));
    return false;
}

static bool read_act(struct str line, struct act *act)
{
    const struct names types = {type_names, ACT_TYPES};
    struct str word;

    *act = (struct act){0};
    if (!str_split(&line, ' ', &word) || !str_to_int(word, &act->at_ms) || !str_split(&line, ' ', &word) ||
        find_name(&types, word) < 0)
        return false;
    act->type = find_name(&types, word);
    while (str_split(&line, ' ', &word) && !str_is(word, "#"))
        if (word.len && !read_field(word, act))
            return false;
    return act->job >= 0 && act->user >= 0 && act->user < STORY_USERS && act->node >= 0 &&
           act->node < STORY_NODES && act->nodes <= STORY_NODES;
}

static bool read_head(struct str line, struct story *ret)
{
    struct str word, key;
    int64_t n;

    if (!str_split(&line, ' ', &word) || !str_is(word, "story"))
        return false;
    while (str_split(&line, ' ', &word)) {
        if (!str_split(&word, '=', &key) || !str_to_int(word, &n))
            return false;
        if (str_is(key, "seed"))
            ret->seed = (uint64_t)n;
        else if (str_is(key, "hours"))
            ret->hours = n;
    }
    return true;
}

int story_read(const char *path, struct story *ret, struct err *err)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct str rest, line;
    size_t row = 0;

    if (file_read(path, STORY_BYTES_MAX, &text, err) < 0)
        return -1;
    *ret = (struct story){.hours = 1, .seed = 1};
    rest = buf_view(&text);
    while (str_split(&rest, '\n', &line)) {
        struct act act;

        row++;
        line = str_trim(line);
        if (line.len == 0 || line.s[0] == '#' || read_head(line, ret))
            continue;
        if (!read_act(line, &act))
            return err_set(err, ERR_INVALID, "%s:%zu: not an act: '%.*s'", path, row, STR_ARG(line));
        vec_push(&ret->acts, act);
    }
    return 0;
}

/* ---- words ---- */

static void span_words(int64_t sec, struct buf *ret)
{
    if (sec >= 7200 && sec % 3600 == 0)
        buf_printf(ret, "%" PRId64 " h", sec / 3600);
    else if (sec >= 120 && sec % 60 == 0)
        buf_printf(ret, "%" PRId64 " min", sec / 60);
    else
        buf_printf(ret, "%" PRId64 " s", sec);
}

static void submit_words(const struct act *act, struct buf *ret)
{
    static const char *const kinds[JOB_KINDS] = {"pod", "Job", "training job", "task"};
    static const char *const faults[FAULTS] = {
        "",
        "; its image name is mistyped",
        "; it crashes half-way",
        "; it ignores stops",
        "; it reports no epochs",
        "; it asks for too little CPU",
        "; it asks for a node that is not there",
        "; its claim is never bound",
        "; it never ends by itself",
    };

    buf_printf(ret, "%s submits %s job%" PRId64 ": ", story_users[act->user], kinds[act->kind], act->job);
    if (act->kind == JOB_TRAINING && act->max > 1)
        buf_printf(ret, "%" PRId64 " to %" PRId64 " GPUs", act->min ? act->min : 1, act->max);
    else
        buf_printf(ret, "%" PRId64 " GPU%s", act->gpus, act->gpus == 1 ? "" : "s");
    if (act->mib)
        buf_printf(ret, " (%" PRId64 " MiB)", act->mib);
    if (act->kind == JOB_TRAINING) {
        buf_printf(ret, ", %" PRId64 " epochs of ", act->epochs);
        span_words(act->epoch_s, ret);
    } else {
        buf_puts(ret, ", runs for ");
        span_words(act->run_s, ret);
    }
    if (act->pull_s > 60) {
        buf_puts(ret, ", pulls for ");
        span_words(act->pull_s, ret);
    }
    if (act->priority)
        buf_printf(ret, ", priority %" PRId64, act->priority);
    buf_puts(ret, faults[act->fault]);
}

static void world_words(const struct act *act, struct buf *ret)
{
    switch ((enum act_type)act->type) {
    case ACT_LAB:
        buf_printf(ret,
                   "a lab of %" PRId64 " node%s with %" PRId64 " GPUs each, minimum run %" PRId64 " s%s%s",
                   act->nodes, act->nodes == 1 ? "" : "s", act->gpus, act->min_run_s,
                   act->ask ? ", nobody is preempted unasked" : "", act->quota ? ", with quotas" : "");
        break;
    case ACT_QUOTA:
        buf_printf(ret, "%s may have %" PRId64 " pods at a time", story_users[act->user], act->n);
        break;
    case ACT_NODE:
        buf_printf(ret, "node lab%" PRId64 " %s for %" PRId64 " s", act->node,
                   act->n ? "loses power" : "is cut off", act->down_s);
        break;
    case ACT_CARD:
        buf_printf(ret, "card %" PRId64 " of lab%" PRId64 " %s", act->card, act->node,
                   act->n ? "fails" : "is mended");
        break;
    case ACT_CLOCK:
        buf_printf(ret, "the clock jumps by %.1f s", (double)act->n / 1000);
        break;
    case ACT_KILL:
        buf_printf(ret,
                   "the daemon is killed after %" PRId64 " more commits, and is back %" PRId64 " s later",
                   act->n, act->down_s);
        break;
    default:
        buf_printf(ret, "the disk is full for %" PRId64 " commits", act->n);
        break;
    }
}

void act_words(const struct act *act, struct buf *ret)
{
    switch ((enum act_type)act->type) {
    case ACT_SUBMIT:
        submit_words(act, ret);
        break;
    case ACT_CANCEL:
        buf_printf(ret, "job%" PRId64 " is cancelled by its owner", act->job);
        break;
    case ACT_DELETE:
        buf_printf(ret, "job%" PRId64 " is deleted by its owner", act->job);
        break;
    case ACT_PRIORITY:
        buf_printf(ret, "job%" PRId64 " gets priority %" PRId64, act->job, act->priority);
        break;
    case ACT_LABEL:
        if (act->n)
            buf_printf(ret, "job%" PRId64 "'s owner labels it priority=abc", act->job);
        else
            buf_printf(ret, "job%" PRId64 "'s owner labels it user=%s", act->job, story_users[act->user]);
        break;
    case ACT_CLAIM:
        buf_printf(ret, "job%" PRId64 " is claimed for (berth claim)", act->job);
        break;
    default:
        world_words(act, ret);
        break;
    }
}
