/* log_tail - where the last lines of a log file begin, found from its end. Part of log_reader. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* One entry: "TIME STREAM TAG TEXT". False: it is none. */
struct log_entry {
    const char *time, *text;
    size_t time_len, text_len;
    char tag; /* 'F' or 'P' */
};
bool log_entry_parse(const char *line, size_t len, struct log_entry *ret); /* without the newline */

/* How many lines are still wanted, through the files from the newest to the oldest. */
struct log_tail {
    int64_t left;
    bool begun; /* an entry was seen: the newest may be P, but then it still counts as a line */
    bool done;  /* all were found */
};
/* Looks through one file; returns where to begin in it. */
off_t log_tail_find(struct log_tail *tail, int fd);
