/* tree - deleting folders with everything in them, however deep, without following links or leaving the file
 * system. */
#pragma once

#include "base/err.h"

/* `name` in the folder open as dir; what is not there is fine. */
int tree_remove(int dir, const char *name, struct err *err);
