#include "base/file.h"
#include "base/mem.h"
#include "base/test/test.h"
#include "daemon/config.h"

#include <ftw.h>

static int unlink_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static int make_folder(void **state)
{
    char template[] = "/tmp/berth-config-XXXXXX";

    *state = mem_strdup(mkdtemp(template));
    return *state ? 0 : -1;
}

static int remove_folder(void **state)
{
    nftw(*state, unlink_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(*state);
    return 0;
}

static const struct config_env root = {
    .uid = 0, .host_name = "gpu1", .system_file = "/nonexistent/berthd.yaml"};

/* What berthd would make of these arguments. */
#define LOAD(env, config, err, ...)                                                                          \
    load_args(env, config, err, (const char *[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static int load_args(const struct config_env *env, struct daemon_config *config, struct err *err,
                     const char *const *args)
{
    char *argv[16] = {mem_strdup("berthd")};
    int argc = 1, result;

    for (; args[argc - 1]; argc++)
        argv[argc] = mem_strdup(args[argc - 1]);
    *config = (struct daemon_config){.action = CONFIG_RUN};
    result = config_load(env, argc, argv, config, err);
    for (int i = 0; i < argc; i++)
        free(argv[i]);
    return result;
}

static char *write_file(const char *dir, const char *name, const char *text)
{
    char *path = mem_printf("%s/%s", dir, name);

    assert_int_equal(file_write_atomic(path, str_from(text), 0600, NULL), 0);
    return path;
}

static void test_root_gets_system_folders_and_loopback_addresses(void **state)
{
    CLEANUP(config_done) struct daemon_config config;
    struct err err = {0};

    (void)state;
    assert_int_equal(LOAD(&root, &config, &err), 0);
    assert_string_equal(config.data_dir, "/var/lib/berth");
    assert_string_equal(config.socket, "/run/berth/berth.sock");
    assert_string_equal(config.http, "127.0.0.1:5336");
    assert_string_equal(config.https, "127.0.0.1:5443");
    assert_string_equal(config.node_name, "gpu1");
}

static void test_other_users_get_their_data_home_and_a_socket_in_it(void **state)
{
    CLEANUP(config_done) struct daemon_config home, xdg;
    struct config_env env = {.uid = 1000, .home = "/home/alice", .host_name = "My_Box.", .system_file = ""};

    (void)state;
    assert_int_equal(LOAD(&env, &home, NULL), 0);
    assert_string_equal(home.data_dir, "/home/alice/.local/share/berth");
    assert_string_equal(home.socket, "/home/alice/.local/share/berth/berth.sock");
    assert_string_equal(home.node_name, "my-box");
    env.xdg_data_home = "/data/alice";
    assert_int_equal(LOAD(&env, &xdg, NULL), 0);
    assert_string_equal(xdg.data_dir, "/data/alice/berth");
}

static void test_flags_win_over_the_file_and_the_file_over_defaults(void **state)
{
    CLEANUP(free)
    char *file = write_file(*state, "berthd.yaml",
                            "http: 127.0.0.1:1\n"
                            "https: 127.0.0.1:2\n"
                            "nodeLabels: {gpu: titan, lab.example/room: '4'}\n"
                            "extraNames: [gpu1.lab, 192.0.2.7]\n"
                            "admins: [alice]\n"
                            "anonymous: queue\n"
                            "agent: on\n"
                            "ociRuntime: runc\n"
                            "logLevel: debug\n");
    CLEANUP(config_done) struct daemon_config config;
    struct err err = {0};

    assert_int_equal(LOAD(&root, &config, &err, "--data", *state, "--https", "127.0.0.1:3"), 0);
    assert_string_equal(config.file, file);
    assert_string_equal(config.http, "127.0.0.1:1");
    assert_string_equal(config.https, "127.0.0.1:3");
    assert_int_equal(config.node_labels.len, 2);
    assert_string_equal(config.node_labels.v[1].key, "lab.example/room");
    assert_string_equal(config.node_labels.v[1].value, "4");
    assert_int_equal(config.extra_names.len, 2);
    assert_string_equal(config.admins.v[0], "alice");
    assert_int_equal(config.anonymous, ANONYMOUS_QUEUE);
    assert_int_equal(config.agent, AGENT_ON);
    assert_string_equal(config.oci_runtime, "runc");
    assert_int_equal(config.log_level, LOG_LEVEL_DEBUG);
}

static void test_system_file_is_roots_and_only_without_a_data_flag(void **state)
{
    CLEANUP(free) char *file = write_file(*state, "system.yaml", "nodeName: from-etc\n");
    CLEANUP(config_done) struct daemon_config plain, with_data, user;
    struct config_env env = {.uid = 0, .home = "/nonexistent", .host_name = "gpu1", .system_file = file};

    assert_int_equal(LOAD(&env, &plain, NULL), 0);
    assert_string_equal(plain.node_name, "from-etc");
    assert_int_equal(LOAD(&env, &with_data, NULL, "--data", *state), 0);
    assert_string_equal(with_data.node_name, "gpu1");
    env.uid = 1000;
    assert_int_equal(LOAD(&env, &user, NULL), 0);
    assert_string_equal(user.node_name, "gpu1");
}

static void test_off_means_off_in_flags_and_in_yaml(void **state)
{
    CLEANUP(free) char *file = write_file(*state, "c.yaml", "http: off\nhttps: no\n");
    CLEANUP(config_done) struct daemon_config from_file, from_flag;

    assert_int_equal(LOAD(&root, &from_file, NULL, "--config", file), 0);
    assert_null(from_file.http);
    assert_null(from_file.https);
    assert_int_equal(LOAD(&root, &from_flag, NULL, "--http", "off"), 0);
    assert_null(from_flag.http);
    assert_non_null(from_flag.https);
}

static void test_registries_and_their_options(void **state)
{
    CLEANUP(free)
    char *file =
        write_file(*state, "r.yaml",
                   "registries:\n  lab:5000: insecure\n  docker.io: mirror:lab:5000/hub+mirror-insecure\n");
    struct daemon_config one, two;

    assert_int_equal(LOAD(&root, &one, NULL, "--registries", "a.b=ca:/etc/x.pem,c:1"), 0);
    assert_int_equal(one.registries.len, 2);
    assert_string_equal(one.registries.v[0].ca_file, "/etc/x.pem");
    assert_string_equal(one.registries.v[1].host, "c:1");
    assert_int_equal(LOAD(&root, &two, NULL, "--config", file, "--push-to", "lab:5000/jobs"), 0);
    assert_true(two.registries.v[0].insecure);
    assert_string_equal(two.registries.v[1].mirror, "lab:5000/hub");
    assert_true(two.registries.v[1].mirror_insecure);
    assert_string_equal(two.push_to, "lab:5000/jobs");
    config_done(&one);
    config_done(&two);
    assert_int_equal(LOAD(&root, &one, NULL, "--registries", "a.b=frob"), -1);
    assert_int_equal(LOAD(&root, &one, NULL, "--registries", "no host"), -1);
    assert_int_equal(LOAD(&root, &one, NULL, "--push-to", "x y"), -1);
}

static void test_declared_gpus_have_a_memory_each(void **state)
{
    CLEANUP(free) char *file = write_file(*state, "c.yaml", "gpus: [2x24576, 1]\n");
    CLEANUP(config_done) struct daemon_config one, many, listed;

    assert_int_equal(LOAD(&root, &one, NULL, "--gpus", "4"), 0);
    assert_int_equal(one.gpus.len, 4);
    assert_int_equal(one.gpus.v[3], 16384);
    assert_int_equal(LOAD(&root, &many, NULL, "--gpus", "4x24576,2x11264"), 0);
    assert_int_equal(many.gpus.len, 6);
    assert_int_equal(many.gpus.v[0], 24576);
    assert_int_equal(many.gpus.v[5], 11264);
    assert_int_equal(LOAD(&root, &listed, NULL, "--config", file), 0);
    assert_int_equal(listed.gpus.len, 3);
    assert_int_equal(listed.gpus.v[2], 16384);
}

static void test_what_is_kept_has_defaults_units_and_an_off(void **state)
{
    CLEANUP(free) char *file = write_file(*state, "k.yaml", "finishedDays: off\nfinishedSize: 3\n");
    CLEANUP(config_done) struct daemon_config usual, flags, listed;

    assert_int_equal(LOAD(&root, &usual, NULL, "--gpus", "1"), 0);
    assert_int_equal(usual.upkeep.work.age_sec, 7 * 86400);
    assert_int_equal(usual.upkeep.work.count, 200);
    assert_int_equal(usual.event_age_sec, 3600);
    assert_int_equal(LOAD(&root, &flags, NULL, "--finished-days", "36h", "--event-minutes", "5",
                          "--finished-count", "off"),
                     0);
    assert_int_equal(flags.upkeep.work.age_sec, 36 * 3600);
    assert_int_equal(flags.upkeep.work.count, 0);
    assert_int_equal(flags.event_age_sec, 300);
    assert_int_equal(LOAD(&root, &listed, NULL, "--config", file), 0);
    assert_int_equal(listed.upkeep.work.age_sec, 0);
    assert_int_equal(listed.upkeep.work.bytes, 3 << 20);
}

static void test_wrong_values_name_their_setting(void **state)
{
    static const struct {
        const char *flag, *value, *message;
    } cases[] = {
        {"--gpus", "4x", "--gpus: must be N or NxMIB (4x24576: four cards of 24576 MiB), not '4x'"},
        {"--gpus", "2000", "--gpus: more than 1024 cards"},
        {"--http", "5336", "--http: must be HOST:PORT, [IPV6]:PORT, :PORT or off, not '5336'"},
        {"--https", "::1:5443", "--https: must be HOST:PORT, [IPV6]:PORT, :PORT or off, not '::1:5443'"},
        {"--node-labels", "a", "--node-labels: must be KEY=VALUE,... as Kubernetes labels are, not 'a'"},
        {"--node-name", "Big", "--node-name: must be lower-case letters, digits, '-' and '.', not 'Big'"},
        {"--log-level", "loud", "--log-level: must be one of error, warn, info, debug, not 'loud'"},
        {"--anonymous", "all", "--anonymous: must be one of none, queue, loopback, not 'all'"},
        {"--agent", "maybe", "--agent: must be one of auto, off, on, not 'maybe'"},
        {"--oci-runtime", "bin/crun",
         "--oci-runtime: must be crun, runc or an absolute path, not 'bin/crun'"},
        {"--project-ids", "9-5",
         "--project-ids: must be off or FIRST-LAST, ids from 1 to 4294967294, not '9-5'"},
        {"--project-ids", "5", "--project-ids: must be off or FIRST-LAST, ids from 1 to 4294967294, not '5'"},
        {"--data", "", "--data: must not be empty"},
        {"--finished-days", "0",
         "--finished-days: must be a time up to 36500 days such as 7d, 36h, 30m or 90s, or off, not '0'"},
        {"--finished-days", "9999999999h",
         "--finished-days: must be a time up to 36500 days such as 7d, 36h, 30m or 90s, or off, not "
         "'9999999999h'"},
        {"--finished-count", "many", "--finished-count: must be a number, 1 to 1000000, or off, not 'many'"},
        {"--event-minutes", "31d",
         "--event-minutes: must be a time up to 30 days such as 7d, 36h, 30m or 90s, or off, not '31d'"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct daemon_config config;
        struct err err = {0};

        assert_int_equal(LOAD(&root, &config, &err, cases[i].flag, cases[i].value), -1);
        assert_string_equal(err.msg, cases[i].message);
    }
}

static void test_unknown_flag_suggests_the_nearest(void **state)
{
    struct daemon_config config;
    struct err err = {0};

    (void)state;
    assert_int_equal(LOAD(&root, &config, &err, "--gpu-s", "4"), -1);
    assert_string_equal(err.msg, "unknown option '--gpu-s': did you mean --gpus?");
    assert_int_equal(LOAD(&root, &config, &err, "--nonsense"), -1);
    assert_string_equal(err.msg, "unknown option '--nonsense': see berthd --help");
    assert_int_equal(LOAD(&root, &config, &err, "--data"), -1);
    assert_string_equal(err.msg, "--data needs a value");
    assert_int_equal(LOAD(&root, &config, &err, "--claim-delete", "30"), -1);
    assert_string_equal(err.msg,
                        "claimDelete must be more than claimWarn: owners are told before their data goes");
    assert_int_equal(LOAD(&root, &config, &err, "start"), -1);
    assert_string_equal(err.msg, "unexpected argument 'start': see berthd --help");
}

static void test_unknown_key_suggests_the_nearest(void **state)
{
    CLEANUP(free) char *file = write_file(*state, "c.yaml", "nodelabel: a=b\n");
    CLEANUP(free) char *want = mem_printf("%s: unknown key 'nodelabel': did you mean 'nodeLabels'?", file);
    struct daemon_config config;
    struct err err = {0};

    assert_int_equal(LOAD(&root, &config, &err, "--config", file), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_string_equal(err.msg, want);
}

static void test_missing_config_file_is_not_found(void **state)
{
    struct daemon_config config;
    struct err err = {0};

    (void)state;
    assert_int_equal(LOAD(&root, &config, &err, "--config", "/nonexistent/x.yaml"), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
}

static void test_empty_config_file_is_fine(void **state)
{
    CLEANUP(free) char *file = write_file(*state, "c.yaml", "# nothing yet\n");
    CLEANUP(config_done) struct daemon_config config;

    assert_int_equal(LOAD(&root, &config, NULL, "--config", file), 0);
}

static void test_plain_http_leaves_loopback_only_when_told_to(void **state)
{
    static const char *const open_addresses[] = {":5336", "0.0.0.0:5336", "[::]:5336", "gpu1.lab:5336"};
    static const char *const local[] = {"127.0.0.1:0", "[::1]:5336", "localhost:5336", "127.1.2.3:1"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(open_addresses); i++) {
        CLEANUP(config_done) struct daemon_config config, told;

        assert_int_equal(LOAD(&root, &config, NULL, "--http", open_addresses[i]), -1);
        assert_int_equal(LOAD(&root, &told, NULL, "--http", open_addresses[i], "--http-insecure"), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(local); i++) {
        CLEANUP(config_done) struct daemon_config config;

        assert_int_equal(LOAD(&root, &config, NULL, "--http", local[i]), 0);
    }
}

static void test_too_long_socket_path_is_refused_with_the_way_out(void **state)
{
    char dir[150];
    struct daemon_config config;
    struct err err = {0};

    (void)state;
    memset(dir, 'd', sizeof(dir));
    dir[0] = '/';
    dir[sizeof(dir) - 1] = '\0';
    assert_int_equal(LOAD(&root, &config, &err, "--data", dir), -1);
    assert_non_null(strstr(err.msg, "give a shorter one with --socket"));
}

static void test_help_and_version_need_nothing_else(void **state)
{
    CLEANUP(config_done) struct daemon_config help, version;
    struct config_env nobody = {.uid = 1000, .system_file = ""};

    (void)state;
    assert_int_equal(LOAD(&nobody, &help, NULL, "--help"), 0);
    assert_int_equal(help.action, CONFIG_HELP);
    assert_int_equal(LOAD(&nobody, &version, NULL, "--version"), 0);
    assert_int_equal(version.action, CONFIG_VERSION);
}

static void test_no_home_and_no_data_flag_says_what_to_do(void **state)
{
    struct config_env nobody = {.uid = 1000, .system_file = ""};
    struct daemon_config config;
    struct err err = {0};

    (void)state;
    assert_int_equal(LOAD(&nobody, &config, &err), -1);
    assert_string_equal(err.msg, "no data folder: set HOME or give --data");
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_root_gets_system_folders_and_loopback_addresses),
        cmocka_unit_test(test_other_users_get_their_data_home_and_a_socket_in_it),
        IN_FOLDER(test_flags_win_over_the_file_and_the_file_over_defaults),
        IN_FOLDER(test_system_file_is_roots_and_only_without_a_data_flag),
        IN_FOLDER(test_off_means_off_in_flags_and_in_yaml),
        IN_FOLDER(test_registries_and_their_options),
        IN_FOLDER(test_declared_gpus_have_a_memory_each),
        IN_FOLDER(test_what_is_kept_has_defaults_units_and_an_off),
        cmocka_unit_test(test_wrong_values_name_their_setting),
        cmocka_unit_test(test_unknown_flag_suggests_the_nearest),
        IN_FOLDER(test_unknown_key_suggests_the_nearest),
        cmocka_unit_test(test_missing_config_file_is_not_found),
        IN_FOLDER(test_empty_config_file_is_fine),
        cmocka_unit_test(test_plain_http_leaves_loopback_only_when_told_to),
        cmocka_unit_test(test_too_long_socket_path_is_refused_with_the_way_out),
        cmocka_unit_test(test_help_and_version_need_nothing_else),
        cmocka_unit_test(test_no_home_and_no_data_flag_says_what_to_do),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
