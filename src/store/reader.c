#include "store/reader.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/mem.h"
#include "store/dbfile.h"
#include "store/records.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#define IDLE_SEC    5 /* so long a thread waits for more */
#define NICE        5 /* who waits for a history can; others go first */
#define STACK_BYTES (256 << 10)

enum read_state { READ_WAITS, READ_RUNS, READ_DONE };

struct store_read {
    struct reader *reader;
    struct store_read *next;
    char *person;
    enum read_state state; /* under the lock */
    bool cancelled;        /* likewise */
    atomic_bool stop;
    store_read_fn fn;
    store_read_done done;
    void (*drop)(void *work);
    void *owner, *work;
    int result;
    struct err err;
};

struct reader {
    struct loop *loop;
    struct db *db;
    struct loop_io *io; /* NULL: nothing was read yet */
    int event_fd;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    struct store_read *waiting, **waiting_end; /* in the order they came */
    struct store_read *running[STORE_READERS]; /* NULL: free */
    struct store_read *done, **done_end;
    size_t count; /* that wait */
    unsigned threads, idle;
    bool stop;
};

static void append(struct store_read ***end, struct store_read *read)
{
    read->next = NULL;
    **end = read;
    *end = &read->next;
}

static void read_free(struct store_read *read, bool with_work)
{
    if (with_work)
        read->drop(read->work);
    free(read->person);
    free(read);
}

struct reader *reader_new(struct loop *loop, struct db *db)
{
    struct reader *reader = NEW(struct reader);
    pthread_condattr_t attr;

    reader->loop = loop;
    reader->db = db;
    reader->event_fd = -1;
    reader->waiting_end = &reader->waiting;
    reader->done_end = &reader->done;
    pthread_mutex_init(&reader->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&reader->changed, &attr);
    pthread_condattr_destroy(&attr);
    return reader;
}

static void free_list(struct store_read *read)
{
    while (read) {
        struct store_read *next = read->next;

        read_free(read, true);
        read = next;
    }
}

void reader_free(struct reader *reader)
{
    if (!reader)
        return;
    pthread_mutex_lock(&reader->lock);
    reader->stop = true;
    for (size_t i = 0; i < STORE_READERS; i++)
        if (reader->running[i])
            atomic_store(&reader->running[i]->stop, true);
    pthread_cond_broadcast(&reader->changed);
    while (reader->threads > 0)
        pthread_cond_wait(&reader->changed, &reader->lock);
    pthread_mutex_unlock(&reader->lock);
    free_list(reader->waiting);
    free_list(reader->done);
    loop_io_free(reader->io);
    fd_close(reader->event_fd);
    pthread_mutex_destroy(&reader->lock);
    pthread_cond_destroy(&reader->changed);
    free(reader);
}

/* ---- in the loop ---- */

static void reader_on_done(void *arg, uint32_t events)
{
    struct reader *reader = arg;
    struct store_read *list;
    uint64_t count;

    (void)events;
    while (read(reader->event_fd, &count, sizeof(count)) < 0 && errno == EINTR)
        ;
    pthread_mutex_lock(&reader->lock);
    list = TAKE_PTR(reader->done);
    reader->done_end = &reader->done;
    pthread_mutex_unlock(&reader->lock);
    while (list) {
        struct store_read *it = list;

        list = it->next;
        if (!it->cancelled) /* by one that was told before it, perhaps */
            it->done(it->owner, it->work, it->result < 0 ? &it->err : NULL);
        read_free(it, it->cancelled);
    }
}

static int prepare(struct reader *reader, struct err *err)
{
    if (reader->io)
        return 0;
    if ((reader->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
        return err_errno(err, errno, "eventfd");
    reader->io = loop_io_new(reader->loop, reader->event_fd, EPOLLIN, reader_on_done, reader);
    return 0;
}

void store_read_cancel(struct store_read *read)
{
    struct reader *reader;
    struct store_read **at;

    if (!read)
        return;
    reader = read->reader;
    pthread_mutex_lock(&reader->lock);
    read->cancelled = true;
    atomic_store(&read->stop, true);
    if (read->state != READ_WAITS) {
        pthread_mutex_unlock(&reader->lock);
        return;
    }
    for (at = &reader->waiting; *at != read; at = &(*at)->next)
        ;
    *at = read->next;
    if (reader->waiting_end == &read->next)
        reader->waiting_end = at;
    reader->count--;
    pthread_mutex_unlock(&reader->lock);
    read_free(read, true);
}

/* ---- in a thread ---- */

static bool is_served(const struct reader *reader, const char *person)
{
    for (size_t i = 0; i < STORE_READERS; i++)
        if (reader->running[i] && streq(reader->running[i]->person, person))
            return true;
    return false;
}

/* The first one whose person has none running; NULL: none. */
static struct store_read *take_next(struct reader *reader)
{
    for (struct store_read **at = &reader->waiting; *at; at = &(*at)->next) {
        struct store_read *read = *at;

        if (is_served(reader, read->person))
            continue;
        *at = read->next;
        if (reader->waiting_end == &read->next)
            reader->waiting_end = at;
        reader->count--;
        for (size_t i = 0; i < STORE_READERS; i++)
            if (!reader->running[i]) {
                reader->running[i] = read;
                break;
            }
        read->state = READ_RUNS;
        return read;
    }
    return NULL;
}

/* With the lock. */
static void end_read(struct reader *reader, struct store_read *read)
{
    const uint64_t one = 1;

    for (size_t i = 0; i < STORE_READERS; i++)
        if (reader->running[i] == read)
            reader->running[i] = NULL;
    read->state = READ_DONE;
    append(&reader->done_end, read);
    while (write(reader->event_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
    pthread_cond_broadcast(&reader->changed); /* the next one of this person can be read */
}

/* Without the lock. A connection that could not be opened is tried again with the next read. */
static void serve(struct reader *reader, sqlite3 **sql, struct store_read *read)
{
    struct record_source source;

    read->result = *sql ? 0 : dbfile_open_reader(db_path(reader->db), sql, &read->err);
    if (read->result < 0)
        return;
    record_source_init(&source, *sql, &read->stop);
    read->result = read->fn(read->work, &source, &read->err);
}

/* False: nothing came in the time. */
static bool wait_for_more(struct reader *reader)
{
    int64_t end = clock_monotonic() + IDLE_SEC * NSEC_PER_SEC;
    const struct timespec until = {end / NSEC_PER_SEC, end % NSEC_PER_SEC};
    int rc;

    reader->idle++;
    rc = pthread_cond_timedwait(&reader->changed, &reader->lock, &until);
    reader->idle--;
    return rc != ETIMEDOUT;
}

/* With the lock: until there has been nothing for a while. */
static void serve_all(struct reader *reader, sqlite3 **sql)
{
    while (!reader->stop) {
        struct store_read *read = take_next(reader);

        if (read) {
            pthread_mutex_unlock(&reader->lock);
            serve(reader, sql, read);
            pthread_mutex_lock(&reader->lock);
            end_read(reader, read);
        } else if (!wait_for_more(reader) && !reader->waiting) {
            break;
        }
    }
}

static void *reader_thread(void *arg)
{
    struct reader *reader = arg;
    sqlite3 *sql = NULL;

    setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
    pthread_mutex_lock(&reader->lock);
    do {
        serve_all(reader, &sql);
        pthread_mutex_unlock(&reader->lock);
        dbfile_close(TAKE_PTR(sql));
        pthread_mutex_lock(&reader->lock);
    } while (reader->waiting && !reader->stop); /* asked for meanwhile, when this one still counted */
    reader->threads--;
    pthread_cond_broadcast(&reader->changed);
    pthread_mutex_unlock(&reader->lock);
    return NULL;
}

/* With the lock. */
static int start_thread(struct reader *reader, struct err *err)
{
    pthread_attr_t attr;
    sigset_t all, before;
    pthread_t thread;
    int failed;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the loop's */
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    failed = pthread_create(&thread, &attr, reader_thread, reader);
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return err_errno(err, failed, "start a thread to read with");
    reader->threads++;
    return 0;
}

/* ---- starting ---- */

static size_t waiting_of(const struct reader *reader, const char *person)
{
    size_t count = 0;

    for (const struct store_read *it = reader->waiting; it; it = it->next)
        count += streq(it->person, person);
    return count;
}

/* With the lock. */
static int enqueue(struct reader *reader, struct store_read *read, struct err *err)
{
    if (reader->count >= STORE_READS_MAX || waiting_of(reader, read->person) >= STORE_READS_PERSON)
        return err_set(err, ERR_LIMIT, "too many reads of the history wait already");
    if (reader->count >= reader->idle && reader->threads < STORE_READERS && start_thread(reader, err) < 0 &&
        reader->threads == 0)
        return -1;
    append(&reader->waiting_end, read);
    reader->count++;
    pthread_cond_signal(&reader->changed);
    return 0;
}

static int read_here(struct reader *reader, store_read_fn fn, store_read_done done, void *owner, void *work)
{
    struct err err = {0};
    int result = db_read(reader->db, fn, work, &err);

    done(owner, work, result < 0 ? &err : NULL);
    return 0;
}

int reader_start(struct reader *reader, const char *person, store_read_fn fn, store_read_done done,
                 void (*drop)(void *work), void *owner, void *work, struct store_read **ret, struct err *err)
{
    struct store_read *read;
    int result;

    *ret = NULL;
    if (!db_path(reader->db))
        return read_here(reader, fn, done, owner, work);
    if (prepare(reader, err) < 0)
        return -1;
    read = NEW(struct store_read);
    *read = (struct store_read){
        .reader = reader, .fn = fn, .done = done, .drop = drop, .owner = owner, .work = work};
    read->person = mem_strdup(person);
    pthread_mutex_lock(&reader->lock);
    result = enqueue(reader, read, err);
    pthread_mutex_unlock(&reader->lock);
    if (result < 0) {
        read_free(read, false);
        return -1;
    }
    *ret = read;
    return 0;
}
