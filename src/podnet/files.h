/* files - /etc/hosts, /etc/resolv.conf and the host name of a pod, as text. No pod, no I/O but the reading
 * of the host's resolv.conf. Lists end with NULL; NULL is an empty list. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

/* Kubernetes' limits of what a resolver takes. */
#define PODNET_NAMESERVERS_MAX 3
#define PODNET_SEARCHES_MAX    32
#define PODNET_SEARCH_CHARS    2048
#define PODNET_HOSTNAME_MAX    63
#define PODNET_RESOLV_MAX      65536 /* bytes of the host's file */

enum podnet_dns_policy {
    PODNET_DNS_DEFAULT, /* the host's; ClusterFirst and ClusterFirstWithHostNet too: there is no cluster DNS
                         */
    PODNET_DNS_NONE,    /* only what dnsConfig says */
};

/* "Default", "ClusterFirst", "ClusterFirstWithHostNet", "None"; NULL or "": Default. ERR_INVALID: another. */
int podnet_dns_policy(const char *text, enum podnet_dns_policy *ret, struct err *err);

struct podnet_dns_option {
    const char *name, *value; /* value NULL: none */
};

struct podnet_dns {
    enum podnet_dns_policy policy;
    const char *const *nameservers; /* dnsConfig, merged after the host's ones */
    const char *const *searches;
    const struct podnet_dns_option *options;
    size_t options_len;
};

/* Appends resolv.conf. host: the text of the host's file (podnet_host_resolv). Nameservers on the host's
 * loopback are of no use in a namespace of its own and are left out when own_netns; without any left
 * `fallback` (NULL: none) stands in, as slirp's 10.0.2.3. What is beyond the
 * limits above is left out, as the kubelet does. ERR_INVALID: policy None without a nameserver, one that is
 * no address, names with blanks. */
int podnet_resolv_conf(struct buf *ret, struct str host, const struct podnet_dns *dns, bool own_netns,
                       const char *fallback, struct err *err);
/* The host's resolv.conf; where that is systemd-resolved's stub, the file with the real upstreams. root: ""
 * or a folder that stands for "/" (tests). A missing file is empty text. */
int podnet_host_resolv(const char *root, struct buf *ret, struct err *err);

struct podnet_host_alias {
    const char *ip;
    const char *const *names;
};

struct podnet_hosts {
    const char *ip; /* the pod's; NULL: none yet */
    const char *hostname;
    const char *fqdn; /* NULL: none; from podnet_fqdn */
    const struct podnet_host_alias *aliases;
    size_t aliases_len;
    const char *host_file; /* text of the host's /etc/hosts: pods in its network get that, then the aliases */
};
/* Appends /etc/hosts, as the kubelet writes it. ERR_INVALID: an alias is no address or no name. */
int podnet_hosts_file(struct buf *ret, const struct podnet_hosts *hosts, struct err *err);

/* spec.hostname, else the pod's name, cut to 63 characters so that it still ends with a letter or digit. */
void podnet_hostname(char ret[PODNET_HOSTNAME_MAX + 1], const char *pod_name, const char *spec_hostname);
/* "HOSTNAME.SUBDOMAIN.NAMESPACE.svc.DOMAIN", or "" without a subdomain. */
void podnet_fqdn(struct buf *ret, const char *hostname, const char *subdomain, const char *namespace_,
                 const char *domain);
