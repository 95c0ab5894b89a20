#include "base/mem.h"
#include "base/test/test.h"
#include "cli/cli.h"

static int run_nothing(struct cli *cli, const struct args *args)
{
    (void)cli;
    (void)args;
    return CLI_OK;
}

static const struct cli_option test_options[] = {
    {'f', "filename", "FILE", "a file", NULL},
    OPTION_NAMESPACE,
    OPTION_OUTPUT("json yaml"),
    {0, "dry-run", NULL, "do nothing", NULL},
    {0, NULL, NULL, NULL, NULL},
};
static const struct verb test_verb = {
    "test", "WORD", "Test", test_options, .min_args = 1, .max_args = 2, .run = run_nothing};

struct parsed {
    char *argv[16];
    int argc;
    struct args args;
    struct err err;
    int result;
};

static void parse(struct parsed *parsed, const char *const *words)
{
    *parsed = (struct parsed){.argv = {mem_strdup("test")}, .argc = 1};
    for (; words[parsed->argc - 1]; parsed->argc++)
        parsed->argv[parsed->argc] = mem_strdup(words[parsed->argc - 1]);
    parsed->result = args_parse(&test_verb, parsed->argc, parsed->argv, &parsed->args, &parsed->err);
}
#define PARSE(parsed, ...) parse(parsed, (const char *[]){__VA_ARGS__, NULL})

static void parsed_done(struct parsed *parsed)
{
    args_done(&parsed->args);
    for (int i = 0; i < parsed->argc; i++)
        free(parsed->argv[i]);
}

static void test_what_steers_a_terminal_is_tamed(void **state)
{
    char text[] = "a\033[31mred\007\tb\ncaf\xc3\xa9 \xc2\x9b"
                  "2J\177";

    (void)state;
    text_tame(text, sizeof(text) - 1);
    assert_string_equal(text, "a?[31mred?\tb\ncaf\xc3\xa9 ??2J?");
}

static void test_documents_are_tamed_at_any_depth(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf text = {0};
    struct json *doc;

    (void)state;
    assert_int_equal(json_parse(STR("{\"a\":[{\"b\":\"x\\u001by\"}],\"c\":1}"), &arena, &doc, NULL, NULL), 0);
    doc_tame(doc);
    json_write(&text, doc);
    assert_string_equal(text.data, "{\"a\":[{\"b\":\"x?y\"}],\"c\":1}");
}

static void test_options_and_words_may_be_mixed(void **state)
{
    struct parsed p;

    (void)state;
    PARSE(&p, "a", "-n", "lab", "--dry-run", "b", "--filename=x", "-f", "y");
    assert_int_equal(p.result, 0);
    assert_int_equal(p.args.count, 2);
    assert_string_equal(p.args.rest[1], "b");
    assert_string_equal(args_get(&p.args, "namespace"), "lab");
    assert_string_equal(args_get(&p.args, "filename"), "y");
    assert_true(args_has(&p.args, "dry-run"));
    assert_int_equal(p.args.values.len, 4);
    parsed_done(&p);
}

static void test_a_command_keeps_its_own_options(void **state)
{
    static const struct verb verb = {"test",        "WORD COMMAND", "Test",      test_options,
                                     .min_args = 2, .max_args = -1, .command = 1};
    static const char *const lines[][8] = {
        {"test", "pod", "-n", "lab", "id", "-n"},       {"test", "-n", "lab", "pod", "id", "-n"},
        {"test", "-n", "lab", "pod", "--", "id", "-n"}, {"test", "pod", "-n", "lab", "--", "id", "-n"},
        {"test", "-n", "lab", "--", "pod", "id", "-n"},
    };

    CLEANUP(arena_done) struct arena arena = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        char *argv[8];
        struct args args;
        struct err err = {0};
        int argc = 0;

        for (; lines[i][argc]; argc++)
            argv[argc] = arena_strdup(&arena, lines[i][argc]);
        assert_int_equal(args_parse(&verb, argc, argv, &args, &err), 0);
        assert_int_equal(args.count, 3);
        assert_string_equal(args.rest[0], "pod");
        assert_string_equal(args.rest[1], "id");
        assert_string_equal(args.rest[2], "-n");
        assert_string_equal(args_get(&args, "namespace"), "lab");
        args_done(&args);
    }
}

static void test_wrong_arguments_say_what_is_wrong(void **state)
{
    static const struct {
        const char *words[4];
        const char *message;
    } cases[] = {
        {{"--nope"}, "unknown option '--nope'"},
        {{"a", "-x"}, "unknown option '-x'"},
        {{"a", "-f"}, "-f needs a value"},
        {{"--dry-run"}, "needs WORD"},
        {{"a", "b", "c"}, "unexpected argument 'c'"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct parsed p;

        parse(&p, cases[i].words);
        assert_int_equal(p.result, -1);
        assert_string_equal(p.err.msg, cases[i].message);
        parsed_done(&p);
    }
}

static void test_help_needs_no_arguments(void **state)
{
    struct parsed p;

    (void)state;
    PARSE(&p, "--help");
    assert_int_equal(p.result, 0);
    assert_true(args_has(&p.args, "help"));
    parsed_done(&p);
}

static void test_output_is_one_of_the_verbs_formats(void **state)
{
    struct parsed yaml, name;
    enum output output;
    struct err err = {0};

    (void)state;
    PARSE(&yaml, "a", "-o", "yaml");
    PARSE(&name, "a", "-o", "name");
    assert_int_equal(output_from(&yaml.args, &output, &err), 0);
    assert_int_equal(output, OUTPUT_YAML);
    assert_int_equal(output_from(&name.args, &output, &err), -1);
    assert_string_equal(err.msg, "-o must be one of json yaml, not 'name'");
    parsed_done(&yaml);
    parsed_done(&name);
}

static void test_two_word_verbs_are_found_and_groups_known(void **state)
{
    char user[] = "user", add[] = "add", get[] = "get";
    int words;

    (void)state;
    assert_string_equal(verb_find(2, (char *[]){user, add}, &words)->name, "user add");
    assert_int_equal(words, 2);
    assert_string_equal(verb_find(2, (char *[]){get, add}, &words)->name, "get");
    assert_int_equal(words, 1);
    assert_null(verb_find(1, (char *[]){user}, &words));
    assert_true(verb_is_group("user"));
    assert_false(verb_is_group("us"));
    assert_false(verb_is_group("get"));
}

static void test_misspelt_verb_gets_the_nearest(void **state)
{
    (void)state;
    assert_string_equal(verb_nearest("aply"), "apply");
    assert_string_equal(verb_nearest("stauts"), "status");
    assert_string_equal(verb_nearest("usr"), "user add");
    assert_null(verb_nearest("frobnicate"));
}

static void test_ttl_units(void **state)
{
    static const struct {
        const char *text;
        int64_t sec;
    } good[] = {{"45s", 45}, {"90m", 5400}, {"12h", 43200}, {"30d", 2592000}, {"2w", 1209600}};
    static const char *const bad[] = {"", "d", "0", "45", "-3d", "3x", "3 d", "99999999999999999d"};
    int64_t sec;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_true(parse_ttl(good[i].text, &sec));
        assert_int_equal(sec, good[i].sec);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(parse_ttl(bad[i], &sec));
}

static char *table_text(const char *table, bool wide, bool show_namespace)
{
    struct cli cli = {.server = NULL};
    struct json *doc;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    assert_int_equal(json_parse(str_from(table), &cli.arena, &doc, NULL, NULL), 0);
    print_table(&cli, doc, wide, show_namespace, true, out);
    fclose(out);
    cli_done(&cli);
    return text;
}

static const char table[] =
    "{\"columnDefinitions\":[{\"name\":\"Name\",\"priority\":0},{\"name\":\"Restarts\"},{\"name\":\"IP\","
    "\"priority\":1}],"
    "\"rows\":[{\"cells\":[\"train-é\",0,null],\"object\":{\"metadata\":{\"namespace\":\"alice\"}}},"
    "{\"cells\":[\"x\\u001b[31m\",12,\"10.0.0.1\"],\"object\":{\"metadata\":{\"namespace\":\"b\"}}}]}";

static void test_table_is_set_as_kubectl_sets_it(void **state)
{
    CLEANUP(free) char *text = table_text(table, false, false);

    (void)state;
    assert_string_equal(text, "NAME      RESTARTS\n"
                              "train-é   0\n"
                              "x?[31m    12\n");
}

static void test_wide_table_has_all_columns_and_namespaces(void **state)
{
    CLEANUP(free) char *text = table_text(table, true, true);

    (void)state;
    assert_string_equal(text, "NAMESPACE   NAME      RESTARTS   IP\n"
                              "alice       train-é   0          <none>\n"
                              "b           x?[31m    12         10.0.0.1\n");
}

static void test_every_verb_explains_itself(void **state)
{
    (void)state;
    for (const struct verb *verb = verbs; verb->name; verb++) {
        char *text = NULL;
        size_t len = 0;
        FILE *out = open_memstream(&text, &len);

        verb_usage(verb, out);
        fclose(out);
        assert_non_null(strstr(text, "Usage: berth "));
        assert_non_null(strstr(text, "--help"));
        assert_non_null(verb->run);
        assert_true(ends_with(text, "\n"));
        free(text);
    }
}

static void test_paths_of_resources_are_encoded(void **state)
{
    struct cli cli = {.server = NULL};
    struct resource job = {"batch", "v1", "jobs", "job", "Job", true},
                    node = {"", "v1", "nodes", "node", "Node", false};

    (void)state;
    assert_string_equal(resource_path(&cli, &job, "lab", "a/b"), "/apis/batch/v1/namespaces/lab/jobs/a%2Fb");
    assert_string_equal(resource_path(&cli, &job, NULL, NULL), "/apis/batch/v1/jobs");
    assert_string_equal(resource_path(&cli, &node, "lab", "n1"), "/api/v1/nodes/n1");
    assert_string_equal(resource_title(&cli, &job), "job.batch");
    assert_string_equal(resource_title(&cli, &node), "node");
    cli_done(&cli);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_steers_a_terminal_is_tamed),
        cmocka_unit_test(test_documents_are_tamed_at_any_depth),
        cmocka_unit_test(test_options_and_words_may_be_mixed),
        cmocka_unit_test(test_a_command_keeps_its_own_options),
        cmocka_unit_test(test_wrong_arguments_say_what_is_wrong),
        cmocka_unit_test(test_help_needs_no_arguments),
        cmocka_unit_test(test_output_is_one_of_the_verbs_formats),
        cmocka_unit_test(test_two_word_verbs_are_found_and_groups_known),
        cmocka_unit_test(test_misspelt_verb_gets_the_nearest),
        cmocka_unit_test(test_ttl_units),
        cmocka_unit_test(test_table_is_set_as_kubectl_sets_it),
        cmocka_unit_test(test_wide_table_has_all_columns_and_namespaces),
        cmocka_unit_test(test_every_verb_explains_itself),
        cmocka_unit_test(test_paths_of_resources_are_encoded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
