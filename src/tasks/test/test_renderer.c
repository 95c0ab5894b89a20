/* Templates in processes of their own. argv[1]: berth-render. */
#include "base/test/test.h"
#include "loop/loop.h"
#include "tasks/render_wire.h"
#include "tasks/renderer.h"

#include <signal.h>
#include <unistd.h>

static const char *program;

struct ended {
    struct buf order; /* what has ended, in its order */
    int left;
};

struct asked {
    struct ended *ended;
    const char *word;
};

static void note(void *arg, struct render_job *job)
{
    struct asked *asked = arg;

    buf_printf(&asked->ended->order, "%s:%s ", asked->word,
               !job->failed                  ? job->out.data
               : job->error.kind != JINJA_OK ? jinja_kind_name(job->error.kind)
                                             : job->err.msg);
    asked->ended->left--;
    render_job_free(job);
}

static void wait_for(struct loop *loop, const struct ended *ended)
{
    while (ended->left > 0)
        assert_int_equal(loop_turn(loop, 1000, NULL), 0);
}

static struct render_job *job_of(const char *text, unsigned flags)
{
    return render_job_new("t", str_from(text), NULL, flags);
}

static void test_renders_and_errors_come_back(void **state)
{
    static const struct {
        const char *text;
        unsigned flags;
        const char *ends;
    } cases[] = {
        {"{{ 1 + 1 }}", 0, "a:2 "},
        {"{{ x }}", RENDER_STRICT, "a:UndefinedError "},
        {"{{ x", 0, "a:TemplateSyntaxError "},
        {"{{ x", RENDER_CHECK, "a:TemplateSyntaxError "},
        {"{{ x }}", RENDER_CHECK | RENDER_STRICT, "a: "},
        {"{% for i in range(99999) %}{% for k in range(99999) %}{% endfor %}{% endfor %}", 0,
         "a:LimitError "},
        {"{{ 'again' }}", 0, "a:again "},
    };
    struct loop *loop = loop_new();
    struct renderer *renderer = renderer_new(loop, program);

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct ended ended = {.left = 1};
        struct asked asked = {&ended, "a"};

        assert_int_equal(
            renderer_start(renderer, "ann", job_of(cases[i].text, cases[i].flags), note, &asked, NULL), 0);
        wait_for(loop, &ended);
        assert_string_equal(ended.order.data, cases[i].ends);
        buf_done(&ended.order);
    }
    renderer_free(renderer);
    loop_free(loop);
}

static void test_one_person_waits_for_itself_not_others_for_it(void **state)
{
    static const char slow[] = "{% for i in range(99999) %}{% for k in range(9) %}{% endfor %}{% endfor %}";
    struct loop *loop = loop_new();
    struct renderer *renderer = renderer_new(loop, program);
    struct ended ended = {.left = 4};
    struct asked asked[] = {{&ended, "ann1"}, {&ended, "ann2"}, {&ended, "ann3"}, {&ended, "bob"}};

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(renderer_start(renderer, "ann", job_of(slow, 0), note, &asked[i], NULL), 0);
    assert_int_equal(renderer_start(renderer, "bob", job_of("x", 0), note, &asked[3], NULL), 0);
    wait_for(loop, &ended);
    assert_true(strstr(ended.order.data, "bob:") < strstr(ended.order.data, "ann2:"));
    assert_true(strstr(ended.order.data, "ann1:") < strstr(ended.order.data, "ann2:"));
    buf_done(&ended.order);
    renderer_free(renderer);
    loop_free(loop);
}

static void test_more_than_may_wait_are_refused(void **state)
{
    struct loop *loop = loop_new();
    struct renderer *renderer = renderer_new(loop, program);
    struct ended ended = {0};
    struct asked asked = {&ended, "a"};
    struct render_job *job = job_of("x", 0);
    struct err err = {0};

    (void)state;
    for (int i = 0; i < RENDERER_PERSON_MAX + 1; i++, ended.left++)
        assert_int_equal(renderer_start(renderer, "ann", job_of("x", 0), note, &asked, &err), 0);
    assert_int_equal(renderer_start(renderer, "ann", job, note, &asked, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_int_equal(renderer_start(renderer, "bob", job, note, &asked, &err), 0);
    ended.left++;
    wait_for(loop, &ended);
    buf_done(&ended.order);
    renderer_free(renderer);
    loop_free(loop);
}

/* Programs that do not answer stand for one that a hole has caught. */
static void test_what_does_not_answer_is_killed(void **state)
{
    static const char *const programs[] = {"/bin/true", "/usr/bin/tail", "/nowhere"};
    static const char *const says[] = {"rendering took too much", "rendering took too much",
                                       "start '/nowhere'"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
        struct loop *loop = loop_new();
        struct renderer *renderer = renderer_new(loop, programs[i]);
        struct ended ended = {.left = 1};
        struct asked asked = {&ended, "a"};

        assert_int_equal(renderer_start(renderer, "ann", job_of("x", 0), note, &asked, NULL), 0);
        wait_for(loop, &ended);
        assert_non_null(strstr(ended.order.data, says[i]));
        buf_done(&ended.order);
        renderer_free(renderer);
        loop_free(loop);
    }
}

/* ---- a process that a template has got hold of ---- */

enum evil { EVIL_TEXT, EVIL_KIND, EVIL_CHAIN, EVIL_OUTPUT, EVILS };

/* As berth-render, but for what it says: which sort of lie stands in the text to render. */
static int serve_evil(void)
{
    struct render_answer answer = {.magic = RENDER_MAGIC, .failed = 1, .len = sizeof(struct jinja_error)};
    struct render_head head;
    struct jinja_error error;
    char name[JINJA_NAME_MAX], text[2] = "", values[8];
    size_t n = 0;

    memset(&error, 0xff, sizeof(error)); /* no text ends */
    n += (size_t)read(STDIN_FILENO, &head, sizeof(head));
    n += (size_t)read(STDIN_FILENO, name, head.name_len);
    n += (size_t)read(STDIN_FILENO, text, 1);
    n += (size_t)read(STDIN_FILENO, values, head.values_len);
    error.kind = text[0] - 'a' == EVIL_KIND ? (enum jinja_kind)1000000 : JINJA_VALUE_ERROR;
    error.chain_len = text[0] - 'a' == EVIL_CHAIN ? 1000000 : JINJA_CHAIN_MAX;
    if (text[0] - 'a' == EVIL_OUTPUT)
        answer = (struct render_answer){.magic = RENDER_MAGIC, .len = 100};
    n += (size_t)write(STDIN_FILENO, &answer, sizeof(answer));
    n += (size_t)write(STDIN_FILENO, &error, answer.len);
    return n == 0;
}

static void test_what_a_process_says_is_not_believed(void **state)
{
    static const char *const says[EVILS] = {[EVIL_TEXT] = "ValueError",
                                            [EVIL_KIND] = "rendering took too much",
                                            [EVIL_CHAIN] = "rendering took too much",
                                            [EVIL_OUTPUT] = "rendering took too much"};
    char self[4096] = "", text[2] = "";

    (void)state;
    assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
    for (int i = 0; i < EVILS; i++) {
        CLEANUP(buf_done) struct buf shown = {0};
        struct loop *loop = loop_new();
        struct renderer *renderer = renderer_new(loop, self);
        struct render_job *job;

        text[0] = (char)('a' + i);
        job = job_of(text, 0);
        renderer_wait(renderer, job);
        assert_true(job->failed);
        if (job->error.kind != JINJA_OK)
            jinja_error_text(&job->error, &shown);
        else
            buf_puts(&shown, job->err.msg);
        assert_non_null(strstr(shown.data, says[i]));
        assert_true(utf8_valid(buf_view(&shown)));
        render_job_free(job);
        renderer_free(renderer);
        loop_free(loop);
    }
}

static void test_an_end_while_renders_wait_is_clean(void **state)
{
    struct loop *loop = loop_new();
    struct renderer *renderer = renderer_new(loop, program);
    struct ended ended = {0};
    struct asked asked = {&ended, "a"};

    (void)state;
    for (int i = 0; i < 5; i++)
        assert_int_equal(renderer_start(renderer, "ann", job_of("x", 0), note, &asked, NULL), 0);
    renderer_free(renderer);
    loop_turn(loop, 0, NULL);
    assert_int_equal(ended.order.len, 0);
    loop_free(loop);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_renders_and_errors_come_back),
        cmocka_unit_test(test_one_person_waits_for_itself_not_others_for_it),
        cmocka_unit_test(test_more_than_may_wait_are_refused),
        cmocka_unit_test(test_what_does_not_answer_is_killed),
        cmocka_unit_test(test_what_a_process_says_is_not_believed),
        cmocka_unit_test(test_an_end_while_renders_wait_is_clean),
    };

    if (streq(argv[0], "berth-render")) /* started by a renderer */
        return serve_evil();
    program = argc > 1 ? argv[1] : "berth-render";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
