/* vm - what vm.c shares with its helpers. */
#pragma once

#include "jinja/code.h"
#include "jinja/run.h"

void error_source_line(struct jinja_error *err, struct str source, uint32_t line);
int unary(struct run *r, bool neg, struct jv v, struct jv *ret);
int gather_dynamic(struct run *r, const struct call_info *info, const struct jv *args, struct call *c);
