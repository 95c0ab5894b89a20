/* fuzz_train - any body of POST /v1/train: refused with a sentence, or a spec that is typed, can be checked,
 * made a pod of and written as a command line. */
#include "base/buf.h"
#include "base/cleanup.h"
#include "control/training.h"
#include "control/training_check.h"
#include "objects/train_options.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct training_node node = {.name = "n", .card_count = 1};
    static const struct training_facts facts = {
        .room = {.known = true, .gpus = 2, .largest_card_mib = 8192, .cpu_milli = 4000, .mem_mib = 65536},
        .datasets = "/home/a/datasets",
        .snapshots = "/home/a/s"};
    struct training_run run = {
        .nodes = &node, .node_count = 1, .num_gpus = 1, .url = "http://h:1", .library = "/l"};
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf line = {0};
    struct train_request request;
    struct json *body, *job;
    struct err err = {0};

    if (json_parse((struct str){(const char *)data, size}, &arena, &body, NULL, &err) < 0)
        return 0;
    if (train_request_read(&arena, body, &request, &err) < 0) {
        must(err.code == ERR_INVALID && err.msg[0], "a refusal without a sentence");
        return 0;
    }
    must(strlen(train_object_name(&arena, request.name)) <= TRAIN_NAME_MAX, "a name that is too long");
    train_command_line(&line, request.spec, request.name);
    err = (struct err){0};
    if (training_check(request.spec, &facts, &err) < 0)
        must(err.msg[0], "a refusal without a sentence");
    job = json_new_object(&arena);
    json_set(&arena, job, "spec", *request.spec);
    must(json_len(json_at(training_pod(&arena, job, &run), "spec.containers")) == 1,
         "a pod without a container");
    return 0;
}
