/* bug - a mistake of our own that must not go on: one line on stderr, then the end of the process. */
#pragma once

_Noreturn void bug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
