/* schema_tables - the types in the order of the tables, for what goes through all of them. */
#pragma once

#include "objects/schema.h"

const struct schema_type *schema_type_at(size_t i);       /* NULL past the last */
size_t schema_type_index(const struct schema_type *type); /* type is one of the tables */
