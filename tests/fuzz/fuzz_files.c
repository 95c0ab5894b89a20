/* fuzz_files - any bytes that `berth data` could send to berth-files: every answer is a line of JSON or bytes
 * that such a line has promised, nothing appears outside the working folder. Inputs that could name a path
 * outside are left alone: what is fuzzed runs with the rights of whoever fuzzes. */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/json.h"
#include "machine/files.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define INPUT_MAX 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

/* No path can begin with '/', go up, or hide such a thing behind an escape. */
static bool stays_inside(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        bool word = i > 0 && (data[i - 1] == '/' || data[i - 1] == '_' || (data[i - 1] | 0x20) >= 'a');

        if (data[i] == '\\' || (data[i] == '/' && !word) || (data[i] == '.' && i > 0 && data[i - 1] == '.'))
            return false;
    }
    return true;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    return at->level > 0 ? remove(path) : 0;
}

static char place[] = "/dev/shm/berth-fuzz-XXXXXX";

static void remove_place(void)
{
    rmdir(place);
}

static int make_place(void)
{
    must(mkdtemp(place) != NULL && atexit(remove_place) == 0, "no folder to work in");
    return open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* The first line of an answer is a document, always. */
static void check_answer(int out)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc;
    char text[4096];
    ssize_t n = pread(out, text, sizeof(text), 0);
    const char *end = n > 0 ? memchr(text, '\n', (size_t)n) : NULL;

    if (end)
        must(json_parse((struct str){text, (size_t)(end - text)}, &arena, &doc, NULL, NULL) == 0 &&
                 json_is(doc, JSON_OBJECT),
             "an answer that is no object");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int inside = -1;
    CLEANUP(fd_close) int before = -1;
    CLEANUP(fd_close) int in = -1;
    CLEANUP(fd_close) int out = -1;

    if (size > INPUT_MAX || !stays_inside(data, size))
        return 0;
    if (inside < 0)
        inside = make_place();
    before = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    in = memfd_create("in", MFD_CLOEXEC);
    out = memfd_create("out", MFD_CLOEXEC);
    must(before >= 0 && in >= 0 && out >= 0 && fchdir(inside) == 0, "no files to work with");
    must(pwrite(in, data, size, 0) == (ssize_t)size, "the input could not be written");
    (void)files_serve(in, out);
    check_answer(out);
    must(nftw(place, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0, "what was put cannot be removed");
    must(fchdir(before) == 0, "no way back");
    return 0;
}
