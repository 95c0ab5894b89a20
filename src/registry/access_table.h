/* access_table - the rows that access.c decides by, for whoever wants to show or test them. */
#pragma once

#include "base/str.h"
#include "objects/kind.h"

/* What members of a namespace may do there, and what everybody known may do everywhere. Viewers may do of
 * either what reads; whose an object is decides as well (access.c). */
struct access_grant {
    int kind;
    unsigned member;  /* verbs in one's namespaces */
    unsigned anybody; /* verbs in all of the cluster */
};
extern const struct access_grant access_grants[];
extern const size_t access_grant_count;

enum access_who {
    ACCESS_ANY,   /* everybody */
    ACCESS_VIEW,  /* everybody known, and others where the setting `anonymous` says so */
    ACCESS_KNOWN, /* everybody known */
    ACCESS_USER,  /* everybody known but viewers */
    ACCESS_ADMIN,
    ACCESS_JOB, /* a job: its token or its pods; the route itself asks */
};
const char *access_who_name(enum access_who who);

struct access_path {
    const char *method; /* GET stands for HEAD as well */
    const char *path;   /* '*' takes a segment, '**' one or two (NAME, NAMESPACE/NAME), '/...' all below */
    enum access_who who;
};
extern const struct access_path access_paths[];
extern const size_t access_path_count;

/* Whether a raw path is of a pattern; id is what the stars took, still encoded. */
bool access_pattern(const char *pattern, const char *path, struct str *id);
/* The row of a request; NULL: none, where known tells whether the path has one of another method. */
const struct access_path *access_path_find(const char *method, const char *path, bool *known);
/* "GET, HEAD, POST": what can be done at a path, for Allow. */
void access_path_methods(const char *path, struct buf *ret);
