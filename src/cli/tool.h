/* tool - programs that berth calls (buildah, skopeo), and what they say when they fail. */
#pragma once

#include "cli/cli.h"

#define TOOL_ARGS_MAX  160
#define TOOL_ERROR_MAX 2048

bool tool_exists(const char *name);
void tool_arg(const char **argv, const char *arg); /* argv: NULL-ended, TOOL_ARGS_MAX long */

/* Runs a program to its end; Ctrl-C ends it, not us. in: what it reads, NULL: nothing. quiet: what it writes
 * to stdout goes nowhere. What it writes to stderr is shown: on a terminal as it comes, with its progress
 * bars; elsewhere a line a layer. The words of its failure are kept for tool_fail instead. Its exit status;
 * 127: it is not there, 128 and more: a signal. */
struct tool_error {
    char text[TOOL_ERROR_MAX];
};
int tool_run(const char *const *argv, const char *in, bool quiet, struct tool_error *error);

/* "WHAT: WHY", in one sentence that says what to do; host: the registry, where the error names no other.
 * Gives an exit status. */
int tool_fail(struct cli *cli, const struct tool_error *error, const char *host, const char *what, ...)
    __attribute__((format(printf, 4, 5)));
