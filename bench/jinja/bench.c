/* bench - libjinja's times for the templates of this folder, in bench_jinja2.py's terms:
 *     bench DIR [SECONDS]        a JSON line per template: microseconds of compile, render, json+render, cold
 *     bench DIR once WHAT NAME   a single pass, for callgrind: WHAT is compile, render or none
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "jinja/jinja.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define FILE_MAX ((size_t)1 << 20)
#define ROUNDS   9

static const char *const names[][2] = {
    {"countdown-task", "countdown-task.yaml.j2"},
    {"non-distributed-task", "non-distributed-task.yaml.j2"},
    {"single-gpu-task", "single-gpu-task.yaml.j2"},
    {"workers64", "workers64.yaml.j2"},
    {"chat50", "chat50.j2"},
};

struct job {
    struct jinja *env;
    struct jinja_template *tmpl;
    struct jinja_scratch *scratch;
    struct buf source, text, out;
    struct arena arena;
    struct json *values;
    struct jinja_error error;
};

static void die(const char *what)
{
    fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

static void do_compile(struct job *job)
{
    struct jinja_template *tmpl = jinja_compile(job->env, "bench", buf_view(&job->source), &job->error);

    if (!tmpl)
        die(job->error.message);
    jinja_template_free(tmpl);
}

static void do_render(struct job *job)
{
    buf_clear(&job->out);
    if (jinja_render(job->tmpl, job->values, job->scratch, &job->out, &job->error) < 0)
        die(job->error.message);
}

static void do_json(struct job *job)
{
    buf_clear(&job->out);
    if (jinja_render_json(job->tmpl, buf_view(&job->text), job->scratch, &job->out, &job->error) < 0)
        die(job->error.message);
}

static void do_cold(struct job *job)
{
    struct jinja_template *tmpl = jinja_compile(job->env, "bench", buf_view(&job->source), &job->error);

    buf_clear(&job->out);
    if (!tmpl || jinja_render(tmpl, job->values, job->scratch, &job->out, &job->error) < 0)
        die(job->error.message);
    jinja_template_free(tmpl);
}

static double cpu_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The best CPU time per call over the rounds, in microseconds. */
static double measure(void (*fn)(struct job *), struct job *job, double seconds)
{
    double best = 1e9, took = 0;
    int64_t n = 1;

    for (;; n *= 4) {
        double start = cpu_seconds();

        for (int64_t i = 0; i < n; i++)
            fn(job);
        took = cpu_seconds() - start;
        if (took > 0.02)
            break;
    }
    n = (int64_t)((double)n * seconds / ROUNDS / took) + 1;
    for (int round = 0; round < ROUNDS; round++) {
        double start = cpu_seconds();

        for (int64_t i = 0; i < n; i++)
            fn(job);
        took = (cpu_seconds() - start) / (double)n;
        best = took < best ? took : best;
    }
    return best * 1e6;
}

static void load(struct job *job, const char *dir, size_t at)
{
    CLEANUP(free) char *template_path = mem_printf("%s/templates/%s", dir, names[at][1]);
    CLEANUP(free) char *values_path = mem_printf("%s/values/%s.json", dir, names[at][0]);
    struct buf pretty = {0};
    struct err err = {0};

    *job = (struct job){.env = jinja_new(NULL), .scratch = jinja_scratch_new()};
    if (file_read(template_path, FILE_MAX, &job->source, &err) < 0 ||
        file_read(values_path, FILE_MAX, &pretty, &err) < 0 ||
        json_parse(buf_view(&pretty), &job->arena, &job->values, NULL, &err) < 0)
        die(err.msg);
    json_write(&job->text, job->values);
    buf_done(&pretty);
    job->tmpl = jinja_compile(job->env, "bench", buf_view(&job->source), &job->error);
    if (!job->tmpl)
        die(job->error.message);
}

static void unload(struct job *job)
{
    jinja_template_free(job->tmpl);
    jinja_scratch_free(job->scratch);
    jinja_free(job->env);
    buf_done(&job->source);
    buf_done(&job->text);
    buf_done(&job->out);
    arena_done(&job->arena);
}

int main(int argc, char **argv)
{
    double seconds = argc > 2 ? strtod(argv[2], NULL) : 0.5;
    struct job job;

    if (argc < 2)
        die("usage: bench DIR [SECONDS | once compile|render NAME | out NAME]");
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (argc == 5 && !streq(argv[4], names[i][0]))
            continue;
        if (argc == 4 && !streq(argv[3], names[i][0]))
            continue;
        load(&job, argv[1], i);
        if (argc == 4) { /* the output, to compare */
            do_render(&job);
            fwrite(job.out.data, 1, job.out.len, stdout);
        } else if (argc == 5) {
            for (int n = 0; n < 1000; n++)
                if (streq(argv[3], "compile"))
                    do_compile(&job);
                else if (streq(argv[3], "render"))
                    do_render(&job);
        } else {
            printf(
                "{\"template\": \"%s\", \"compile_us\": %.3f, \"render_us\": %.3f, \"json_render_us\": %.3f, "
                "\"cold_us\": %.3f}\n",
                names[i][0], measure(do_compile, &job, seconds), measure(do_render, &job, seconds),
                measure(do_json, &job, seconds), measure(do_cold, &job, seconds));
            fflush(stdout);
        }
        unload(&job);
    }
    return 0;
}
