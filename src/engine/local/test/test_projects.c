/* Numbers for folders that may hold only so much, with a stand-in for the kernel. */
#include "base/file.h"
#include "base/mem.h"
#include "engine/local/projects.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h> /* needs the others before it */
/* clang-format on */

/* ---- the stand-in ---- */

#define FIRST 100
#define IDS   16
#define NODES 64

static struct {
    bool off, counts_only, full; /* no quotas; not enforced; limits cannot be set */
    int64_t limit[IDS], files[IDS];
    struct {
        ino_t node;
        struct fsxattr attr;
    } nodes[NODES];
    size_t nodes_len;
    unsigned sets;
} kernel;

static int fake_quotactl(int fd, const char *device, int command, uint32_t id, void *arg)
{
    struct if_dqblk *block = arg;
    size_t at = id - FIRST;

    assert_true(fd >= 0 && device);
    assert_int_equal(command & SUBCMDMASK, PRJQUOTA);
    if (kernel.off) {
        errno = ESRCH;
        return -1;
    }
    switch ((unsigned)command >> SUBCMDSHIFT) {
    case Q_XGETQSTATV:
        ((struct fs_quota_statv *)arg)->qs_flags =
            FS_QUOTA_PDQ_ACCT | (kernel.counts_only ? 0 : FS_QUOTA_PDQ_ENFD);
        return 0;
    case Q_GETQUOTA:
        block->dqb_bhardlimit = at < IDS ? (uint64_t)kernel.limit[at] / 1024 : 0;
        block->dqb_curinodes = at < IDS ? (uint64_t)kernel.files[at] : 0;
        return 0;
    case Q_SETQUOTA:
        if (kernel.full) {
            errno = ENOSPC;
            return -1;
        }
        assert_true(at < IDS && (block->dqb_valid & QIF_BLIMITS));
        kernel.limit[at] = (int64_t)block->dqb_bhardlimit * 1024;
        return 0;
    default:
        fail();
    }
    return -1;
}

static int fake_ioctl(int fd, unsigned long request, void *arg)
{
    struct stat st;
    size_t i = 0;

    assert_int_equal(fstat(fd, &st), 0);
    while (i < kernel.nodes_len && kernel.nodes[i].node != st.st_ino)
        i++;
    if (i == kernel.nodes_len) {
        assert_true(i < NODES);
        kernel.nodes[kernel.nodes_len++].node = st.st_ino;
    }
    if (request == FS_IOC_FSGETXATTR) {
        *(struct fsxattr *)arg = kernel.nodes[i].attr;
    } else {
        assert_int_equal(request, FS_IOC_FSSETXATTR);
        kernel.nodes[i].attr = *(struct fsxattr *)arg;
        kernel.sets++;
    }
    return 0;
}

static const struct prjquota_calls fake = {fake_quotactl, fake_ioctl};

/* ---- a data folder ---- */

struct place {
    char dir[64];
};

static int setup(void **state)
{
    struct place *place = NEW(struct place);

    memset(&kernel, 0, sizeof(kernel));
    snprintf(place->dir, sizeof(place->dir), "/tmp/berth-projects-XXXXXX");
    assert_non_null(mkdtemp(place->dir));
    *state = place;
    return 0;
}

static void run(const char *fmt, const char *dir)
{
    char text[256];

    snprintf(text, sizeof(text), fmt, dir);
    assert_int_equal(system(text), 0); /* NOLINT(cert-env33-c): a fixed text */
}

static int teardown(void **state)
{
    run("rm -rf '%s'", ((struct place *)*state)->dir);
    free(*state);
    return 0;
}

static struct projects *open_at(const struct place *place)
{
    struct projects_config config = {place->dir, FIRST, FIRST + 3, &fake};
    struct projects *projects = NULL;
    struct err err = {0};

    if (projects_open(&config, &projects, &err) < 0)
        fail_msg("%s", err.msg);
    return projects;
}

static uint32_t give(struct projects *projects, const struct place *place, const char *name)
{
    CLEANUP(free) char *path = mem_printf("%s/%s", place->dir, name);
    struct err err = {0};
    uint32_t id = 0;

    assert_int_equal(dir_make(path, 0755, NULL), 0);
    if (projects_id(projects, name, &id, &err) < 0)
        fail_msg("%s", err.msg);
    return id;
}

/* ---- the tests ---- */

static void test_a_number_is_kept_and_given_once(void **state)
{
    const struct place *place = *state;
    struct projects *projects = open_at(place);

    assert_int_equal(give(projects, place, "volumes/a"), FIRST);
    assert_int_equal(give(projects, place, "volumes/b"), FIRST + 1);
    assert_int_equal(give(projects, place, "volumes/a"), FIRST);
    projects_free(projects);
    projects = open_at(place); /* a restart */
    assert_int_equal(projects_known(projects, "volumes/b"), FIRST + 1);
    assert_int_equal(give(projects, place, "volumes/c"), FIRST + 2);
    projects_free(projects);
}

static void test_numbers_that_others_use_are_left_to_them(void **state)
{
    struct projects *projects = open_at(*state);

    kernel.files[0] = 1;
    kernel.limit[1] = 4096;
    assert_int_equal(give(projects, *state, "volumes/a"), FIRST + 2);
    projects_free(projects);
}

static void test_a_number_is_free_when_its_folder_is_gone(void **state)
{
    const struct place *place = *state;
    struct projects *projects = open_at(place);
    struct err err = {0};
    uint32_t id;

    for (int i = 0; i < 4; i++) {
        char name[] = "volumes/x";

        name[8] = (char)('a' + i);
        id = give(projects, place, name);
        assert_int_equal(prjquota_limit(projects_quota(projects), id, 1 << 20, NULL), 0);
    }
    assert_int_equal(projects_id(projects, "volumes/e", &id, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    run("rmdir '%s/volumes/b'", place->dir);
    kernel.full = true; /* not while its limit cannot be taken off */
    projects_sweep(projects);
    assert_int_equal(projects_known(projects, "volumes/b"), FIRST + 1);
    kernel.full = false;
    projects_sweep(projects);
    assert_int_equal(projects_known(projects, "volumes/b"), 0);
    assert_int_equal(kernel.limit[1], 0);
    assert_int_equal(kernel.limit[0], 1 << 20);
    assert_int_equal(give(projects, place, "volumes/e"), FIRST + 1);
    projects_free(projects);
}

static void test_what_went_while_nobody_ran_is_free_at_start(void **state)
{
    const struct place *place = *state;
    struct projects *projects = open_at(place);

    assert_int_equal(prjquota_limit(projects_quota(projects), give(projects, place, "volumes/a"), 4096, NULL),
                     0);
    projects_free(projects);
    run("rmdir '%s/volumes/a'", place->dir);
    projects = open_at(place);
    assert_int_equal(projects_known(projects, "volumes/a"), 0);
    assert_int_equal(kernel.limit[0], 0);
    projects_free(projects);
}

static void test_folders_say_their_number_where_the_record_is_lost(void **state)
{
    const struct place *place = *state;
    struct projects *projects = open_at(place);
    CLEANUP(free) char *path = mem_printf("%s/volumes/b", place->dir);
    CLEANUP(fd_close) int fd = -1;
    uint32_t id;

    give(projects, place, "volumes/a");
    id = give(projects, place, "volumes/b");
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(prjquota_mark(projects_quota(projects), fd, id, NULL), 0);
    projects_free(projects);
    run("echo '{' > '%s/projects.json'", place->dir);
    projects = open_at(place);
    assert_int_equal(give(projects, place, "volumes/b"), id);
    projects_free(projects);
}

static void test_a_tree_is_marked_whole_and_links_are_not_followed(void **state)
{
    const struct place *place = *state;
    struct projects *projects = open_at(place);
    CLEANUP(free) char *path = mem_printf("%s/v", place->dir), *outside = mem_printf("%s/out", place->dir);
    CLEANUP(fd_close) int fd = -1, other = -1;
    uint32_t id;

    run("cd '%s' && mkdir -p v/d/e out && touch v/f v/d/g && ln -s ../out v/l && mkfifo v/p", place->dir);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(prjquota_mark_tree(projects_quota(projects), fd, 7, NULL), 0);
    assert_int_equal(kernel.sets, 5); /* v, v/f, v/d, v/d/e, v/d/g */
    assert_int_equal(prjquota_mark_tree(projects_quota(projects), fd, 7, NULL), 0);
    assert_int_equal(kernel.sets, 5); /* nothing is set twice */
    other = open(outside, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(prjquota_id_of(projects_quota(projects), other, &id, NULL), 0);
    assert_int_equal(id, 0);
    projects_free(projects);
}

static void test_a_file_system_without_them_is_named(void **state)
{
    struct projects_config config = {((struct place *)*state)->dir, 0, 0, &fake};
    struct projects *projects;
    struct err err = {0};

    kernel.off = true;
    assert_int_equal(projects_open(&config, &projects, &err), -1);
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "has no project quotas: they are off"));
    kernel.off = false;
    kernel.counts_only = true;
    assert_int_equal(projects_open(&config, &projects, &err), -1);
    assert_non_null(strstr(err.msg, "does not enforce project quotas"));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_a_number_is_kept_and_given_once),
        T(test_numbers_that_others_use_are_left_to_them),
        T(test_a_number_is_free_when_its_folder_is_gone),
        T(test_what_went_while_nobody_ran_is_free_at_start),
        T(test_folders_say_their_number_where_the_record_is_lost),
        T(test_a_tree_is_marked_whole_and_links_are_not_followed),
        T(test_a_file_system_without_them_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
