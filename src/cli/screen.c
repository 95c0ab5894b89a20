/* A text that is drawn again and again on the whole terminal (ncurses). */
#include "base/buf.h"
#include "cli/queue_view.h"

#include <curses.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define REFRESH_TENTHS     10
#define SCREEN_COLUMNS_MAX 4096 /* bytes of a line that are shown */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signo)
{
    (void)signo;
    interrupted = 1;
}

static size_t line_count(const char *text)
{
    size_t count = 0;

    for (; *text; text++)
        count += *text == '\n';
    return count;
}

/* From line `top` on; the first line (column names) stays. */
static void show(const char *text, size_t top)
{
    size_t line = 0;
    int row = 0;

    erase();
    for (const char *p = text; *p && row < LINES; line++) {
        const char *end = strchrnul(p, '\n');

        if (line == 0 || line > top) {
            if (line == 0)
                attron(A_BOLD);
            mvaddnstr(row++, 0, p, end - p < SCREEN_COLUMNS_MAX ? (int)(end - p) : SCREEN_COLUMNS_MAX);
            attroff(A_BOLD);
        }
        p = *end ? end + 1 : end;
    }
    refresh();
}

/* False: to end. */
static bool take_key(int key, size_t lines, size_t *top)
{
    size_t page = LINES > 2 ? (size_t)LINES - 2 : 1, last = lines > page ? lines - page : 0;

    switch (key) {
    case 'q':
    case 27:
    case 3:
        return false;
    case KEY_DOWN:
        *top += 1;
        break;
    case KEY_UP:
        *top -= *top > 0;
        break;
    case KEY_NPAGE:
    case ' ':
        *top += page;
        break;
    case KEY_PPAGE:
        *top -= *top < page ? *top : page;
        break;
    case KEY_HOME:
        *top = 0;
        break;
    case KEY_END:
        *top = last;
        break;
    default:
        break;
    }
    if (*top > last)
        *top = last;
    return true;
}

/* Into text; what went wrong goes there, too: the daemon may come back. */
static int draw_once(struct cli *cli, screen_draw_fn draw, void *arg, char **text, struct err *err)
{
    struct arena keep = cli->arena;
    size_t len = 0;
    FILE *out;
    int code;

    *text = NULL;
    cli->arena = (struct arena){0};
    out = open_memstream(text, &len);
    code = draw(cli, arg, out, err);
    if (code < 0)
        fprintf(out, "%s; trying again every second\n", err->msg);
    fclose(out);
    arena_done(&cli->arena);
    cli->arena = keep;
    return code;
}

static int draw_plain(struct cli *cli, screen_draw_fn draw, void *arg)
{
    struct err err = {0};
    int code = draw(cli, arg, stdout, &err);

    return code < 0 ? cli_fail(CLI_FAILED, "%s", err.msg) : code;
}

int screen_run(struct cli *cli, screen_draw_fn draw, void *arg)
{
    struct sigaction action = {.sa_handler = on_interrupt};
    size_t top = 0;
    bool going = true;

    if (!isatty(1) || !isatty(0))
        return draw_plain(cli, draw, arg);
    setlocale(LC_ALL, "");
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (!initscr())
        return cli_fail(CLI_FAILED, "this terminal cannot be drawn on ($TERM is not known)");
    noecho();
    keypad(stdscr, TRUE);
    set_escdelay(25);
    curs_set(0);
    while (going && !interrupted) {
        CLEANUP(free) char *text = NULL;
        struct err err = {0};
        int key;

        (void)draw_once(cli, draw, arg, &text, &err);
        halfdelay(REFRESH_TENTHS);
        /* keys until a second has passed without one */
        do {
            show(text, top);
            key = getch();
            going = key == ERR || take_key(key, line_count(text), &top);
        } while (going && key != ERR && !interrupted);
    }
    endwin();
    return CLI_OK;
}
