/* queue_view - jobs and cards, as docs/rest.md describes them, as text for a terminal. */
#pragma once

#include "cli/cli.h"

/* "/v1/queue/ID/WHAT"; what "": the job itself. */
const char *job_target(struct cli *cli, const char *id, const char *what);

double view_number(const struct json *value, double fallback);
const char *view_ordinal(struct cli *cli, const struct json *job);  /* "1st", "0.5", "CPU" */
const char *view_priority(struct cli *cli, const struct json *job); /* "auto", "+2", "-3" */
const char *view_gpus(struct cli *cli, const struct json *job);     /* "2", "8192 MiB", "CPU" */
const char *view_progress(struct cli *cli, const struct json *job); /* "30% (3/10)", "-" */
const char *view_age(struct cli *cli, const struct json *time);     /* since then: "3h20m"; "-" */
/* From now until then: "in 12m (5m to 20m)"; "-" when it is not known. */
const char *view_until(struct cli *cli, const struct json *time, const struct json *low,
                       const struct json *high);
const char *view_span(struct cli *cli, double seconds); /* "3h20m" */

/* The queue as a table: running jobs, then those that wait. `groups`: a line between ordinals. */
void view_queue(struct cli *cli, const struct json *doc, bool wide, bool groups, FILE *out);
/* The cards: who is on them, memory, use. */
void view_nodes(struct cli *cli, const struct json *doc, FILE *out);

/* Draws again every second until q, Esc or Ctrl-C; the arrow and page keys scroll. Where stdout is no
 * terminal: once, without end. draw writes into out and returns an exit code; on an error it returns -1 and
 * err says what. Memory it takes from cli->arena is released after each drawing. */
typedef int (*screen_draw_fn)(struct cli *cli, void *arg, FILE *out, struct err *err);
int screen_run(struct cli *cli, screen_draw_fn draw, void *arg);
