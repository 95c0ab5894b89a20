/* Cards, by a stand-in for NVIDIA's library (tests/data/fake-nvml) and declared. */
#include "base/mem.h"
#include "base/test/test.h"
#include "gpu/cdi.h"
#include "gpu/gpu.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>

static const char *library, *old_library;

static struct gpus *open_with(const char *lib, const char *declared)
{
    struct gpu_config config = {.library = lib, .declared = declared};
    struct gpus *gpus = NULL;
    struct err err = {0};

    if (gpu_open(&config, &gpus, &err) < 0)
        fail_msg("%s", err.msg);
    return gpus;
}

static int clear_env(void **state)
{
    (void)state;
    unsetenv("FAKE_GPUS");
    unsetenv("FAKE_GPU_MIB");
    unsetenv("FAKE_GPU_PROCS");
    unsetenv("FAKE_GPU_LOST");
    unsetenv("FAKE_GPU_ECC");
    unsetenv("FAKE_GPU_INIT");
    return 0;
}

static void test_cards_are_what_the_library_says(void **state)
{
    CLEANUP(gpu_close) struct gpus *gpus = NULL;
    const struct gpu_card *card;

    (void)state;
    setenv("FAKE_GPUS", "2", 1);
    setenv("FAKE_GPU_PROCS", "1:4242:1024", 1);
    gpus = open_with(library, NULL);
    assert_string_equal(gpu_source(gpus), "NVML 99.999.1-fake, driver 999.1-fake");
    assert_int_equal(gpu_count(gpus), 2);
    card = gpu_at(gpus, 1);
    assert_int_equal(card->index, 1);
    assert_false(card->declared);
    assert_string_equal(card->uuid, "GPU-fa4e0000-0000-0000-0000-000000000001");
    assert_string_equal(card->name, "Fake RTX");
    assert_string_equal(card->bus, "00000000:02:00.0");
    assert_int_equal(card->minor, 1);
    assert_int_equal(card->memory_mib, 24576);
    assert_int_equal(card->used_mib, 1024);
    assert_int_equal(card->busy_percent, 75);
    assert_int_equal(card->temperature_c, 42);
    assert_true(card->healthy);
    assert_null(gpu_at(gpus, 2));
}

static void test_no_library_is_no_card(void **state)
{
    CLEANUP(gpu_close) struct gpus *gpus = open_with("libno-such-nvml.so.1", NULL);

    (void)state;
    assert_int_equal(gpu_count(gpus), 0);
    assert_true(starts_with(gpu_source(gpus), "none (libno-such-nvml.so.1: cannot open"));
}

static void test_library_without_driver_is_no_card(void **state)
{
    CLEANUP(gpu_close) struct gpus *gpus = NULL;

    (void)state;
    setenv("FAKE_GPU_INIT", "9", 1);
    gpus = open_with(library, NULL);
    assert_int_equal(gpu_count(gpus), 0);
    assert_non_null(strstr(gpu_source(gpus), "Driver Not Loaded"));
}

static void test_processes_are_listed_once_for_each_card(void **state)
{
    const char *libs[] = {library, old_library};

    (void)state;
    setenv("FAKE_GPUS", "2", 1);
    setenv("FAKE_GPU_PROCS", "0:100:500,0:101:600,1:100:700", 1);
    for (size_t i = 0; i < ARRAY_LEN(libs); i++) { /* both layouts */
        CLEANUP(gpu_close) struct gpus *gpus = open_with(libs[i], NULL);
        struct gpu_procs procs = {0};

        gpu_procs(gpus, &procs);
        assert_int_equal(procs.len, 3);
        assert_int_equal(procs.v[0].pid, 100);
        assert_int_equal(procs.v[0].used_mib, 500);
        assert_int_equal(procs.v[1].pid, 101);
        assert_int_equal(procs.v[1].used_mib, 600);
        assert_int_equal(procs.v[2].card, 1);
        assert_int_equal(procs.v[2].used_mib, 700);
        vec_done(&procs);
    }
}

static void test_old_library_does_with_what_it_has(void **state)
{
    CLEANUP(gpu_close) struct gpus *gpus = NULL;
    const char *why = NULL;
    struct err err = {0};

    (void)state;
    setenv("FAKE_GPUS", "1", 1);
    gpus = open_with(old_library, NULL);
    assert_int_equal(gpu_count(gpus), 1);
    assert_int_equal(gpu_at(gpus, 0)->minor, -1);
    assert_string_equal(gpu_at(gpus, 0)->bus, "");
    assert_false(gpu_limits_available(gpus, &why));
    assert_string_equal(why, "this driver has no memory limits (615 and later have)");
    assert_int_equal(gpu_limit_set(gpus, 0, "/sys/fs/cgroup/berth/a", 1, 2, &err), -1);
    assert_int_equal(err.code, ERR_UNSUPPORTED);
}

static void test_lost_and_faulty_cards_are_not_healthy(void **state)
{
    CLEANUP(gpu_close) struct gpus *gpus = NULL;

    (void)state;
    setenv("FAKE_GPUS", "3", 1);
    setenv("FAKE_GPU_ECC", "2", 1);
    gpus = open_with(library, NULL);
    assert_true(gpu_at(gpus, 0)->healthy);
    assert_false(gpu_at(gpus, 2)->healthy);
    assert_string_equal(gpu_at(gpus, 2)->trouble, "3 uncorrected memory errors since the driver was loaded");
    setenv("FAKE_GPU_LOST", "0", 1);
    gpu_refresh(gpus);
    assert_false(gpu_at(gpus, 0)->healthy);
    assert_true(starts_with(gpu_at(gpus, 0)->trouble, "the card is lost"));
    assert_int_equal(gpu_at(gpus, 0)->memory_mib, 24576);
    assert_int_equal(gpu_at(gpus, 0)->used_mib, GPU_MEM_UNKNOWN);
    unsetenv("FAKE_GPU_LOST");
    gpu_refresh(gpus);
    assert_true(gpu_at(gpus, 0)->healthy);
}

static void test_memory_limit_reaches_the_driver(void **state)
{
    CLEANUP(gpu_close) struct gpus *gpus = NULL;
    void *handle = dlopen(library, RTLD_NOW);
    const char *(*last)(void) = NULL;
    const char *why = "";

    (void)state;
    assert_non_null(handle);
    memcpy(&last, &(void *){dlsym(handle, "fake_nvml_limit")}, sizeof(last));
    setenv("FAKE_GPUS", "2", 1);
    gpus = open_with(library, NULL);
    assert_true(gpu_limits_available(gpus, &why));
    assert_int_equal(gpu_limit_set(gpus, 1, "/sys/fs/cgroup/berth/a", 1024, 2048, NULL), 0);
    assert_string_equal(last(), "1 /sys/fs/cgroup/berth/a 1073741824 2147483648");
    assert_int_equal(gpu_limit_set(gpus, 1, "/sys/fs/cgroup/berth/a", 0, -1, NULL), 0);
    assert_string_equal(last(), "1 /sys/fs/cgroup/berth/a 0 18446744073709551615");
    dlclose(handle);
}

static void test_cards_are_declared(void **state)
{
    CLEANUP(gpu_close) struct gpus *gpus = open_with(library, "2x24576,1x81920:A100 80GB,1");
    struct gpu_procs procs = {0};
    const char *why;

    (void)state;
    assert_string_equal(gpu_source(gpus), "declared");
    assert_int_equal(gpu_count(gpus), 4);
    assert_true(gpu_at(gpus, 0)->declared);
    assert_string_equal(gpu_at(gpus, 0)->uuid, "GPU-declared-0");
    assert_string_equal(gpu_at(gpus, 0)->name, "declared");
    assert_int_equal(gpu_at(gpus, 1)->memory_mib, 24576);
    assert_string_equal(gpu_at(gpus, 2)->name, "A100 80GB");
    assert_int_equal(gpu_at(gpus, 2)->memory_mib, 81920);
    assert_int_equal(gpu_at(gpus, 3)->index, 3);
    assert_int_equal(gpu_at(gpus, 3)->memory_mib, GPU_DECLARED_MIB);
    gpu_refresh(gpus);
    gpu_procs(gpus, &procs);
    assert_int_equal(procs.len, 0);
    assert_false(gpu_limits_available(gpus, &why));
}

static void test_wrong_declarations_are_refused(void **state)
{
    static const char *const bad[] = {"x", "4x",   "0x24576",   "-1x24576", "4x-1",     "4x24576,",
                                      ",", "65x1", "33x1,32x1", "4y24576",  "4x24576:", "1x99999999999"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct gpu_config config = {.declared = bad[i]};
        struct gpus *gpus = NULL;
        struct err err = {0};

        if (gpu_open(&config, &gpus, &err) == 0)
            fail_msg("taken: %s", bad[i]);
        assert_int_equal(err.code, ERR_INVALID);
    }
}

static void test_none_means_none(void **state)
{
    CLEANUP(gpu_close) struct gpus *gpus = NULL;

    (void)state;
    setenv("FAKE_GPUS", "2", 1);
    gpus = open_with(library, "none");
    assert_int_equal(gpu_count(gpus), 0);
}

/* ---- whose process ---- */

static void check_in(const char *text, const char *expected)
{
    char id[GPU_CONTAINER_ID_MAX + 1] = "";

    assert_int_equal(gpu_container_in(str_from(text), "/berth", id), expected != NULL);
    if (expected)
        assert_string_equal(id, expected);
}

static void test_cgroup_tells_the_container(void **state)
{
    (void)state;
    check_in("0::/berth/pod-1.main\n", "pod-1.main");
    check_in("0::/berth/pod-1.main/inner/x\n", "pod-1.main");
    check_in("12:memory:/berth/abc\n11:cpu,cpuacct:/berth/abc\n1:name=systemd:/\n0::/\n", "abc");
    check_in("1:name=systemd:/user.slice\n0::/user.slice\n", NULL);
    check_in("0::/berth\n", NULL);
    check_in("0::/berth/\n", NULL);
    check_in("0::/berth/..\n", NULL);
    check_in("0::/berthing/abc\n", NULL);
    check_in("0::/other/berth/abc\n", NULL);
    check_in("", NULL);
    check_in("nonsense", NULL);
}

static void test_own_process_is_in_no_container(void **state)
{
    char id[GPU_CONTAINER_ID_MAX + 1];

    (void)state;
    assert_false(gpu_container_of(getpid(), "/no-such-parent", id));
    assert_false(gpu_container_of(999999999, "/berth", id));
}

/* ---- cards for a container ---- */

static const char *env_of(const struct cdi_edits *e, const char *name)
{
    for (size_t i = 0; i < e->env_len; i++)
        if (starts_with(e->env[i], name) && e->env[i][strlen(name)] == '=')
            return e->env[i] + strlen(name) + 1;
    return NULL;
}

static void test_declared_cards_are_variables_only(void **state)
{
    CLEANUP(gpu_close) struct gpus *gpus = open_with(NULL, "4x24576");
    CLEANUP(arena_done) struct arena arena = {0};
    static const size_t cards[] = {1, 3};
    struct cdi_edits e = {0};
    enum gpu_way way;

    (void)state;
    assert_int_equal(gpu_edits(gpus, NULL, cards, 2, &arena, &e, &way, NULL), 0);
    assert_int_equal(way, GPU_WAY_ENV);
    assert_string_equal(env_of(&e, "NVIDIA_VISIBLE_DEVICES"), "GPU-declared-1,GPU-declared-3");
    assert_string_equal(env_of(&e, "CUDA_VISIBLE_DEVICES"), "GPU-declared-1,GPU-declared-3");
    assert_int_equal(e.devices_len + e.hooks_len + e.mounts_len, 0);
}

static void test_container_without_cards_sees_none(void **state)
{
    CLEANUP(gpu_close) struct gpus *gpus = open_with(NULL, "4x24576");
    CLEANUP(arena_done) struct arena arena = {0};
    struct cdi_edits e = {0};
    enum gpu_way way;

    (void)state;
    assert_int_equal(gpu_edits(gpus, NULL, NULL, 0, &arena, &e, &way, NULL), 0);
    assert_string_equal(env_of(&e, "NVIDIA_VISIBLE_DEVICES"), "void");
    assert_string_equal(env_of(&e, "CUDA_VISIBLE_DEVICES"), "");
}

static const char cdi_text[] =
    "{\"cdiVersion\":\"0.6.0\",\"kind\":\"nvidia.com/gpu\","
    "\"containerEdits\":{\"env\":[\"NVIDIA_VISIBLE_DEVICES=void\"]},\"devices\":["
    "{\"name\":\"0\",\"containerEdits\":{\"deviceNodes\":[{\"path\":\"/dev/nvidia0\",\"hostPath\":\"/dev/"
    "null\"}]}},"
    "{\"name\":\"GPU-fa4e0000-0000-0000-0000-000000000001\","
    "\"containerEdits\":{\"deviceNodes\":[{\"path\":\"/dev/nvidia1\",\"hostPath\":\"/dev/zero\"}]}}]}";

static void test_cdi_gives_cards_by_uuid_or_index(void **state)
{
    CLEANUP(gpu_close) struct gpus *gpus = NULL;
    CLEANUP(cdi_free) struct cdi *cdi = NULL;
    CLEANUP(arena_done) struct arena arena = {0};
    static const size_t cards[] = {0, 1};
    struct cdi_edits e = {0};
    enum gpu_way way;

    (void)state;
    setenv("FAKE_GPUS", "3", 1);
    gpus = open_with(library, NULL);
    assert_int_equal(cdi_parse(str_from(cdi_text), "test", &cdi, NULL), 0);
    assert_int_equal(gpu_edits(gpus, cdi, cards, 2, &arena, &e, &way, NULL), 0);
    assert_int_equal(way, GPU_WAY_CDI);
    assert_int_equal(e.devices_len, 2);
    assert_string_equal(e.devices[0].path, "/dev/nvidia0");
    assert_string_equal(e.devices[1].path, "/dev/nvidia1");
    assert_string_equal(env_of(&e, "NVIDIA_VISIBLE_DEVICES"),
                        "GPU-fa4e0000-0000-0000-0000-000000000000,GPU-fa4e0000-0000-0000-0000-000000000001");
}

static void test_hook_on_the_path_is_used_without_cdi(void **state)
{
    CLEANUP(gpu_close) struct gpus *gpus = NULL;
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(free) char *path = mem_strdup(getenv("PATH")), *file = NULL;
    char folder[] = "/tmp/berth-hook-XXXXXX";
    static const size_t cards[] = {0};
    struct cdi_edits e = {0};
    enum gpu_way way;
    FILE *f;

    (void)state;
    assert_non_null(mkdtemp(folder));
    file = mem_printf("%s/nvidia-container-runtime-hook", folder);
    f = fopen(file, "we");
    assert_non_null(f);
    fclose(f);
    assert_int_equal(chmod(file, 0755), 0);
    setenv("PATH", folder, 1);
    setenv("FAKE_GPUS", "1", 1);
    gpus = open_with(library, NULL);
    assert_int_equal(gpu_edits(gpus, NULL, cards, 1, &arena, &e, &way, NULL), 0);
    assert_int_equal(way, GPU_WAY_HOOK);
    assert_int_equal(e.hooks_len, 1);
    assert_string_equal(e.hooks[0].path, file);
    assert_string_equal(e.hooks[0].when, "prestart");
    assert_string_equal(e.hooks[0].args[1], "prestart");
    assert_string_equal(env_of(&e, "NVIDIA_DRIVER_CAPABILITIES"), "compute,utility");
    setenv("PATH", path ? path : "/bin", 1);
    unlink(file);
    rmdir(folder);
}

static void test_unknown_card_is_refused(void **state)
{
    CLEANUP(gpu_close) struct gpus *gpus = open_with(NULL, "1x1024");
    CLEANUP(arena_done) struct arena arena = {0};
    static const size_t cards[] = {5};
    struct cdi_edits e = {0};
    struct err err = {0};
    enum gpu_way way;

    (void)state;
    assert_int_equal(gpu_edits(gpus, NULL, cards, 1, &arena, &e, &way, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
}

#define CASE(test) cmocka_unit_test_setup(test, clear_env)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(test_cards_are_what_the_library_says),   CASE(test_no_library_is_no_card),
        CASE(test_library_without_driver_is_no_card), CASE(test_processes_are_listed_once_for_each_card),
        CASE(test_old_library_does_with_what_it_has), CASE(test_lost_and_faulty_cards_are_not_healthy),
        CASE(test_memory_limit_reaches_the_driver),   CASE(test_cards_are_declared),
        CASE(test_wrong_declarations_are_refused),    CASE(test_none_means_none),
        CASE(test_cgroup_tells_the_container),        CASE(test_own_process_is_in_no_container),
        CASE(test_declared_cards_are_variables_only), CASE(test_container_without_cards_sees_none),
        CASE(test_cdi_gives_cards_by_uuid_or_index),  CASE(test_hook_on_the_path_is_used_without_cdi),
        CASE(test_unknown_card_is_refused),
    };

    if (argc != 3) {
        printf("Usage: test_gpu_gpu FAKE_NVML OLD_FAKE_NVML\n");
        return 2;
    }
    library = argv[1];
    old_library = argv[2];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
