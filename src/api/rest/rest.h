/* rest - Berth's own addresses under /v1, by a table. */
#pragma once

#include "api/call.h"

bool rest_handle(struct call *call); /* true when the path is one of ours */

/* apply.c */
void rest_apply(struct call *call, const char *id);
/* users.c */
void rest_users_list(struct call *call, const char *id);
void rest_users_add(struct call *call, const char *id);
void rest_tokens_list(struct call *call, const char *id);
void rest_tokens_add(struct call *call, const char *id);
void rest_tokens_revoke(struct call *call, const char *id);
void rest_kubeconfig(struct call *call, const char *id);

/* The body as one JSON or YAML object. */
int rest_body(struct call *call, struct json **ret);
