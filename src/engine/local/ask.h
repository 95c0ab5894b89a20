/* ask - one question to a server in a pod: HTTP or HTTPS GET (whoever answers 200 to 399 is well;
 * certificates are not checked, as the kubelet does it), gRPC's health service, or just a connection. */
#pragma once

#include "base/json.h"

#define ASK_ANSWER_MAX 16384 /* bytes of an answer that are looked at */

struct ask;
struct local_pod;

struct ask_what {
    uint16_t port;
    const struct json *http; /* httpGet; NULL: none */
    const char *host;        /* asked instead of the pod, from the host's network; NULL or "": the pod */
    const char *grpc;        /* a service; NULL: no gRPC */
};

/* why NULL: well. The handle is gone by then. Never from inside ask_new. */
typedef void (*ask_fn)(void *arg, const char *why);
struct ask *ask_new(struct local_pod *pod, const struct ask_what *what, ask_fn fn, void *arg);
void ask_cancel(struct ask *ask); /* NULL is fine */
/* A port by its number, or by the name that the container gives it; 0: there is none. */
uint16_t ask_port(const struct json *container, const struct json *port);
