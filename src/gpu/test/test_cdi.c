/* CDI files: what they say, how they are merged, and what is refused. */
#include "base/file.h"
#include "base/mem.h"
#include "base/test/test.h"
#include "gpu/cdi.h"

#include <stdlib.h>

static const char vendor_json[] =
    "{\"cdiVersion\": \"0.6.0\", \"kind\": \"nvidia.com/gpu\","
    " \"containerEdits\": {\"env\": [\"NVIDIA_VISIBLE_DEVICES=void\"],"
    "   \"deviceNodes\": [{\"path\": \"/dev/nvidiactl\", \"hostPath\": \"/dev/null\"}],"
    "   \"mounts\": [{\"hostPath\": \"/usr/lib/libcuda.so.1\", \"containerPath\": \"/usr/lib/libcuda.so.1\","
    "                \"options\": [\"ro\", \"nosuid\", \"nodev\", \"bind\"]}],"
    "   \"hooks\": [{\"hookName\": \"createContainer\", \"path\": \"/usr/bin/nvidia-ctk\","
    "               \"args\": [\"nvidia-ctk\", \"hook\", \"update-ldcache\"], \"timeout\": 5}],"
    "   \"additionalGids\": [44, 0, 44]},"
    " \"devices\": ["
    "   {\"name\": \"0\", \"containerEdits\": {\"deviceNodes\": [{\"path\": \"/dev/nvidia0\", \"hostPath\": "
    "\"/dev/zero\","
    "       \"permissions\": \"rw\", \"fileMode\": 432, \"uid\": 7, \"gid\": 8}], \"env\": [\"CARD=0\"]}},"
    "   {\"name\": \"1\", \"containerEdits\": {\"deviceNodes\": [{\"path\": \"/dev/nvidia1\", \"type\": "
    "\"c\","
    "       \"major\": 195, \"minor\": 1}]}},"
    "   {\"name\": \"gone\", \"containerEdits\": {\"deviceNodes\": [{\"path\": \"/dev/no-such-node\"}]}},"
    "   {\"name\": \"file\", \"containerEdits\": {\"deviceNodes\": [{\"path\": \"/etc/passwd\"}]}}]}";

static const char vendor_yaml[] = "cdiVersion: 0.5.0\n"
                                  "kind: example.com/thing\n"
                                  "devices:\n"
                                  "- name: all\n"
                                  "  containerEdits:\n"
                                  "    env:\n"
                                  "    - THING=all\n";

static struct cdi *parse(const char *text)
{
    struct cdi *cdi = NULL;
    struct err err = {0};

    if (cdi_parse(str_from(text), "test", &cdi, &err) < 0)
        fail_msg("%s", err.msg);
    return cdi;
}

static void test_edits_of_file_and_device_are_merged_once(void **state)
{
    CLEANUP(cdi_free) struct cdi *cdi = parse(vendor_json);
    CLEANUP(arena_done) struct arena arena = {0};
    static const char *const names[] = {"nvidia.com/gpu=0", "nvidia.com/gpu=1"};
    struct cdi_edits e = {0};
    struct err err = {0};

    (void)state;
    assert_int_equal(cdi_resolve(cdi, names, 2, &arena, &e, &err), 0);
    assert_int_equal(e.env_len, 2);
    assert_string_equal(e.env[0], "NVIDIA_VISIBLE_DEVICES=void");
    assert_string_equal(e.env[1], "CARD=0");
    assert_int_equal(e.mounts_len, 1);
    assert_string_equal(e.mounts[0].options, "ro,nosuid,nodev,bind");
    assert_null(e.mounts[0].type);
    assert_int_equal(e.hooks_len, 1);
    assert_string_equal(e.hooks[0].when, "createContainer");
    assert_string_equal(e.hooks[0].args[2], "update-ldcache");
    assert_null(e.hooks[0].args[3]);
    assert_int_equal(e.hooks[0].timeout_sec, 5);
    assert_int_equal(e.gids_len, 1);
    assert_int_equal(e.gids[0], 44);
    assert_int_equal(e.devices_len, 3);
}

static void test_device_nodes_are_asked_of_the_host_or_taken_as_told(void **state)
{
    CLEANUP(cdi_free) struct cdi *cdi = parse(vendor_json);
    CLEANUP(arena_done) struct arena arena = {0};
    static const char *const names[] = {"nvidia.com/gpu=0", "nvidia.com/gpu=1"};
    struct cdi_edits e = {0};

    (void)state;
    assert_int_equal(cdi_resolve(cdi, names, 2, &arena, &e, NULL), 0);
    assert_string_equal(e.devices[0].path, "/dev/nvidiactl"); /* /dev/null: 1, 3, 0666 */
    assert_int_equal(e.devices[0].type, 'c');
    assert_int_equal(e.devices[0].major, 1);
    assert_int_equal(e.devices[0].minor, 3);
    assert_int_equal(e.devices[0].mode, 0666);
    assert_string_equal(e.devices[0].access, "rwm");
    assert_int_equal(e.devices[1].minor, 5); /* /dev/zero */
    assert_int_equal(e.devices[1].mode, 0660);
    assert_int_equal(e.devices[1].uid, 7);
    assert_int_equal(e.devices[1].gid, 8);
    assert_string_equal(e.devices[1].access, "rw");
    assert_int_equal(e.devices[2].major, 195); /* there is none here: as told */
}

static void check_refused(const struct cdi *cdi, const char *name, enum err_code code, const char *msg)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct cdi_edits e = {0};
    struct err err = {0};

    assert_int_equal(cdi_resolve(cdi, &name, 1, &arena, &e, &err), -1);
    assert_string_equal(err.msg, msg);
    assert_int_equal(err.code, code);
}

static void test_what_cannot_be_had_says_why(void **state)
{
    CLEANUP(cdi_free) struct cdi *cdi = parse(vendor_json);

    (void)state;
    check_refused(cdi, "nvidia.com/gpu=7", ERR_NOT_FOUND, "no CDI file defines nvidia.com/gpu=7");
    check_refused(cdi, "gpu0", ERR_INVALID, "'gpu0' is no CDI device (like nvidia.com/gpu=0)");
    check_refused(
        cdi, "nvidia.com/gpu=gone", ERR_NOT_FOUND,
        "nvidia.com/gpu=gone (test): deviceNodes[0]: device node '/dev/no-such-node': No such file or "
        "directory");
    check_refused(cdi, "nvidia.com/gpu=file", ERR_INVALID,
                  "nvidia.com/gpu=file (test): deviceNodes[0]: '/etc/passwd' is no device");
}

static void test_yaml_is_read_too(void **state)
{
    CLEANUP(cdi_free) struct cdi *cdi = parse(vendor_yaml);

    (void)state;
    assert_int_equal(cdi_count(cdi), 1);
    assert_string_equal(cdi_name(cdi, 0), "example.com/thing=all");
    assert_true(cdi_has(cdi, "example.com/thing=all"));
}

#define FILE_WITH(edits)                                                                                     \
    "{\"cdiVersion\":\"0.6.0\",\"kind\":\"a.b/c\",\"devices\":[{\"name\":\"d\",\"containerEdits\":{" edits   \
    "}}]}"

static void test_wrong_files_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "{",
        "[]",
        "just text",
        "{\"cdiVersion\":\"0.6.0\",\"kind\":\"a.b/c\"}",
        "{\"cdiVersion\":\"0.6.0\",\"kind\":\"a.b/c\",\"devices\":[]}",
        "{\"cdiVersion\":\"0.6.0\",\"kind\":\"a.b\",\"devices\":[{\"name\":\"d\"}]}",
        "{\"kind\":\"a.b/c\",\"devices\":[{\"name\":\"d\"}]}",
        "{\"cdiVersion\":\"0.6.0\",\"kind\":\"a.b/c\",\"devices\":[{\"name\":\"d e\"}]}",
        "{\"cdiVersion\":\"0.6.0\",\"kind\":\"a.b/c\",\"devices\":[{\"name\":\"d\"}],\"containerEdits\":[]}",
        FILE_WITH("\"env\":\"A=b\""),
        FILE_WITH("\"env\":[\"A\"]"),
        FILE_WITH("\"env\":[\"A=\\u0000\"]"),
        FILE_WITH("\"deviceNodes\":[{\"path\":\"dev/null\"}]"),
        FILE_WITH("\"deviceNodes\":[{\"path\":\"/dev/../etc\"}]"),
        FILE_WITH("\"deviceNodes\":[{\"path\":\"/dev/null\",\"type\":\"x\"}]"),
        FILE_WITH("\"deviceNodes\":[{\"path\":\"/dev/null\",\"permissions\":\"rwx\"}]"),
        FILE_WITH("\"deviceNodes\":[{\"path\":\"/dev/null\",\"major\":-1}]"),
        FILE_WITH("\"mounts\":[{\"hostPath\":\"/a\"}]"),
        FILE_WITH("\"mounts\":[{\"hostPath\":\"a\",\"containerPath\":\"/a\"}]"),
        FILE_WITH("\"mounts\":[{\"hostPath\":\"/a\",\"containerPath\":\"/a\",\"options\":[\"ro,rw\"]}]"),
        FILE_WITH("\"hooks\":[{\"hookName\":\"whenever\",\"path\":\"/a\"}]"),
        FILE_WITH("\"hooks\":[{\"hookName\":\"prestart\"}]"),
        FILE_WITH("\"additionalGids\":[-1]"),
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct cdi *cdi = NULL;
        struct err err = {0};

        if (cdi_parse(str_from(bad[i]), "test", &cdi, &err) == 0)
            fail_msg("taken: %s", bad[i]);
        assert_int_equal(err.code, ERR_INVALID);
    }
}

/* ---- folders ---- */

static char root[] = "/tmp/berth-cdi-XXXXXX";

static void put(const char *name, const char *text)
{
    CLEANUP(free) char *path = mem_printf("%s/%s", root, name);
    CLEANUP(free) char *folder = mem_strdup(path);

    *strrchr(folder, '/') = '\0';
    assert_int_equal(dir_make(folder, 0700, NULL), 0);
    assert_int_equal(file_write_atomic(path, str_from(text), 0600, NULL), 0);
}

#define SMALL(value)                                                                                         \
    "{\"cdiVersion\":\"0.6.0\",\"kind\":\"a.b/"                                                              \
    "c\",\"devices\":[{\"name\":\"d\",\"containerEdits\":{\"env\":[\"V=" value "\"]}}]}"

static void test_later_folder_wins_and_twice_in_one_is_a_conflict(void **state)
{
    CLEANUP(free) char *etc = mem_printf("%s/etc", root), *run = mem_printf("%s/run", root);
    CLEANUP(free) char *none = mem_printf("%s/none", root);
    const char *folders[] = {etc, none, run, NULL};
    static const char *const name[] = {"a.b/c=d"};
    CLEANUP(arena_done) struct arena arena = {0};
    struct cdi_edits e = {0};
    struct cdi *cdi = NULL;

    (void)state;
    put("etc/one.json", SMALL("etc"));
    put("run/one.json", SMALL("run"));
    put("run/broken.yaml", "cdiVersion: [");
    put("run/ignored.txt", "not read");
    assert_int_equal(cdi_load(folders, &cdi, NULL), 0);
    assert_int_equal(cdi_count(cdi), 1);
    assert_int_equal(cdi_resolve(cdi, name, 1, &arena, &e, NULL), 0);
    assert_string_equal(e.env[0], "V=run");
    assert_non_null(strstr(cdi_warnings(cdi), "/run/broken.yaml: line "));
    cdi_free(cdi);

    put("run/two.json", SMALL("again"));
    assert_int_equal(cdi_load(folders, &cdi, NULL), 0);
    check_refused(cdi, "a.b/c=d", ERR_CONFLICT, "several CDI files define a.b/c=d");
    assert_non_null(strstr(cdi_warnings(cdi), "a.b/c=d is defined twice"));
    cdi_free(cdi);
}

static void test_no_folder_is_no_device(void **state)
{
    static const char *const folders[] = {"/nonexistent/cdi", NULL};
    CLEANUP(cdi_free) struct cdi *cdi = NULL;

    (void)state;
    assert_int_equal(cdi_load(folders, &cdi, NULL), 0);
    assert_int_equal(cdi_count(cdi), 0);
    assert_string_equal(cdi_warnings(cdi), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edits_of_file_and_device_are_merged_once),
        cmocka_unit_test(test_device_nodes_are_asked_of_the_host_or_taken_as_told),
        cmocka_unit_test(test_what_cannot_be_had_says_why),
        cmocka_unit_test(test_yaml_is_read_too),
        cmocka_unit_test(test_wrong_files_are_refused),
        cmocka_unit_test(test_later_folder_wins_and_twice_in_one_is_a_conflict),
        cmocka_unit_test(test_no_folder_is_no_device),
    };
    CLEANUP(free) char *rm = NULL;
    int failed;

    if (!mkdtemp(root))
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    rm = mem_printf("rm -r %s", root);
    return system(rm) ? 1 : failed; /* NOLINT(cert-env33-c) */
}
