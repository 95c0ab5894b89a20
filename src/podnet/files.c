/* files - see files.h. */
#include "podnet/files.h"

#include "base/file.h"
#include "base/vec.h"

#include <arpa/inet.h>
#include <ctype.h>

#define RESOLVED_STUB "127.0.0.53"
#define RESOLVED_REAL "/run/systemd/resolve/resolv.conf"

int podnet_dns_policy(const char *text, enum podnet_dns_policy *ret, struct err *err)
{
    static const struct {
        const char *text;
        enum podnet_dns_policy policy;
    } rows[] = {
        {"", PODNET_DNS_DEFAULT},
        {"Default", PODNET_DNS_DEFAULT},
        {"ClusterFirst", PODNET_DNS_DEFAULT},
        {"ClusterFirstWithHostNet", PODNET_DNS_DEFAULT},
        {"None", PODNET_DNS_NONE},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (streq(text ? text : "", rows[i].text)) {
            *ret = rows[i].policy;
            return 0;
        }
    return err_set(err, ERR_INVALID, "dnsPolicy '%s' is not known", text);
}

/* ---- resolv.conf ---- */

struct words {
    struct str *v;
    size_t len, cap;
};

struct resolver {
    struct words nameservers, searches, options;
};

static void resolver_done_cleanup_(struct resolver *r)
{
    vec_done(&r->nameservers);
    vec_done(&r->searches);
    vec_done(&r->options);
}

static void add_once(struct words *words, struct str word)
{
    VEC_EACH(words, it)
        if (str_eq(*it, word))
            return;
    vec_push(words, word);
}

static bool next_word(struct str *rest, struct str *ret)
{
    size_t n = 0;

    while (rest->len && isspace((unsigned char)rest->s[0])) {
        rest->s++;
        rest->len--;
    }
    while (n < rest->len && !isspace((unsigned char)rest->s[n]))
        n++;
    *ret = (struct str){rest->s, n};
    rest->s += n;
    rest->len -= n;
    return n > 0;
}

static bool is_address(struct str s)
{
    char text[INET6_ADDRSTRLEN + 16];
    unsigned char addr[16];
    const char *scope = memchr(s.s, '%', s.len);
    size_t len = scope ? (size_t)(scope - s.s) : s.len;

    if (len == 0 || len >= sizeof(text))
        return false;
    memcpy(text, s.s, len);
    text[len] = '\0';
    return inet_pton(AF_INET6, text, addr) == 1 || (!scope && inet_pton(AF_INET, text, addr) == 1);
}

static bool is_loopback(struct str s)
{
    return str_starts(s, "127.") || str_is(s, "::1");
}

/* An option replaces an earlier one of the same name ("ndots:5"). */
static void add_option(struct words *options, struct str option)
{
    const char *colon = memchr(option.s, ':', option.len);
    size_t name = colon ? (size_t)(colon - option.s) : option.len;

    VEC_EACH(options, it)
        if (it->len >= name && memcmp(it->s, option.s, name) == 0 &&
            (it->len == name || it->s[name] == ':')) {
            *it = option;
            return;
        }
    vec_push(options, option);
}

static void read_line(struct resolver *r, struct str line, bool own_netns)
{
    struct str key, word;

    if (!next_word(&line, &key) || key.s[0] == '#' || key.s[0] == ';')
        return;
    if (str_is(key, "nameserver") && next_word(&line, &word)) {
        if (is_address(word) && !(own_netns && is_loopback(word)))
            add_once(&r->nameservers, word);
    } else if (str_is(key, "search") || str_is(key, "domain")) {
        r->searches.len = 0; /* the last such line counts */
        while (next_word(&line, &word))
            if (!str_is(word, "."))
                add_once(&r->searches, word);
    } else if (str_is(key, "options")) {
        while (next_word(&line, &word))
            add_option(&r->options, word);
    }
}

static bool is_plain(const char *s)
{
    for (const char *c = s; *c; c++)
        if (isspace((unsigned char)*c) || iscntrl((unsigned char)*c))
            return false;
    return s[0] != '\0';
}

static int add_config(struct resolver *r, const struct podnet_dns *dns, struct err *err)
{
    for (const char *const *s = dns->nameservers; s && *s; s++) {
        if (!is_address(str_from(*s)))
            return err_set(err, ERR_INVALID, "nameserver '%s' is no address", *s);
        add_once(&r->nameservers, str_from(*s));
    }
    for (const char *const *s = dns->searches; s && *s; s++) {
        if (!is_plain(*s))
            return err_set(err, ERR_INVALID, "search domain '%s' has blanks", *s);
        add_once(&r->searches, str_from(*s));
    }
    return 0;
}

static int write_options(struct buf *ret, struct resolver *r, const struct podnet_dns *dns, struct err *err)
{
    CLEANUP(buf_done) struct buf text = {0};
    size_t start = 0;

    /* All of them first, since words borrow from text, which moves as it grows. */
    for (size_t i = 0; i < dns->options_len; i++) {
        const struct podnet_dns_option *o = &dns->options[i];

        if (!is_plain(o->name) || (o->value && o->value[0] && !is_plain(o->value)))
            return err_set(err, ERR_INVALID, "dns option '%s' has blanks", o->name);
        buf_printf(&text, "%s%s%s\n", o->name, o->value && o->value[0] ? ":" : "", o->value ? o->value : "");
    }
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] == '\n') {
            add_option(&r->options, (struct str){text.data + start, i - start});
            start = i + 1;
        }
    if (r->options.len)
        buf_puts(ret, "options");
    VEC_EACH(&r->options, it)
        buf_printf(ret, " %.*s", STR_ARG(*it));
    if (r->options.len)
        buf_putc(ret, '\n');
    return 0;
}

static void write_searches(struct buf *ret, const struct words *searches)
{
    size_t chars = 0, n = 0;

    VEC_EACH(searches, it) {
        chars += it->len + 1;
        if (n == PODNET_SEARCHES_MAX || chars > PODNET_SEARCH_CHARS)
            break;
        buf_printf(ret, "%s%.*s", n++ ? " " : "search ", STR_ARG(*it));
    }
    if (n)
        buf_putc(ret, '\n');
}

int podnet_resolv_conf(struct buf *ret, struct str host, const struct podnet_dns *dns, bool own_netns,
                       const char *fallback, struct err *err)
{
    CLEANUP(resolver_done) struct resolver r = {0};
    CLEANUP(buf_done) struct buf text = {0};
    struct str line;

    if (dns->policy == PODNET_DNS_DEFAULT) {
        while (str_split(&host, '\n', &line))
            read_line(&r, line, own_netns);
        if (!r.nameservers.len && fallback)
            vec_push(&r.nameservers, str_from(fallback));
    }
    if (add_config(&r, dns, err) < 0)
        return -1;
    if (dns->policy == PODNET_DNS_NONE && !r.nameservers.len)
        return err_set(err, ERR_INVALID, "dnsPolicy None needs a nameserver in dnsConfig");
    write_searches(&text, &r.searches);
    for (size_t i = 0; i < r.nameservers.len && i < PODNET_NAMESERVERS_MAX; i++)
        buf_printf(&text, "nameserver %.*s\n", STR_ARG(r.nameservers.v[i]));
    if (write_options(&text, &r, dns, err) < 0)
        return -1;
    buf_str(ret, buf_view(&text));
    return 0;
}

static int read_or_empty(const char *root, const char *path, struct buf *ret, struct err *err)
{
    CLEANUP(free) char *full = mem_printf("%s%s", root, path);
    struct err why = {0};

    if (file_read(full, PODNET_RESOLV_MAX, ret, &why) == 0 || why.code == ERR_NOT_FOUND)
        return 0;
    if (err)
        *err = why;
    return -1;
}

int podnet_host_resolv(const char *root, struct buf *ret, struct err *err)
{
    CLEANUP(buf_done) struct buf text = {0}, real = {0};
    struct str rest, line, word;
    bool stub = false;

    if (read_or_empty(root, "/etc/resolv.conf", &text, err) < 0)
        return -1;
    rest = buf_view(&text);
    while (str_split(&rest, '\n', &line))
        if (next_word(&line, &word) && str_is(word, "nameserver") && next_word(&line, &word))
            stub |= str_is(word, RESOLVED_STUB);
    if (stub && read_or_empty(root, RESOLVED_REAL, &real, err) < 0)
        return -1;
    buf_str(ret, real.len ? buf_view(&real) : buf_view(&text));
    return 0;
}

/* ---- hosts ---- */

static int write_aliases(struct buf *ret, const struct podnet_hosts *hosts, struct err *err)
{
    if (hosts->aliases_len)
        buf_puts(ret, "\n# Entries added by HostAliases.\n");
    for (size_t i = 0; i < hosts->aliases_len; i++) {
        const struct podnet_host_alias *a = &hosts->aliases[i];

        if (!a->ip || !is_address(str_from(a->ip)))
            return err_set(err, ERR_INVALID, "hostAliases: '%s' is no address", a->ip ? a->ip : "");
        buf_puts(ret, a->ip);
        for (const char *const *name = a->names; name && *name; name++) {
            if (!is_plain(*name) || strchr(*name, '#'))
                return err_set(err, ERR_INVALID, "hostAliases: '%s' is no host name", *name);
            buf_printf(ret, "\t%s", *name);
        }
        buf_putc(ret, '\n');
    }
    return 0;
}

int podnet_hosts_file(struct buf *ret, const struct podnet_hosts *hosts, struct err *err)
{
    CLEANUP(buf_done) struct buf text = {0};

    if (hosts->host_file) {
        buf_puts(&text, "# Kubernetes-managed hosts file (host network).\n");
        buf_puts(&text, hosts->host_file);
        if (text.data[text.len - 1] != '\n')
            buf_putc(&text, '\n');
    } else {
        buf_puts(&text, "# Kubernetes-managed hosts file.\n"
                        "127.0.0.1\tlocalhost\n"
                        "::1\tlocalhost ip6-localhost ip6-loopback\n"
                        "fe00::0\tip6-localnet\n"
                        "fe00::0\tip6-mcastprefix\n"
                        "fe00::1\tip6-allnodes\n"
                        "fe00::2\tip6-allrouters\n");
        if (hosts->ip && hosts->hostname)
            buf_printf(&text, "%s\t%s%s%s\n", hosts->ip, hosts->fqdn && hosts->fqdn[0] ? hosts->fqdn : "",
                       hosts->fqdn && hosts->fqdn[0] ? "\t" : "", hosts->hostname);
    }
    if (write_aliases(&text, hosts, err) < 0)
        return -1;
    buf_str(ret, buf_view(&text));
    return 0;
}

void podnet_hostname(char ret[PODNET_HOSTNAME_MAX + 1], const char *pod_name, const char *spec_hostname)
{
    const char *from = spec_hostname && spec_hostname[0] ? spec_hostname : pod_name;
    size_t len = strnlen(from, PODNET_HOSTNAME_MAX);

    while (len && (from[len - 1] == '-' || from[len - 1] == '.'))
        len--;
    memcpy(ret, from, len);
    ret[len] = '\0';
}

void podnet_fqdn(struct buf *ret, const char *hostname, const char *subdomain, const char *namespace_,
                 const char *domain)
{
    if (subdomain && subdomain[0])
        buf_printf(ret, "%s.%s.%s.svc.%s", hostname, subdomain, namespace_, domain);
}
