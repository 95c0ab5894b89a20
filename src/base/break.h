/* break - rules that a build made for it (-Dbreak_rules=true) breaks on purpose, one at a time, to show that
 * tests/world finds that. In every other build rule_broken() is false and leaves no trace.
 *
 * A rule is named as in tests/world: "1" nobody is displaced for work that cannot start, "2" the order is
 * kept, "3" first GPUs come before later ones, "4" no card idles, "5" large jobs are not passed by for ever,
 * "6" every job has one record of its end, "7" what is shown is so, "8" estimates stand still. */
#pragma once

#ifdef BERTH_BREAK_RULES
#include "base/str.h"

extern const char *rule_to_break; /* NULL: none */
#define rule_broken(rule) (rule_to_break && streq(rule_to_break, (rule)))
#else
#define rule_broken(rule) false
#endif
