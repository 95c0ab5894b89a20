/* berth-render: one render after another, each within the limits of lib/jinja, all within those of this
 * process. What it compiled is kept, so that the next task of a template is rendered at once. */
#include "base/mem.h"
#include "tasks/internal.h"
#include "tasks/render_wire.h"

#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define NOBODY        65534
#define MEMORY_BYTES  ((rlim_t)512 << 20) /* of addresses */
#define MEMORY_KEEP   ((long)96 << 10)    /* KiB; who once took more starts afresh */
#define COMPILED_MAX  32
#define COMPILED_SIZE (64 << 10) /* larger templates are compiled each time */
#define BRIEF_MS      50
#define BRIEF_FUEL    (TASKS_FUEL / 4)

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

struct kept {
    uint32_t flags;
    struct buf name, text;
    struct jinja_template *template;
};

struct server {
    struct jinja *envs[RENDER_STRICT | RENDER_BRIEF | 2]; /* by flags; made when first needed */
    struct jinja_scratch *scratch;
    struct kept kept[COMPILED_MAX];
    size_t next;
    struct buf name, text, values, out;
    struct jinja_error error;
};

struct jinja *render_environment(bool strict, bool brief)
{
    struct jinja_options options = {
        .undefined = strict ? JINJA_UNDEFINED_STRICT : JINJA_UNDEFINED_DEFAULT,
        .all_missing = strict,
        .extensions = JINJA_EXT_DO | JINJA_EXT_LOOPCONTROLS,
        .extras = JINJA_EXTRA_ALL,
        .keep_trailing_newline = true,
        .limits = {.fuel = brief ? BRIEF_FUEL : TASKS_FUEL,
                   .output_bytes = TASKS_OUTPUT_MAX,
                   .string_bytes = TASKS_OUTPUT_MAX,
                   .memory_bytes = 4 * TASKS_OUTPUT_MAX,
                   .template_bytes = RENDER_TEXT_MAX,
                   .wall_ms = brief ? BRIEF_MS : TASKS_WALL_MS},
    };

    return jinja_new(&options);
}

/* ---- rights and limits ---- */

static int give_up_rights(void)
{
    static const struct {
        int what;
        rlim_t value;
    } limits[] = {
        {RLIMIT_CORE, 0}, {RLIMIT_FSIZE, 0}, {RLIMIT_NOFILE, 8}, {RLIMIT_NPROC, 0}, {RLIMIT_AS, MEMORY_BYTES},
    };

    if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
                           setresuid(NOBODY, NOBODY, NOBODY) < 0))
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        struct rlimit limit = {limits[i].value, limits[i].value};

        if (SANITIZED && limits[i].what == RLIMIT_AS)
            continue;
        if (setrlimit(limits[i].what, &limit) < 0)
            return -1;
    }
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -1 : 0;
}

/* ---- bytes ---- */

/* 1, 0 at the end, -1. */
static int read_all(int fd, void *data, size_t len)
{
    char *at = data;

    while (len > 0) {
        ssize_t n = read(fd, at, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 && at == data ? 0 : -1;
        at += n;
        len -= (size_t)n;
    }
    return 1;
}

static int write_all(int fd, const void *data, size_t len)
{
    const char *at = data;

    while (len > 0) {
        ssize_t n = write(fd, at, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

static int read_buf(int fd, struct buf *buf, size_t len)
{
    buf_clear(buf);
    if (len && read_all(fd, buf_reserve(buf, len + 1), len) != 1)
        return -1;
    buf->len = len;
    if (buf->data)
        buf->data[len] = '\0';
    return 0;
}

/* ---- rendering ---- */

static struct jinja_template *find_kept(const struct server *s, uint32_t flags)
{
    for (size_t i = 0; i < COMPILED_MAX; i++) {
        const struct kept *kept = &s->kept[i];

        if (kept->template && kept->flags == flags && str_eq(buf_view(&kept->name), buf_view(&s->name)) &&
            str_eq(buf_view(&kept->text), buf_view(&s->text)))
            return kept->template;
    }
    return NULL;
}

static void keep(struct server *s, uint32_t flags, struct jinja_template *template)
{
    struct kept *kept = &s->kept[s->next++ % COMPILED_MAX];

    jinja_template_free(kept->template);
    buf_clear(&kept->name);
    buf_clear(&kept->text);
    buf_str(&kept->name, buf_view(&s->name));
    buf_str(&kept->text, buf_view(&s->text));
    kept->flags = flags;
    kept->template = template;
}

static int render(struct server *s, uint32_t flags)
{
    uint32_t env = flags & (RENDER_STRICT | RENDER_BRIEF);
    struct jinja_template *template = find_kept(s, env), *own = NULL;
    int failed = 0;

    if (!s->envs[env])
        s->envs[env] = render_environment(flags & RENDER_STRICT, flags & RENDER_BRIEF);
    if (!template) {
        own = template =
            jinja_compile(s->envs[env], s->name.data ? s->name.data : "", buf_view(&s->text), &s->error);
        if (!template)
            return -1;
        if (s->text.len <= COMPILED_SIZE)
            keep(s, env, TAKE_PTR(own));
    }
    if (!(flags & RENDER_CHECK))
        failed = jinja_render_json(template, buf_view(&s->values), s->scratch, &s->out, &s->error);
    jinja_template_free(own);
    return failed;
}

static int serve_one(struct server *s, int fd, const struct render_head *head)
{
    struct render_answer answer = {.magic = RENDER_MAGIC};

    if (head->magic != RENDER_MAGIC || head->error_size != sizeof(struct jinja_error) ||
        head->name_len > JINJA_NAME_MAX || head->text_len > RENDER_TEXT_MAX + 1 ||
        head->values_len > RENDER_VALUES_MAX || read_buf(fd, &s->name, head->name_len) < 0 ||
        read_buf(fd, &s->text, head->text_len) < 0 || read_buf(fd, &s->values, head->values_len) < 0)
        return -1;
    buf_clear(&s->out);
    answer.failed = render(s, head->flags);
    answer.len = answer.failed ? sizeof(s->error) : (uint32_t)s->out.len;
    if (write_all(fd, &answer, sizeof(answer)) < 0)
        return -1;
    return write_all(fd, answer.failed ? (const void *)&s->error : s->out.data, answer.len);
}

static bool took_much(void)
{
    struct rusage usage;

    return getrusage(RUSAGE_SELF, &usage) == 0 && usage.ru_maxrss > MEMORY_KEEP;
}

int render_serve(int fd)
{
    struct server server = {.scratch = jinja_scratch_new()};
    struct render_head head;
    int more;

    signal(SIGPIPE, SIG_IGN);
    if (give_up_rights() < 0)
        return 1;
    while ((more = read_all(fd, &head, sizeof(head))) == 1)
        if (serve_one(&server, fd, &head) < 0)
            return 1;
        else if (took_much())
            return 0; /* the next one is started when it is needed */
    return more < 0;  /* what it holds goes with the process */
}
