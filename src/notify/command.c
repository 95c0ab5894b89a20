#include "notify/command.h"

#include "base/mem.h"
#include "base/vec.h"
#include "notify/program.h"

struct command_run {
    struct command *command;
    struct notify_delivery *delivery;
    struct program *program;
};

struct command {
    struct loop *loop;
    VEC(struct command_run *) runs;
    struct notify_handler handler;
};

static const struct {
    const char *variable, *member;
} variables[] = {
    {"BERTH_KIND", "kind"}, {"BERTH_JOB", "job"}, {"BERTH_NAME", "name"},    {"BERTH_NAMESPACE", "namespace"},
    {"BERTH_TEXT", "text"}, {"BERTH_BY", "by"},   {"BERTH_BY_JOB", "byJob"}, {"BERTH_TIME", "time"},
};

static void command_forget(struct command_run *run)
{
    struct command *command = run->command;

    for (size_t i = 0; i < command->runs.len; i++)
        if (command->runs.v[i] == run) {
            vec_remove(&command->runs, i);
            break;
        }
    free(run);
}

static void command_ended(void *arg, const struct program_end *end)
{
    struct command_run *run = arg;
    struct notify_delivery *delivery = run->delivery;
    char why[NOTIFY_WHY_MAX];

    snprintf(why, sizeof(why), "%s%s", end->started ? "the command " : "", end->why);
    command_forget(run);
    notify_finished(delivery,
                    !end->started      ? NOTIFY_NEVER
                    : end->status == 0 ? NOTIFY_DELIVERED
                                       : NOTIFY_RETRY,
                    why, 0);
}

static void command_start(void *arg, struct notify_delivery *delivery, const struct json *payload)
{
    struct command *command = arg;
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf input = {0};
    const struct json *item = json_get(payload, "item");
    const char *env[ARRAY_LEN(variables) + 1] = {NULL};
    const char *const argv[] = {"/bin/sh", "-c", json_string_or(json_get(payload, "command"), "exit 1"),
                                NULL};
    struct command_run *run = NEW(struct command_run);

    for (size_t i = 0; i < ARRAY_LEN(variables); i++)
        env[i] = arena_printf(&arena, "%s=%s", variables[i].variable,
                              json_string_or(json_get(item, variables[i].member), ""));
    if (item)
        json_write(&input, item);
    buf_putc(&input, '\n');
    *run = (struct command_run){command, delivery, NULL};
    vec_push(&command->runs, run);
    run->program =
        program_start(command->loop,
                      &(struct program_spec){.user = json_string_or(json_get(payload, "user"), "root"),
                                             .argv = argv,
                                             .env = env,
                                             .input = buf_view(&input)},
                      command_ended, run);
}

static void command_cancel(void *arg, struct notify_delivery *delivery)
{
    struct command *command = arg;

    VEC_EACH(&command->runs, it)
        if ((*it)->delivery == delivery) {
            program_cancel((*it)->program);
            command_forget(*it);
            return;
        }
}

struct command *command_new(struct loop *loop)
{
    struct command *command = NEW(struct command);

    command->loop = loop;
    command->handler = (struct notify_handler){"command", command, command_start, command_cancel};
    return command;
}

void command_free(struct command *command)
{
    if (!command)
        return;
    VEC_EACH(&command->runs, it) {
        program_cancel((*it)->program);
        free(*it);
    }
    vec_done(&command->runs);
    free(command);
}

const struct notify_handler *command_handler(const struct command *command)
{
    return &command->handler;
}
