/* berth-image - the helper of src/image: does what is slow, in a process that may be killed at any moment.
 *
 *     berth-image pull JOB        fetches the image that JOB/request.json names
 *     berth-image import JOB      takes in an archive of this machine
 *     berth-image remove PATH...  deletes folders with everything in them
 *
 * work.h has what it says on standard output. Not for people: `berth` is. */
#include "base/mem.h"
#include "image/work/tree.h"
#include "image/work/work.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define NICE 5

static int run_job(const char *job, int (*run)(struct work *, char **, struct fail *))
{
    struct fail fail = {0};
    struct work work;
    CLEANUP(free) char *id = NULL;
    int result;

    result = work_load(job, &work, &fail);
    if (result == 0) {
        result = run(&work, &id, &fail);
        work_done(&work);
    }
    if (result < 0)
        work_say("fail %d %s", (int)fail_kind(&fail), fail.err.msg);
    else
        work_say("done %s", id);
    return result < 0 ? 1 : 0;
}

static int remove_path(const char *path)
{
    CLEANUP(free) char *folder = mem_strdup(path);
    char *slash = strrchr(folder, '/');
    CLEANUP(fd_close) int dir = -1;
    struct err err = {0};

    if (path[0] != '/' || !slash || !slash[1])
        return 2;
    *slash = '\0';
    dir = open(folder[0] ? folder : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return errno == ENOENT ? 0 : 1;
    if (tree_remove(dir, slash + 1, &err) == 0)
        return 0;
    fprintf(stderr, "berth-image: %s: %s\n", path, err.msg);
    return 1;
}

static int run_remove(char **paths)
{
    int status = 0;

    for (; *paths; paths++)
        if (remove_path(*paths) != 0)
            status = 1;
    return status;
}

int main(int argc, char **argv)
{
    struct rlimit files;
    pid_t parent = getppid();

    prctl(PR_SET_PDEATHSIG, SIGKILL); /* the store finds what is left when it is opened again */
    if (getppid() != parent)
        return 1;
    signal(SIGPIPE, SIG_IGN);
    setpriority(PRIO_PROCESS, 0, NICE);
    setlocale(LC_CTYPE, "C.UTF-8"); /* names in tars are UTF-8 */
    umask(022);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    if (argc == 3 && streq(argv[1], "pull"))
        return run_job(argv[2], fetch_run);
    if (argc == 3 && streq(argv[1], "import"))
        return run_job(argv[2], import_run);
    if (argc >= 3 && streq(argv[1], "remove"))
        return run_remove(argv + 2);
    fputs("berth-image is a helper of berthd\n", stderr);
    return 2;
}
