/* rules - what must hold after every event, seen from outside. */
#pragma once

#include "world.h"

struct rules *rules_new(struct world *world);
void rules_free(struct rules *rules);
void rules_look(struct rules *rules); /* cheap when nothing has changed */
void rules_end(struct rules *rules);  /* everything is over: what must have become of it */
bool rules_all_over(struct rules *rules);
bool rules_wanted(const struct rules *rules, const char *rule);
void rules_set_only(struct rules *rules, const char *rule); /* NULL: all; else those that begin so */
void rules_print(const struct rules *rules);                /* the rows of the last look */
uint64_t rules_looks(const struct rules *rules);
/* How far off ends were that were told after two epochs, in percent of what was left then. */
unsigned rules_end_errors(const struct rules *rules, int *ret, unsigned max);

/* Rules that the code of today is known to break: not looked at unless asked for by name. broken.c. */
bool rules_known_broken(const char *rule);
void rules_print_known_broken(void);
