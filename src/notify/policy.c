#include "notify/policy.h"

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/vec.h"

#include <arpa/inet.h>
#include <netinet/in.h>

/* An IPv4 address is kept as ::ffff:a.b.c.d, so that one comparison does for both. */
struct network {
    unsigned char address[16];
    unsigned bits;
};

struct policy {
    VEC(struct network) allowed;
};

static const char *const special[] = {
    "0.0.0.0/8",     "10.0.0.0/8",      "100.64.0.0/10",  "127.0.0.0/8",    "169.254.0.0/16",
    "172.16.0.0/12", "192.0.0.0/24",    "192.0.2.0/24",   "192.88.99.0/24", "192.168.0.0/16",
    "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4",    "240.0.0.0/4",
    "::/96",         "64:ff9b::/32",    "100::/64",       "2001::/23",      "2001:db8::/32",
    "2002::/16",     "fc00::/7",        "fe80::/10",      "fec0::/10",      "ff00::/8",
};

static const struct word {
    const char *word;
    const char *networks[5];
} words[] = {
    {"private", {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"}},
    {"loopback", {"127.0.0.0/8", "::1/128"}},
    {"all", {"0.0.0.0/0", "::/0"}},
};

static void map_v4(unsigned char ret[16], const void *v4)
{
    memset(ret, 0, 10);
    memset(ret + 10, 0xff, 2);
    memcpy(ret + 12, v4, 4);
}

static bool parse_network(struct str text, struct network *ret)
{
    char buf[64];
    struct in_addr v4;
    uint64_t bits;
    struct str address;
    unsigned width;

    str_split(&text, '/', &address);
    if (address.len == 0 || address.len >= sizeof(buf))
        return false;
    memcpy(buf, address.s, address.len);
    buf[address.len] = '\0';
    if (inet_pton(AF_INET, buf, &v4) == 1) {
        map_v4(ret->address, &v4);
        width = 32;
    } else if (inet_pton(AF_INET6, buf, ret->address) == 1) {
        width = 128;
    } else {
        return false;
    }
    bits = width;
    if (text.s && (!str_to_uint(text, &bits) || bits > width))
        return false;
    ret->bits = (unsigned)bits + (128 - width);
    return true;
}

static bool contains(const struct network *network, const unsigned char address[16])
{
    unsigned whole = network->bits / 8, rest = network->bits % 8;

    if (memcmp(network->address, address, whole) != 0)
        return false;
    return rest == 0 || ((network->address[whole] ^ address[whole]) & (0xff00 >> rest) & 0xff) == 0;
}

static int add_entry(struct policy *policy, const char *entry, struct err *err)
{
    struct network network;

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (streq(words[i].word, entry)) {
            for (size_t n = 0; n < ARRAY_LEN(words[i].networks) && words[i].networks[n]; n++)
                if (parse_network(str_from(words[i].networks[n]), &network))
                    vec_push(&policy->allowed, network);
            return 0;
        }
    if (!parse_network(str_from(entry), &network))
        return err_set(err, ERR_INVALID,
                       "must be private, loopback, all or networks like 192.0.2.0/24, not '%s'", entry);
    if (policy->allowed.len >= POLICY_NETWORKS_MAX)
        return err_set(err, ERR_LIMIT, "more than %d networks", POLICY_NETWORKS_MAX);
    vec_push(&policy->allowed, network);
    return 0;
}

int policy_new(const char *const *entries, size_t count, struct policy **ret, struct err *err)
{
    struct policy *policy = NEW(struct policy);

    for (size_t i = 0; i < count; i++)
        if (add_entry(policy, entries[i], err) < 0) {
            policy_free(policy);
            return -1;
        }
    *ret = policy;
    return 0;
}

void policy_free(struct policy *policy)
{
    if (!policy)
        return;
    vec_done(&policy->allowed);
    free(policy);
}

static bool allows(const struct policy *policy, const unsigned char address[16])
{
    struct network network;

    VEC_EACH(&policy->allowed, it)
        if (contains(it, address))
            return true;
    for (size_t i = 0; i < ARRAY_LEN(special); i++)
        if (parse_network(str_from(special[i]), &network) && contains(&network, address))
            return false;
    return true;
}

bool policy_allows(const struct policy *policy, const struct sockaddr *address)
{
    unsigned char bytes[16];

    if (address->sa_family == AF_INET)
        map_v4(bytes, &((const struct sockaddr_in *)(const void *)address)->sin_addr);
    else if (address->sa_family == AF_INET6)
        memcpy(bytes, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, sizeof(bytes));
    else
        return false;
    return allows(policy, bytes);
}

bool policy_allows_host(const struct policy *policy, struct str host)
{
    struct network network;

    if (str_ieq(host, STR("localhost")))
        host = STR("127.0.0.1");
    if (str_starts(host, "[") && str_ends(host, "]"))
        host = (struct str){host.s + 1, host.len - 2};
    if (host.len && memchr(host.s, '/', host.len))
        return false;
    return !parse_network(host, &network) || allows(policy, network.address);
}
