/* `berth simulate`: policies over traces, each in a process of its own, as many at once as there are cores.
 * What a process found out is in memory it shares with its parent. */
#include "base/mem.h"
#include "cli/cli.h"
#include "sim/sim.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define TASKS_MAX 256

/* One policy on one trace. */
struct task {
    double part; /* done */
    int failed;
    char why[ERR_MSG_MAX];
    struct sim_result result;
};

struct simulation {
    struct trace_request request;
    struct sim_options options;
    VEC(struct trace *) traces;
    VEC(const char *) policies;
    struct task *tasks; /* traces times policies; shared */
    size_t count;
};

static void note_progress(void *of, double part)
{
    ((struct task *)of)->part = part;
}

static bool next_word(struct cli *cli, struct str *rest, const char **ret)
{
    struct str word;

    if (!str_split(rest, ',', &word))
        return false;
    *ret = arena_strndup(&cli->arena, word.s, word.len);
    return true;
}

static bool parse_number(const char *text, double low, double high, double *ret)
{
    char *end = NULL;

    *ret = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*ret) && *ret >= low && *ret <= high;
}

/* "size=0.3,speed=0.1" */
static int parse_noise(struct cli *cli, const char *text, struct sim_options *options, struct err *err)
{
    struct str rest = str_from(text);
    const char *word;

    while (next_word(cli, &rest, &word)) {
        double *to = starts_with(word, "size=")    ? &options->noise_size
                     : starts_with(word, "speed=") ? &options->noise_speed
                                                   : NULL;

        if (!to || !parse_number(strchr(word, '=') + 1, 0, 5, to))
            return err_set(err, ERR_INVALID, "--noise %s: write it as size=0.3,speed=0.1, each 0 to 5", text);
    }
    return 0;
}

static int parse_counts(const struct args *args, struct simulation *sim, struct err *err)
{
    const char *seed = args_get(args, "seed"), *restart = args_get(args, "restart"),
               *batch = args_get(args, "batch");

    if (seed && !str_to_uint(str_from(seed), &sim->options.seed))
        return err_set(err, ERR_INVALID, "--seed %s: a whole number", seed);
    sim->request.seed = sim->options.seed;
    sim->options.restart_s = -1;
    if (restart && !parse_number(restart, 0, 86400, &sim->options.restart_s))
        return err_set(err, ERR_INVALID, "--restart %s: seconds, 0 to 86400", restart);
    if (batch && !streq(batch, "fixed") && !streq(batch, "adaptive"))
        return err_set(err, ERR_INVALID, "--batch %s: fixed or adaptive", batch);
    sim->request.batch = streq(batch, "adaptive") ? BATCH_ADAPTIVE : BATCH_FIXED;
    return 0;
}

static int parse(struct cli *cli, const struct args *args, struct simulation *sim, struct err *err)
{
    const char *noise = args_get(args, "noise"), *policies = args_get(args, "policy"), *word;
    struct str rest = str_from(policies ? policies : "berth");

    sim->request.path = args_get(args, "trace");
    sim->request.generate = args_get(args, "generate");
    sim->request.rules = args_get(args, "rules");
    sim->request.cluster = args_get(args, "cluster");
    if (parse_counts(args, sim, err) < 0 || (noise && parse_noise(cli, noise, &sim->options, err) < 0))
        return -1;
    if (!sim->request.path == !sim->request.generate)
        return err_set(err, ERR_INVALID, "say what to simulate: --trace DIR|FILE, or --generate JOBS|lab");
    while (next_word(cli, &rest, &word))
        vec_push(&sim->policies, word);
    return 0;
}

static int load(struct cli *cli, const struct args *args, struct simulation *sim, struct err *err)
{
    const char *workloads = args_get(args, "workload"), *word;
    struct str rest = str_from(workloads ? workloads : "");

    do {
        struct trace *trace = NULL;

        if (workloads && !next_word(cli, &rest, &word))
            break;
        sim->request.workload = workloads ? word : NULL;
        if (trace_load(&sim->request, &trace, err) < 0)
            return -1;
        vec_push(&sim->traces, trace);
        for (size_t i = 0; i < sim->policies.len; i++)
            if (!sim_policy_known(trace, sim->policies.v[i]))
                return err_set(
                    err, ERR_INVALID, "policy '%s': for %s there are %s", sim->policies.v[i], trace->name,
                    trace->pods ? "bestfit, fgd, berth" : "fair, fifo, srtf, las, pressure, berth");
    } while (workloads);
    sim->count = sim->traces.len * sim->policies.len;
    if (sim->count == 0 || sim->count > TASKS_MAX)
        return err_set(err, ERR_LIMIT, "1 to %d simulations at once", TASKS_MAX);
    return 0;
}

/* In the child. */
static _Noreturn void run_task(struct simulation *sim, size_t i)
{
    struct task *task = &sim->tasks[i];
    struct err err = {0};

    sim->options.policy = sim->policies.v[i % sim->policies.len];
    sim->options.progress = note_progress;
    sim->options.of = task;
    if (sim_run(sim->traces.v[i / sim->policies.len], &sim->options, &task->result, &err) < 0) {
        (void)snprintf(task->why, sizeof(task->why), "%s", err.msg);
        _exit(1);
    }
    task->failed = 0;
    _exit(0);
}

static void show_progress(const struct simulation *sim)
{
    double done = 0;

    for (size_t i = 0; i < sim->count; i++)
        done += sim->tasks[i].part / (double)sim->count;
    (void)fprintf(stderr, "\r[%-40.*s] %3.0f%%", (int)(done * 40), "########################################",
                  done * 100);
}

static int run_all(struct simulation *sim)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t started = 0, running = 0;
    bool terminal = isatty(STDERR_FILENO) == 1;

    while (started < sim->count || running > 0) {
        if (started < sim->count && running < (size_t)(cores > 0 ? cores : 1)) {
            pid_t pid = fork();

            if (pid == 0)
                run_task(sim, started);
            if (pid < 0 && running == 0)
                return cli_fail(CLI_FAILED, "cannot start a process: %m");
            if (pid > 0) {
                started++;
                running++;
                continue;
            }
        }
        if (waitpid(-1, NULL, terminal ? WNOHANG : 0) > 0) {
            running--;
        } else if (terminal) {
            show_progress(sim);
            (void)usleep(100000);
        } else if (errno != EINTR) {
            break;
        }
    }
    if (terminal)
        (void)fprintf(stderr, "\r%-50s\r", "");
    for (size_t i = 0; i < sim->count; i++)
        if (sim->tasks[i].failed)
            return cli_fail(CLI_FAILED, "%s with %s: %s", sim->traces.v[i / sim->policies.len]->name,
                            sim->policies.v[i % sim->policies.len],
                            sim->tasks[i].why[0] ? sim->tasks[i].why : "the process ended early");
    return CLI_OK;
}

static const char *command_of(struct cli *cli, const struct args *args)
{
    const char *text = "berth simulate";

    VEC_EACH(&args->values, value)
        text = arena_printf(&cli->arena, "%s --%s%s%s", text, value->option->name, *value->value ? " " : "",
                            value->value);
    return text;
}

static int print(struct cli *cli, const struct args *args, const struct simulation *sim)
{
    CLEANUP(free) struct sim_result *results = mem_alloc(sizeof(*results) * sim->count);
    CLEANUP(buf_done) struct buf buf = {0};
    const char *output = args_get(args, "output");

    for (size_t i = 0; i < sim->count; i++)
        results[i] = sim->tasks[i].result;
    if (streq(output, "json"))
        report_json(results, sim->count, &buf);
    else if (streq(output, "html"))
        report_html(results, sim->count, command_of(cli, args), &buf);
    else
        report_table(results, sim->count, &buf);
    (void)fwrite(buf.data, 1, buf.len, stdout);
    return CLI_OK;
}

int verb_simulate(struct cli *cli, const struct args *args)
{
    const char *output = args_get(args, "output");
    struct simulation sim = {.tasks = MAP_FAILED};
    struct err err = {0};
    int code;

    if (output && !streq(output, "json") && !streq(output, "table") && !streq(output, "html"))
        return cli_usage_error(args->verb, "-o %s: one of json, table, html", output);
    if (parse(cli, args, &sim, &err) < 0)
        code = cli_usage_error(args->verb, "%s", err.msg);
    else if (load(cli, args, &sim, &err) < 0)
        code = cli_fail(err.code == ERR_NOT_FOUND ? CLI_NOT_FOUND : CLI_FAILED, "%s", err.msg);
    else {
        sim.tasks = mmap(NULL, sizeof(*sim.tasks) * sim.count, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (sim.tasks == MAP_FAILED) {
            code = cli_fail(CLI_FAILED, "cannot share memory: %m");
        } else {
            for (size_t i = 0; i < sim.count; i++)
                sim.tasks[i].failed = 1;
            code = run_all(&sim);
        }
    }
    if (code == CLI_OK)
        code = print(cli, args, &sim);
    if (sim.tasks != MAP_FAILED)
        (void)munmap(sim.tasks, sizeof(*sim.tasks) * sim.count);
    VEC_EACH(&sim.traces, trace)
        trace_free(*trace);
    vec_done(&sim.traces);
    vec_done(&sim.policies);
    return code;
}
