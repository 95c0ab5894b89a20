/* cli - what the verbs of `berth` share: the table of verbs, parsed arguments, the daemon at the other end.
 *
 * A verb is a row in verbs[] and a function in verb_NAME.c. The row alone makes its usage text, its option
 * parsing and its shell completion. A verb prints its result on stdout, everything else on stderr, and
 * returns one of the exit codes below. The program is short-lived: what verbs make lives in cli->arena. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/vec.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

/* Documented in docs/cli.md and berth(1). */
enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_UNREACHABLE = 3, /* no daemon there */
    CLI_NOT_FOUND = 4,
    CLI_DENIED = 5,   /* not known, or not allowed */
    CLI_CONFLICT = 6, /* exists already, or has changed meanwhile */
};

struct client;

/* One run of the program. */
struct cli {
    struct arena arena;
    const char *server;    /* --server or $BERTH_SERVER; NULL: look for a socket */
    const char *data_flag; /* --data; NULL: the usual folders */
    const char *ca_path;   /* $BERTH_CA */
    const char *token;     /* $BERTH_TOKEN */
    struct client *client; /* connected on first use */
    const char *where;     /* what client talks to, for messages */
};
void cli_done(struct cli *cli);
/* Another connection to the same daemon, for what is asked again and again: its arena may be reset between
 * questions. Lives no longer than cli; ends with cli_done. */
int cli_again(struct cli *cli, struct cli *ret);

/* ---- verbs and their arguments ---- */

struct cli_option {
    char letter;      /* 0: none */
    const char *name; /* long name; NULL ends the list */
    const char *arg;  /* what its value is called; NULL: takes none */
    const char *help;
    const char *words; /* values to complete, "json yaml"; NULL: free */
};

struct args;
#define COMMAND_WORDS_MAX 1
struct verb {
    const char *name; /* "apply", "user add" */
    const char *args; /* "-f FILE", for the usage line; "" none */
    const char *summary;
    const struct cli_option *options; /* NULL: none of its own */
    const char *detail;               /* more paragraphs for --help; NULL: none */
    const char *examples;             /* lines; NULL: none */
    int min_args, max_args;           /* words that are no options; max -1: any number */
    const char *words;                /* arguments to complete, "bash zsh"; NULL: free */
    int command; /* words before a command, whose options are its own; 0: there is none */
    bool raw;    /* options are not parsed: all words arrive in args->rest */
    bool link;   /* the program goes by this name: no "berth" before it */
    int (*run)(struct cli *cli, const struct args *args);
    void (*usage)(const struct verb *verb, FILE *out); /* NULL: made from the row */
};

extern const struct verb verbs[]; /* ends with a NULL name */

extern const struct verb link_verbs[]; /* those the program is when it is called by their name; likewise */

/* Options every verb has. */
extern const struct cli_option common_options[];

struct arg_value {
    const struct cli_option *option;
    const char *value; /* "" for options without one */
};

struct args {
    const struct verb *verb;
    VEC(struct arg_value) values; /* in the order given */
    char **rest;                  /* words that are no options; NULL-terminated, borrowed from argv */
    int count;
};
void args_done(struct args *args);

/* The verb of argv ("user add" takes two words) and how many words it took; NULL: none. */
const struct verb *verb_find(int argc, char **argv, int *words);
/* The verb (or first word of one) nearest to name; NULL: none is near. */
const char *verb_nearest(const char *name);
bool verb_is_group(const char *word); /* "user": the first of two words */

/* argv[0] is skipped. ERR_INVALID with a sentence for the user. */
int args_parse(const struct verb *verb, int argc, char **argv, struct args *ret, struct err *err);
/* The last value of an option; NULL: not given. */
const char *args_get(const struct args *args, const char *name);
bool args_has(const struct args *args, const char *name);
void verb_usage(const struct verb *verb, FILE *out);
void program_usage(FILE *out);

/* The option rows that several verbs share. */
#define OPTION_OUTPUT(words)                                                                                 \
    {                                                                                                        \
        'o', "output", "FORMAT", "one of: " words, words                                                     \
    }
#define OPTION_NAMESPACE                                                                                     \
    {                                                                                                        \
        'n', "namespace", "NS", "the namespace (yours)", NULL                                                \
    }

/* ---- saying ---- */

/* What others put into objects must not steer the terminal of whoever reads it: control characters but line
 * ends and tabs become '?'. */
void text_tame(char *text, size_t len);
void doc_tame(struct json *doc); /* all its strings, in place */
/* printf of a text that is tamed. */
void cli_say(FILE *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void cli_vsay(FILE *out, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
/* "berth: SENTENCE" on stderr, tamed. Returns `code`, so that a verb can `return cli_fail(...)`. */
int cli_fail(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int cli_usage_error(const struct verb *verb, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- the daemon ---- */

/* An answer of the daemon; in cli->arena. Its document is tamed where stdout is a terminal: what goes into
 * files and pipes is as it is. */
struct reply {
    int status;
    struct json *doc; /* NULL: no JSON */
    struct str text;
    const char *id; /* of the request, as the daemon's log has it; NULL: not told */
};

struct call {
    const char *method, *target;
    const char *accept;       /* NULL: application/json */
    const char *content_type; /* NULL: application/json */
    struct str body;
};

/* Asks the daemon that was asked before, and says nothing. ERR_UNAVAILABLE: it has gone. */
int cli_try(struct cli *cli, const struct call *call, struct reply *ret, struct err *err);
/* Asks; other statuses than 2xx are answers, too. Returns CLI_OK, or another exit code after saying why. */
int cli_ask(struct cli *cli, const struct call *call, struct reply *ret);
/* The same, and a status other than 2xx is said and turned into an exit code. */
int cli_call(struct cli *cli, const struct call *call, struct reply *ret);
int cli_get(struct cli *cli, const char *target, struct reply *ret); /* cli_call of a GET */
int cli_send(struct cli *cli, const char *method, const char *target, const struct json *body,
             struct reply *ret);
/* Prints the answer to a GET as it comes, from the daemon that was asked before. Returns an exit code. */
int cli_print(struct cli *cli, const char *target);
/* The sentence (of a server error with the request's id) and the exit code of an answer that is no 2xx. */
const char *reply_message(struct cli *cli, const struct reply *reply);
int reply_exit(const struct reply *reply);
/* Says the sentence of a refusal with that body; the exit code, never CLI_OK. */
int cli_refused(struct cli *cli, int status, struct str body);
/* Who the daemon says that we are: status.userInfo of the answer. */
int cli_whoami(struct cli *cli, struct reply *ret);

/* Takes the connection over for one of the daemon's byte streams (machine/machine.h); client_read and
 * client_write then. */
int cli_upgrade(struct cli *cli, const char *target);

/* -n of the arguments; else "default" for admins and the namespace named after the caller for others. NULL
 * after saying that the daemon could not be asked; *code is the exit code then. */
const char *cli_namespace(struct cli *cli, const struct args *args, int *code);

/* Where a daemon of this user or machine is, or would be. All in cli->arena. */
struct place {
    const char *data_dir, *socket;
};
/* config_file: --config of `up`; NULL: the usual one. */
struct place cli_place(struct cli *cli, const char *config_file);
char *find_berthd(struct cli *cli); /* beside this program, in the build tree, or on PATH; in cli->arena */
/* Whether somebody listens on that socket; pid (may be NULL) gets who, 0 when the kernel does not say. */
bool socket_answers(const char *path, pid_t *pid);

/* ---- printing ---- */

enum output { OUTPUT_TABLE, OUTPUT_WIDE, OUTPUT_JSON, OUTPUT_YAML, OUTPUT_NAME };
/* -o of the arguments. ERR_INVALID: no such format, or not one of `words`. */
int output_from(const struct args *args, enum output *ret, struct err *err);
void print_doc(const struct json *doc, enum output output, FILE *out); /* JSON or YAML */

/* Columns as kubectl sets them: padded to the widest cell, three spaces between. Cells are borrowed. */
struct grid {
    size_t columns;
    VEC(const char *) cells; /* row by row */
};
void grid_add(struct grid *grid, const char *cell);
void grid_print(const struct grid *grid, FILE *out);
void grid_done(struct grid *grid);

/* A list of objects as a table: one column per row of `columns`. */
struct column {
    const char *header, *path; /* json_at path */
    enum { CELL_TEXT, CELL_AGE, CELL_LIST } type;
};
void print_columns(struct cli *cli, const struct json *items, const struct column *columns, size_t count,
                   FILE *out);
/* What target answers, by -o: the list `key` of it as a table, or the whole as it is. */
int cli_list(struct cli *cli, const struct args *args, const char *target, const char *key,
             const struct column *columns, size_t count);
/* What target answers, by -o; fallback where that is not given. */
int cli_show(struct cli *cli, const struct args *args, const char *target, enum output fallback);
/* A meta.k8s.io Table. show_namespace adds a first column. */
void print_table(struct cli *cli, const struct json *table, bool wide, bool show_namespace, bool headers,
                 FILE *out);

/* ---- resources ---- */

struct resource {
    const char *group, *version, *plural, *singular, *kind;
    bool namespaced;
};
/* From a word as users type it: pods, pod, po, Pod, jobs.batch. ERR_NOT_FOUND: the daemon has none such. */
int resource_find(struct cli *cli, const char *word, struct resource *ret);
/* From a manifest. A kind under the wrong apiVersion is found by its name alone, as `berth apply` does. */
int resource_of(struct cli *cli, const char *api_version, const char *kind, struct resource *ret);
/* "/apis/batch/v1/namespaces/NS/jobs/NAME"; ns NULL: all; name NULL: the list. In the arena. */
const char *resource_path(struct cli *cli, const struct resource *resource, const char *ns, const char *name);
const char *resource_title(struct cli *cli, const struct resource *resource); /* "job.batch", "pod" */

/* ---- manifests ---- */

#define MANIFEST_MAX       (16 << 20) /* bytes of one file */
#define MANIFEST_FILES_MAX 10000

struct manifest {
    const char *name; /* as given, for messages; "-" is standard input */
    struct str text;
};
struct manifests {
    VEC(struct manifest) files;
};
void manifests_done(struct manifests *manifests);
/* A file, "-", or every .yaml, .yml and .json of a folder, sorted. In the arena. */
int manifests_add(struct cli *cli, struct manifests *manifests, const char *path, struct err *err);

/* Writes a kubeconfig to a file of mode 0600, or to stdout where path is NULL. Returns an exit code. */
int hand_out_kubeconfig(const char *text, const char *path);

/* A link that signs a browser in, once; user NULL: the caller. NULL: there is none, *code says why (CLI_OK:
 * the daemon has no address for browsers). */
const char *page_link(struct cli *cli, const char *user, int *code);

/* "30d", "12h", "90m", "45s" or seconds. False: it is none. */
bool parse_ttl(const char *text, int64_t *ret_sec);

/* ---- the verbs ---- */

int verb_up(struct cli *cli, const struct args *args);
int verb_down(struct cli *cli, const struct args *args);
int verb_status(struct cli *cli, const struct args *args);
int verb_doctor(struct cli *cli, const struct args *args);
int verb_apply(struct cli *cli, const struct args *args);
int verb_delete(struct cli *cli, const struct args *args);
int verb_get(struct cli *cli, const struct args *args);
int verb_logs(struct cli *cli, const struct args *args);
int verb_exec(struct cli *cli, const struct args *args);
int verb_attach(struct cli *cli, const struct args *args);
int verb_port_forward(struct cli *cli, const struct args *args);
int verb_cp(struct cli *cli, const struct args *args);
int verb_queue(struct cli *cli, const struct args *args);
int verb_inbox(struct cli *cli, const struct args *args);
int verb_notify(struct cli *cli, const struct args *args);
int verb_notify_set(struct cli *cli, const struct args *args);
int verb_notify_off(struct cli *cli, const struct args *args);
int verb_notify_test(struct cli *cli, const struct args *args);
int verb_ps(struct cli *cli, const struct args *args);
int verb_top(struct cli *cli, const struct args *args);
int verb_show(struct cli *cli, const struct args *args);
int verb_why(struct cli *cli, const struct args *args);
int verb_cancel(struct cli *cli, const struct args *args);
int verb_claim(struct cli *cli, const struct args *args);
int verb_priority(struct cli *cli, const struct args *args);
int verb_train(struct cli *cli, const struct args *args);
void train_usage(const struct verb *verb, FILE *out);
int verb_run(struct cli *cli, const struct args *args);
int verb_user_add(struct cli *cli, const struct args *args);
int verb_prune(struct cli *cli, const struct args *args);
int verb_backup(struct cli *cli, const struct args *args);
int verb_restore(struct cli *cli, const struct args *args);
int verb_user_list(struct cli *cli, const struct args *args);
int verb_user_disable(struct cli *cli, const struct args *args);
int verb_user_enable(struct cli *cli, const struct args *args);
int verb_user_remove(struct cli *cli, const struct args *args);
int verb_cert_list(struct cli *cli, const struct args *args);
int verb_cert_renew(struct cli *cli, const struct args *args);
int verb_cert_revoke(struct cli *cli, const struct args *args);
int verb_token_create(struct cli *cli, const struct args *args);
int verb_token_list(struct cli *cli, const struct args *args);
int verb_token_revoke(struct cli *cli, const struct args *args);
int verb_token(struct cli *cli, const struct args *args);
int verb_kubeconfig(struct cli *cli, const struct args *args);
int verb_completion(struct cli *cli, const struct args *args);
int complete_words(int argc, char **argv); /* `berth __complete`: what the shells' scripts call */
int verb_template_list(struct cli *cli, const struct args *args);
int verb_template_show(struct cli *cli, const struct args *args);
int verb_template_put(struct cli *cli, const struct args *args);
int verb_template_delete(struct cli *cli, const struct args *args);
int verb_define_add(struct cli *cli, const struct args *args);
int verb_define_list(struct cli *cli, const struct args *args);
int verb_define_show(struct cli *cli, const struct args *args);
int verb_define_schema(struct cli *cli, const struct args *args);
int verb_define_delete(struct cli *cli, const struct args *args);
int verb_task_run(struct cli *cli, const struct args *args);
int verb_task_rerun(struct cli *cli, const struct args *args);
int verb_task_list(struct cli *cli, const struct args *args);
int verb_task_show(struct cli *cli, const struct args *args);
int verb_task_logs(struct cli *cli, const struct args *args);
int verb_task_delete(struct cli *cli, const struct args *args);
int verb_render(struct cli *cli, const struct args *args);
int verb_history(struct cli *cli, const struct args *args);
int verb_simulate(struct cli *cli, const struct args *args);
int verb_jinja_batch(struct cli *cli, const struct args *args);
int verb_login(struct cli *cli, const struct args *args);
int verb_logout(struct cli *cli, const struct args *args);
int verb_image_list(struct cli *cli, const struct args *args);
int verb_image_pull(struct cli *cli, const struct args *args);
int verb_image_import(struct cli *cli, const struct args *args);
int verb_image_rm(struct cli *cli, const struct args *args);
int verb_image_gc(struct cli *cli, const struct args *args);
int verb_build(struct cli *cli, const struct args *args);
int verb_push(struct cli *cli, const struct args *args);
int verb_data_put(struct cli *cli, const struct args *args);
int verb_data_get(struct cli *cli, const struct args *args);
int verb_data_ls(struct cli *cli, const struct args *args);
int verb_init(struct cli *cli, const struct args *args);
int verb_submit(struct cli *cli, const struct args *args);
int verb_version(struct cli *cli, const struct args *args);
int verb_help(struct cli *cli, const struct args *args);
