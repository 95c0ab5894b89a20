/* berth completion SHELL prints a short script; the shell then calls `berth __complete WORD...` with the
 * words so far, the last one being completed, and gets one "WORD<tab>EXPLANATION" a line. What is offered
 * comes from the table of verbs alone, so completing never waits for a daemon. No lines: the shell completes
 * file names. */
#include "cli/cli.h"

static const struct {
    const char *shell, *script;
} scripts[] = {
    {"bash", "# bash completion for berth\n"
             "_berth() {\n"
             "    local IFS=$'\\n'\n"
             "    COMPREPLY=($(berth __complete \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null | cut -f1))\n"
             "}\n"
             "complete -o default -F _berth berth\n"},
    {"zsh", "#compdef berth\n"
            "_berth() {\n"
            "    local -a found\n"
            "    found=(${(f)\"$(berth __complete \"${(@)words[2,CURRENT]}\" 2>/dev/null |\n"
            "        sed $'s/:/\\\\\\\\:/g; s/\\t/:/')\"})\n"
            "    if (( $#found )); then _describe berth found; else _files; fi\n"
            "}\n"
            "if [ \"$funcstack[1]\" = _berth ]; then _berth \"$@\"; else compdef _berth berth; fi\n"},
    {"fish", "# fish completion for berth\n"
             "function __berth_complete\n"
             "    set -l found (berth __complete (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)\n"
             "    if test (count $found) -gt 0\n"
             "        printf '%s\\n' $found\n"
             "    else\n"
             "        __fish_complete_path (commandline -ct)\n"
             "    end\n"
             "end\n"
             "complete -c berth -f -a '(__berth_complete)'\n"},
};

int verb_completion(struct cli *cli, const struct args *args)
{
    (void)cli;
    for (size_t i = 0; i < ARRAY_LEN(scripts); i++)
        if (streq(scripts[i].shell, args->rest[0])) {
            fputs(scripts[i].script, stdout);
            return CLI_OK;
        }
    return cli_usage_error(args->verb, "'%s' is not one of %s", args->rest[0], args->verb->words);
}

/* ---- what to offer ---- */

static void offer(struct str word, const char *explanation, const char *begun)
{
    if (word.len >= strlen(begun) && strncmp(word.s, begun, strlen(begun)) == 0)
        printf("%.*s\t%s\n", STR_ARG(word), explanation);
}

static void offer_words(const char *words, const char *begun)
{
    struct str rest = str_from(words), word;

    while (words && str_split(&rest, ' ', &word))
        offer(word, "", begun);
}

static void offer_options(const struct cli_option *options, const char *begun)
{
    for (; options && options->name; options++) {
        char text[64];
        int len = snprintf(text, sizeof(text), "--%s", options->name);

        offer((struct str){text, (size_t)len}, options->help, begun);
    }
}

/* The n-th words (0 or 1) of verbs; for n 1 of those that begin with `first`. */
static void offer_verbs(const char *first, const char *begun)
{
    size_t len = first ? strlen(first) : 0;
    struct str last = {"", 0};

    for (const struct verb *verb = verbs; verb->name; verb++) {
        struct str word = {verb->name, strcspn(verb->name, " ")};

        if (first) {
            if (strncmp(verb->name, first, len) == 0 && verb->name[len] == ' ')
                offer(str_from(verb->name + len + 1), verb->summary, begun);
        } else if (!str_eq(word, last)) { /* verbs of one first word stand together */
            offer(word, verb->name[word.len] ? "" : verb->summary, begun);
            last = word;
        }
    }
}

/* The option that a word names, if it takes a value in the next word. */
static const struct cli_option *value_option(const struct cli_option *options, const char *word)
{
    for (; options && options->name; options++)
        if (options->arg && ((starts_with(word, "--") && streq(word + 2, options->name)) ||
                             (options->letter && word[0] == '-' && word[1] == options->letter && !word[2])))
            return options;
    return NULL;
}

int complete_words(int argc, char **argv)
{
    const char *begun = argc > 0 ? argv[argc - 1] : "", *before = argc > 1 ? argv[argc - 2] : "";
    const struct cli_option *option;
    const struct verb *verb;
    int words = 0;

    verb = argc > 1 ? verb_find(argc - 1, argv, &words) : NULL;
    if (!verb) {
        if (argc <= 1)
            offer_verbs(NULL, begun);
        else if (argc == 2 && verb_is_group(argv[0]))
            offer_verbs(argv[0], begun);
        return CLI_OK;
    }
    option = value_option(verb->options, before);
    if (!option)
        option = value_option(common_options, before);
    if (option) {
        offer_words(option->words, begun);
    } else if (begun[0] == '-') {
        offer_options(verb->options, begun);
        offer_options(common_options, begun);
    } else if (streq(verb->name, "help")) {
        offer_verbs(argc > 2 ? before : NULL, begun);
    } else {
        offer_words(verb->words, begun);
    }
    return CLI_OK;
}
