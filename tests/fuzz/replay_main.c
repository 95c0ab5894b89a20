/* replay_main - runs a fuzz target over every file of the folders (or files) given as arguments, without
 * libFuzzer, so that each build checks the inputs that once mattered. */
#include "base/file.h"
#include "base/mem.h"

#include <dirent.h>

#define INPUT_MAX ((size_t)16 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
    CLEANUP(buf_done) struct buf buf = {0};
    CLEANUP(free) uint8_t *exact = NULL;
    struct err err = {0};

    if (file_read(path, INPUT_MAX, &buf, &err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        return -1;
    }
    exact = mem_dup(buf.data, buf.len); /* no byte more, so that sanitizers see over-reads */
    LLVMFuzzerTestOneInput(exact, buf.len);
    return 0;
}

/* How many files were run; -1 when one cannot be read. */
static int run_folder(const char *path)
{
    DIR *dir = opendir(path);
    int count = 0;

    if (!dir)
        return run_file(path) < 0 ? -1 : 1;
    for (struct dirent *entry; count >= 0 && (entry = readdir(dir));) {
        CLEANUP(free) char *file = mem_printf("%s/%s", path, entry->d_name);

        if (entry->d_name[0] == '.')
            continue;
        count = run_file(file) < 0 ? -1 : count + 1;
    }
    closedir(dir);
    return count;
}

int main(int argc, char **argv)
{
    int total = 0;

    for (int i = 1; i < argc; i++) {
        int count = run_folder(argv[i]);

        if (count < 0)
            return 1;
        total += count;
    }
    printf("%d inputs\n", total);
    return total > 0 ? 0 : 1;
}
