/* What berth template, define and task share. */
#pragma once

#include "base/buf.h"
#include "cli/cli.h"

/* A JSON or YAML object from a file or "-". An exit code. */
int task_read(struct cli *cli, const char *path, struct json **ret);
/* "/v1/jobs/ID/logs?namespace=NS": PREFIX, the encoded id, what follows, -n where given; and further
 * parameters. */
void task_target(const struct args *args, struct buf *target, const char *prefix, const char *id,
                 const char *rest);
void task_param(struct buf *target, const char *name, const char *value);
/* -o of the arguments; fallback where it is not given. An exit code. */
int task_output(const struct args *args, enum output *ret);
/* Asks for each of the arguments, printing "WHAT NAME deleted". */
int task_delete_all(struct cli *cli, const struct args *args, const char *prefix, const char *what);
