/* fuzz_trace - a trace of our own format: what is read can be simulated, all else is refused with file and
 * line. */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define JOBS_MAX 20 /* that are also run */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run(const struct trace *trace)
{
    struct sim_options options = {.policy = "fair", .restart_s = -1};
    struct sim_result result;
    struct err err = {0};

    for (size_t i = 0; i < trace->jobs.len; i++)
        if (trace->segments.v[trace->jobs.v[i].segment0].epochs > 50)
            return;
    if (sim_run(trace, &options, &result, &err) == 0 && !(result.makespan_s > 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(trace_free) struct trace *trace = NULL;
    int fd = memfd_create("trace", MFD_CLOEXEC);
    struct err err = {0};
    char path[64];

    if (size > 65536 || fd < 0 || write(fd, data, size) != (ssize_t)size)
        size = 0;
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (trace_load(&(struct trace_request){.path = path, .cluster = "2x8"}, &trace, &err) < 0) {
        if (!err.msg[0])
            abort();
    } else if (trace->jobs.len <= JOBS_MAX) {
        run(trace);
    }
    (void)close(fd);
    return 0;
}
