/* A process that writes is killed at random moments, again and again, on the same file. Whatever it had
 * reported as durable must be there afterwards, and revisions must never go back. */
#include "base/clock.h"
#include "base/file.h"
#include "store_util.h"

#include <signal.h>
#include <sys/wait.h>

#define ROUNDS  40
#define OBJECTS 50

struct report {
    int64_t rv; /* of the object */
    int32_t object;
    int32_t removed;
};

struct pending {
    struct report report;
    int fd;
};

static void report_durable(void *arg, const struct err *err)
{
    struct pending *pending = arg;

    if (err || write(pending->fd, &pending->report, sizeof(pending->report)) != sizeof(pending->report))
        _exit(3);
    free(pending);
}

/* Writes, reports, and never returns. */
static void child(struct fixture *f, int fd)
{
    unsigned seed = (unsigned)getpid();

    fixture_open(f);
    for (;;) {
        for (int n = rand_r(&seed) % 8; n >= 0; n--) {
            struct pending *pending = malloc(sizeof(*pending));
            int object = rand_r(&seed) % OBJECTS;
            char name[16];
            bool there;

            snprintf(name, sizeof(name), "o%d", object);
            there = store_get(f->store, KIND_CONFIG_MAP, "a", name) != NULL;
            *pending = (struct pending){.fd = fd, .report.object = object};
            pending->report.removed = there && rand_r(&seed) % 4 == 0;
            pending->report.rv = pending->report.removed ? drop(f, "a", name) : put(f, "a", name);
            store_defer(f->store, report_durable, pending);
        }
        loop_turn(f->loop, rand_r(&seed) % 2, NULL);
    }
}

static void check(struct fixture *f, const struct report *known, int64_t highest)
{
    assert_true(store_revision(f->store) >= highest);
    for (int i = 0; i < OBJECTS; i++) {
        const struct object *object;
        char name[16];

        snprintf(name, sizeof(name), "o%d", i);
        object = store_get(f->store, KIND_CONFIG_MAP, "a", name);
        if (known[i].removed)
            assert_true(!object || object->rv > known[i].rv);
        else if (known[i].rv)
            assert_true(object ? object->rv >= known[i].rv : store_revision(f->store) > known[i].rv);
    }
}

static void test_what_was_reported_survives_kill(void **state)
{
    struct fixture *f = *state;
    struct report known[OBJECTS] = {0}, report;
    int64_t highest = 0;
    size_t reports = 0;

    fixture_close(f);
    for (int round = 0; round < ROUNDS; round++) {
        int fds[2];
        pid_t pid;

        assert_int_equal(pipe(fds), 0);
        pid = fork();
        if (pid == 0) {
            close(fds[0]);
            child(f, fds[1]);
        }
        close(fds[1]);
        usleep((useconds_t)(3000 + rand() % 40000));
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        while (read(fds[0], &report, sizeof(report)) == sizeof(report)) {
            assert_true(report.rv > highest); /* also higher than all before the crash */
            highest = report.rv;
            known[report.object] = report;
            reports++;
        }
        close(fds[0]);
        fixture_open(f);
        check(f, known, highest);
        highest = store_revision(f->store);
        fixture_close(f);
    }
    assert_true(reports > 0);
    fixture_open(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_was_reported_survives_kill, fixture_setup,
                                        fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
