/* fuzz_runtime - what the runtime reads that others wrote: exit records, the OCI runtime's log lines, the
 * list of mounts, and messages of a shim. The first byte says which. */
#include "runtime/runtime_internal.h"

#include <stdlib.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_record(struct str text)
{
    struct record record = {0};
    struct err err = {0};

    if (record_parse(text, &record, &err) < 0) {
        if (err.code == ERR_NONE || !err.msg[0])
            abort();
        return;
    }
    if (!record.failed && (record.how.code < 0 || record.how.code > 255))
        abort();
    free(record.failed);
}

static void fuzz_sentence(struct str text)
{
    CLEANUP(free) char *sentence = oci_sentence(text);

    if (!sentence)
        abort();
}

static void fuzz_mounts(struct str text)
{
    CLEANUP(cgroup_free) struct cgroup *cg = NULL;
    struct str controllers = {0};
    struct err err = {0};

    str_split(&text, '\0', &controllers);
    if (cgroup_parse(text, controllers, "/berth", &cg, &err) < 0) {
        if (err.code == ERR_NONE || !err.msg[0])
            abort();
        return;
    }
    for (size_t i = 0;; i++) {
        CLEANUP(free) char *path = cgroup_path(cg, i, "id");

        if (!path)
            return;
    }
}

/* A message is whatever length the other side made it. */
static void fuzz_message(struct str text)
{
    static char room[SHIM_CHUNK];
    struct shim_msg msg = {0};
    int pair[2], fd = -1;
    ssize_t len;

    if (text.len > SHIM_CHUNK || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return;
    if (send(pair[1], text.s, text.len, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) {
        len = oci_recv(pair[0], &msg, room, sizeof(room), &fd);
        if (len > (ssize_t)text.len || fd >= 0)
            abort();
    }
    close(pair[0]);
    close(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const targets[])(struct str text) = {fuzz_record, fuzz_sentence, fuzz_mounts, fuzz_message};

    if (size < 1 || size > 65536)
        return 0;
    targets[data[0] % ARRAY_LEN(targets)]((struct str){(const char *)data + 1, size - 1});
    return 0;
}
