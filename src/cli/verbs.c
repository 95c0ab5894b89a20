/* The table of verbs and their options: help, parsing and completion all come from here. */
#include "cli/cli.h"
#include "cli/target.h"

#define END                                                                                                  \
    {                                                                                                        \
        0, NULL, NULL, NULL, NULL                                                                            \
    }

/* Offered by completion without asking a daemon; it may have more. */
#define KINDS                                                                                                \
    "pods jobs trainingjobs tasktemplates taskdefinitions nodes namespaces configmaps secrets "              \
    "persistentvolumeclaims resourcequotas limitranges events services priorityclasses"

static const struct cli_option up_options[] = {
    {0, "foreground", NULL, "stay here and log to this terminal", NULL},
    {0, "config", "FILE", "config file of berthd", NULL},
    {0, "http", "ADDR|off", "plain HTTP address", NULL},
    {0, "https", "ADDR|off", "HTTPS address, for kubectl", NULL},
    {0, "gpus", "N|NxMIB,...", "declare GPUs", NULL},
    END,
};
static const struct cli_option output_options[] = {OPTION_OUTPUT("json yaml"), END};
static const struct cli_option prune_options[] = {
    {0, "dry-run", NULL, "say what would go, and change nothing", NULL},
    {0, "older-than", "TIME", "what ended so long ago: 7d, 12h, 30m", NULL},
    {0, "keep", "N", "what is past the N newest of its namespace", NULL},
    OPTION_OUTPUT("json yaml"),
    END,
};
static const struct cli_option apply_options[] = {
    {'f', "filename", "FILE", "a file, a folder, or - for standard input; may be repeated", NULL},
    OPTION_NAMESPACE,
    {0, "dry-run", NULL, "check and answer, but change nothing", NULL},
    OPTION_OUTPUT("json yaml name"),
    END,
};
static const struct cli_option delete_options[] = {
    {'f', "filename", "FILE", "delete what this file, folder or - names; may be repeated", NULL},
    OPTION_NAMESPACE,
    {'l', "selector", "LABELS", "all with these labels (app=x,tier!=web)", NULL},
    {0, "all", NULL, "all of that kind in the namespace", NULL},
    {0, "ignore-not-found", NULL, "what is not there counts as deleted", NULL},
    END,
};
static const struct cli_option get_options[] = {
    OPTION_NAMESPACE,
    {'A', "all-namespaces", NULL, "in all namespaces", NULL},
    {'l', "selector", "LABELS", "only with these labels (app=x,tier!=web)", NULL},
    {0, "field-selector", "FIELDS", "only with these fields (status.phase=Running)", NULL},
    {0, "no-headers", NULL, "without the line of column names", NULL},
    OPTION_OUTPUT("wide json yaml name"),
    END,
};
static const struct cli_option logs_options[] = {
    OPTION_NAMESPACE,
    {'c', "container", "NAME", "which container (the only one)", NULL},
    {'f', "follow", NULL, "go on until the container ends", NULL},
    {'p', "previous", NULL, "of the run before the current one", NULL},
    {0, "tail", "LINES", "only the last lines", NULL},
    {0, "since", "TIME", "only what is newer than 90s, 5m, 3h", NULL},
    {0, "since-time", "TIME", "only since 2026-01-02T03:04:05Z", NULL},
    {0, "timestamps", NULL, "each line with its time", NULL},
    {0, "limit-bytes", "N", "end after so many bytes", NULL},
    END,
};
static const struct cli_option exec_options[] = {
    OPTION_NAMESPACE,
    {'c', "container", "NAME", "which container (the only one)", NULL},
    {'i', "stdin", NULL, "pass stdin on", NULL},
    {'t', "tty", NULL, "a terminal for the command", NULL},
    END,
};
static const struct cli_option port_forward_options[] = {OPTION_NAMESPACE, END};
static const struct cli_option cp_options[] = {
    OPTION_NAMESPACE,
    {'c', "container", "NAME", "which container (the only one)", NULL},
    END,
};
static const struct cli_option queue_options[] = {
    {'w', "watch", NULL, "on the whole terminal, live; q ends it", NULL},
    {'u', "user", "NAME", "only this user's", NULL},
    {0, "state", "STATE,...", "only in these states", "Pending Starting Running Stopping Preempted"},
    OPTION_OUTPUT("wide json yaml"),
    END,
};
static const struct cli_option ps_options[] = {OPTION_OUTPUT("wide json yaml"), END};
static const struct cli_option inbox_options[] = {
    {'a', "all", NULL, "also what you have seen", NULL},
    {0, "keep", NULL, "do not mark them as seen", NULL},
    {0, "user", "NAME", "that user's, without marking (admins)", NULL},
    OPTION_OUTPUT("json yaml"),
    END,
};
static const struct cli_option notify_options[] = {
    {0, "user", "NAME", "that user's instead of yours (admins)", NULL},
    OPTION_OUTPUT("json yaml"),
    END,
};
static const struct cli_option notify_user_options[] = {
    {0, "user", "NAME", "that user's instead of yours (admins)", NULL},
    END,
};
static const struct cli_option top_options[] = {
    {0, "once", NULL, "print it once instead of drawing it every second", NULL},
    OPTION_OUTPUT("json yaml"),
    END,
};
static const struct cli_option run_options[] = {
    {0, "gpus", "N", "GPUs it runs on; 0: only CPU (1)", NULL},
    {0, "image", "IMAGE", "image to run in (host: this machine's own root)", NULL},
    {0, "gpu-memory", "MIB", "share a GPU: so much of its memory (a whole one)", NULL},
    {0, "name", "NAME", "of the job (the folder's, with four letters)", NULL},
    {0, "dir", "DIR", "the project's folder (this one)", NULL},
    {0, "epochs", "N", "epochs it trains, for the estimate", NULL},
    {0, "batch-size", "N", "samples of one step ($BATCH_SIZE)", NULL},
    {0, "set-size", "N", "samples of one epoch ($TRAINING_SET_SIZE)", NULL},
    {0, "hours", "H", "how long it will take, more than 1", NULL},
    {0, "priority", "N", "order among your own jobs: higher first", NULL},
    {'e', "env", "NAME=VALUE", "an environment variable; may be repeated", NULL},
    {0, "cpu", "CORES", "at most so many cores", NULL},
    {0, "memory", "SIZE", "at most so much main memory: 16Gi", NULL},
    {0, "port", "NODE:JOB,...", "ports to open", NULL},
    {'d', "detach", NULL, "do not stay: print the job's name", NULL},
    OPTION_NAMESPACE,
    END,
};
static const struct cli_option user_add_options[] = {
    {'g', "group", "GROUP", "a group the user is in; may be repeated", NULL},
    {0, "kubeconfig", "FILE", "write the kubeconfig there (mode 0600) instead of to stdout", NULL},
    {0, "files", "FOLDER", "write user.config, user.crt and user.key there, for ~/.kube", NULL},
    OPTION_OUTPUT("json yaml"),
    END,
};
static const struct cli_option user_remove_options[] = {
    {'y', "yes", NULL, "delete the user's namespace with all that is in it", NULL},
    END,
};
static const struct cli_option cert_renew_options[] = {
    {0, "file", "FILE", "write the kubeconfig there (mode 0600) instead of to stdout", NULL},
    END,
};
static const struct cli_option token_create_options[] = {
    {0, "user", "NAME", "whose token it is (yours)", NULL},
    {'g', "group", "GROUP", "a group it carries, such as berth:viewers; may be repeated (admins)", NULL},
    {0, "ttl", "TIME", "how long it is valid: 30d, 12h, 90m (30d)", NULL},
    {0, "description", "TEXT", "what it is for", NULL},
    OPTION_OUTPUT("json yaml"),
    END,
};
static const struct cli_option token_options[] = {
    {0, "web", NULL, "print a link that signs a browser in, once", NULL},
    {0, "user", "NAME", "as that user instead of you (admins)", NULL},
    END,
};
static const struct cli_option kubeconfig_options[] = {
    {0, "user", "NAME", "that user's instead of yours (admins)", NULL},
    {0, "file", "FILE", "write it there (mode 0600) instead of to stdout", NULL},
    END,
};

static const struct cli_option history_options[] = {
    {0, "export", "FILE", "write all of them as a trace for berth simulate; - for standard output", NULL},
    {0, "limit", "N", "so many at most (50)", NULL},
    {0, "user", "NAME", "only of this user", NULL},
    {0, "state", "STATE", "only in this state", "Succeeded Failed Cancelled"},
    {0, "from", "TIME", "only those that ended since 2026-01-02T03:04:05Z", NULL},
    {0, "to", "TIME", "only those that ended before", NULL},
    OPTION_OUTPUT("json yaml"),
    END,
};
static const struct cli_option simulate_options[] = {
    {0, "trace", "DIR|FILE", "a trace: a folder of a known format, or a CSV of jobs", NULL},
    {0, "workload", "NAME[,NAME...]", "which of the folder's workloads (w6, 120, default)", NULL},
    {0, "generate", "JOBS|lab[:KEY=VALUE,...]", "instead of a trace: so many jobs, or a lab's weeks", NULL},
    {0, "rules", "RULES", "under whose rules (the trace's own)", "pollux sia shockwave tiresias openb berth"},
    {0, "batch", "RULE", "fixed: as tuned; adaptive: the best at any time (fixed)", "fixed adaptive"},
    {0, "policy", "NAME[,NAME...]", "which policies (berth)",
     "fair fifo srtf las pressure berth bestfit fgd"},
    {0, "cluster", "SPEC", "instead of the trace's cluster: 16x4, or 2x8x24576 with MiB a card", NULL},
    {0, "restart", "SECONDS", "what a restart costs, instead of the rules'", NULL},
    {0, "seed", "N", "of the generator, of noise and of shuffles (0)", NULL},
    {0, "noise", "size=S,speed=S", "sigma of the logarithm of what forecasts are off by", NULL},
    OPTION_OUTPUT("json table html"),
    END,
};
static const struct cli_option render_options[] = {
    {0, "template", "FILE", "the template; - for standard input", NULL},
    {0, "values", "FILE", "its values, JSON or YAML", NULL},
    {0, "strict", NULL, "a missing value is an error", NULL},
    {0, "trim-blocks", NULL, "drop the newline after a block", NULL},
    {0, "lstrip-blocks", NULL, "drop the spaces before a block", NULL},
    {0, "keep-trailing-newline", NULL, "keep the newline at the end of the template", NULL},
    {0, "extras", NULL, "with to_yaml, to_nice_yaml, b64encode, b64decode, quote and required", NULL},
    {0, "needs", NULL, "print the names of the values the template needs, and nothing else", NULL},
    END,
};

static const struct cli_option login_options[] = {
    {'u', "username", "USER", "your name at the registry", NULL},
    {0, "password-stdin", NULL, "the password is the first line of standard input", NULL},
    {0, "machine", NULL, "for the pods of all users (admins)", NULL},
    {0, "no-check", NULL, "do not ask the registry whether it is right", NULL},
    END,
};
static const struct cli_option logout_options[] = {
    {0, "machine", NULL, "the one that is for all users (admins)", NULL},
    END,
};
static const struct cli_option data_ls_options[] = {
    {'r', "recursive", NULL, "with all that is below", NULL},
    END,
};
static const struct cli_option init_options[] = {
    {0, "from", "IMAGE", "what the Dockerfile begins with (python:3-slim)", NULL},
    END,
};
static const struct cli_option submit_options[] = {
    {'f', "filename", "FILE", "the manifest (deployment.yml or deployment.yaml)", NULL},
    {0, "file", "FILE", "the Dockerfile (Dockerfile)", NULL},
    {0, "build-arg", "KEY=VALUE", "a value for ARG; may be repeated", NULL},
    {0, "no-cache", NULL, "do every step of the build again", NULL},
    {0, "registry", "HOST[/PATH]", "push there (the daemon's pushTo)", NULL},
    {0, "force", NULL, "end an earlier job of that name that still runs", NULL},
    {'d', "detach", NULL, "do not follow the log", NULL},
    OPTION_NAMESPACE,
    END,
};
static const struct cli_option build_options[] = {
    {'t', "tag", "NAME", "the image's name (the folder's)", NULL},
    {'f', "file", "FILE", "the Dockerfile (Dockerfile in DIR)", NULL},
    {0, "build-arg", "KEY=VALUE", "a value for ARG; may be repeated", NULL},
    {0, "no-cache", NULL, "do every step again", NULL},
    {0, "no-import", NULL, "do not hand it to the daemon", NULL},
    END,
};

static const struct cli_option template_put_options[] = {
    {'f', "filename", "FILE", "the Jinja text, or - for standard input", NULL},
    {0, "description", "TEXT", "what the template makes", NULL},
    {0, "dry-run", NULL, "check and answer, but change nothing", NULL},
    END,
};
static const struct cli_option define_add_options[] = {
    {'f', "filename", "FILE", "the definition as JSON or YAML, or - for standard input", NULL},
    {0, "replace", NULL, "replace the definition of that name", NULL},
    {0, "dry-run", NULL, "check and answer, but change nothing", NULL},
    OPTION_NAMESPACE,
    OPTION_OUTPUT("json yaml"),
    END,
};
static const struct cli_option task_namespace_options[] = {OPTION_NAMESPACE, END};
static const struct cli_option task_show_options[] = {OPTION_NAMESPACE, OPTION_OUTPUT("json yaml"), END};
static const struct cli_option task_run_options[] = {
    {'f', "filename", "FILE", "the filled values as JSON or YAML, or - for standard input", NULL},
    {0, "set", "PATH=VALUE", "one more value (process.train.maxStep=100); may be repeated", NULL},
    {0, "dry-run", NULL, "print the rendered YAML, and make nothing", NULL},
    OPTION_NAMESPACE,
    OPTION_OUTPUT("json yaml"),
    END,
};
static const struct cli_option task_list_options[] = {
    OPTION_NAMESPACE,
    {0, "creator", "NAME", "only this creator's", NULL},
    {0, "application", "NAME", "only of this application", NULL},
    {0, "task-def", "NAME", "only of this definition", NULL},
    {0, "status", "STATUS,...", "only in one of these states", "pending running preempted succeeded failed"},
    {0, "limit", "N", "at most so many (500)", NULL},
    OPTION_OUTPUT("json yaml"),
    END,
};
static const struct cli_option task_logs_options[] = {
    OPTION_NAMESPACE,
    {'f', "follow", NULL, "go on until the container ends", NULL},
    {0, "tail", "LINES", "only the last lines", NULL},
    END,
};

const struct verb verbs[] = {
    {"up", "[BERTHD OPTIONS]", "Start the daemon in the background", up_options,
     "All other options go to berthd as they are: see berthd --help. Its log is DATA/berthd.log.",
     "  berth up\n"
     "  berth up --gpus 4x24576 --https 0.0.0.0:5443",
     .raw = true, .run = verb_up},
    {"down", "", "Stop the daemon", .run = verb_down},
    {"status", "", "Show whether the daemon runs, where, and what it holds", output_options,
     .run = verb_status},
    {"doctor", "", "Check the daemon and this machine, and say what to fix", output_options,
     "One line a check: ok, warn, fail or info. The exit status is 1 when one fails. Of a daemon on another "
     "machine "
     "(BERTH_SERVER), only what it says of itself is shown.",
     .run = verb_doctor},
    {"apply", "-f FILE", "Create or change what manifests describe", apply_options,
     "Common slips in manifests (a Job under apiVersion v1, `request:` for `requests:`, no restartPolicy)\n"
     "are corrected, with a warning for each.",
     "  berth apply -f deployment.yml\n"
     "  cat job.yaml | berth apply -f -\n"
     "  berth apply -f manifests/ --dry-run",
     .run = verb_apply},
    {"delete", "-f FILE | KIND NAME...", "Delete objects", delete_options, NULL,
     "  berth delete -f deployment.yml\n"
     "  berth delete job awesome-project-trainer\n"
     "  berth delete pods -l app=train",
     .max_args = -1, .words = KINDS, .run = verb_delete},
    {"get", "KIND [NAME...]", "List objects", get_options,
     "KIND is what kubectl takes: pods, pod, po, jobs, trainingjobs, nodes, events ...",
     "  berth get pods\n"
     "  berth get jobs -A -o wide\n"
     "  berth get job/awesome-project-trainer -o yaml",
     .min_args = 1, .max_args = -1, .words = KINDS, .run = verb_get},
    {"logs", TARGET_WORDS, "Print what a pod, job, training job or task has written", logs_options,
     TARGET_HELP "\nThe log of a training job or task is one text over all its pods.",
     "  berth logs -f train-x7k2p\n"
     "  berth logs cvlab/notebook\n"
     "  berth logs job/train --tail 20 --timestamps",
     .min_args = 1, .max_args = 1, .run = verb_logs},
    {"exec", TARGET_WORDS " [--] COMMAND...", "Run a command in a container", exec_options,
     "The exit status is the command's. With -it Ctrl-C and all other keys go to the command.\n" TARGET_HELP,
     "  berth exec -it train-x7k2p bash\n"
     "  tar c data | berth exec -i train-x7k2p -- tar x -C /scratch",
     .min_args = 2, .max_args = -1, .command = 1, .run = verb_exec},
    {"attach", TARGET_WORDS, "See a container's output from now on, write to its stdin", exec_options,
     "Ctrl-C ends the attachment; with -it it goes to the container.\n" TARGET_HELP,
     "  berth attach train-x7k2p", .min_args = 1, .max_args = 1, .run = verb_attach},
    {"port-forward", TARGET_WORDS " [LOCAL:]REMOTE...", "Reach a pod's ports from this machine",
     port_forward_options, "With nothing before the colon it is any free port.\n" TARGET_HELP,
     "  berth port-forward notebook 8888\n"
     "  berth port-forward job/train 6006:80 :9090",
     .min_args = 2, .max_args = -1, .run = verb_port_forward},
    {"cp", "SOURCE TARGET", "Copy files or folders to or from a container", cp_options,
     "One of the two is [NS/]NAME:PATH. The container needs tar.\n" TARGET_HELP,
     "  berth cp data.csv train-x7k2p:/scratch/\n"
     "  berth cp train-x7k2p:/results ./results",
     .min_args = 2, .max_args = 2, .run = verb_cp},
    {"run", "-- COMMAND...", "Run a command in this folder as a job, and stay with it", run_options,
     "The folder is copied as it is now (without .git and what .berthignore names), so changes made while "
     "the\n"
     "job waits do not matter to it. Ctrl-C detaches; the job goes on.",
     "  berth run -- python train.py --lr 0.1\n"
     "  berth run --gpus 2 --image registry/me/torch:2 -- torchrun train.py\n"
     "  berth run --gpus 0 -d -- ./preprocess.sh",
     .min_args = 1, .max_args = -1, .run = verb_run},
    {"train", "JOB_NAME", "Submit a training job, with the options of run-scheduler", NULL, NULL,
     "  berth train --script_path /custom/train.py --custom_dir . --max_epochs 10 resnet", .max_args = -1,
     .raw = true, .run = verb_train, .usage = train_usage},
    {"queue", "", "Show what runs and what waits, in which order and why", queue_options, NULL,
     "  berth queue --watch\n"
     "  berth queue -u alice --state Pending -o wide",
     .run = verb_queue},
    {"ps", "", "Show your own jobs: running, waiting, and ended in the last 24 hours", ps_options,
     .run = verb_ps},
    {"inbox", "", "Show what happened to your jobs since you last looked", inbox_options,
     "One line for each job of yours that was preempted, resized, failed, finished, was cancelled by "
     "somebody\n"
     "else, used too much memory or cannot start. What was shown is marked as seen.",
     "  berth inbox\n"
     "  berth inbox --all -o json",
     .run = verb_inbox},
    {"notify set", "NAME=VALUE...",
     "Have what happens to your jobs sent by mail, to a webhook or to a command", notify_options,
     "NAME is mail (an address), webhook (a URL that takes Slack's JSON), command (run by /bin/sh as you, "
     "where\n"
     "the admin allows it) or kinds (all, or some of preempted, resized, failed, succeeded, cancelled,\n"
     "over-memory, cannot-start and notice). NAME= removes it; - as VALUE reads it from standard input.",
     "  berth notify set mail=ann@lab.example\n"
     "  berth notify set webhook=- kinds=failed,preempted <slack-url\n"
     "  berth notify set command='notify-send \"$BERTH_NAME: $BERTH_TEXT\"'",
     .min_args = 1, .max_args = -1, .words = "mail= webhook= command= kinds=", .run = verb_notify_set},
    {"notify off", "", "Send nothing; the inbox goes on", notify_user_options, .run = verb_notify_off},
    {"notify test", "", "Send a test message to all that is set", notify_user_options,
     .run = verb_notify_test},
    {"notify", "", "Show where what happens to your jobs is sent", notify_options, .run = verb_notify},
    {"show", "JOB", "Show all about a job: state, progress, estimate, history", output_options, .min_args = 1,
     .max_args = 1, .run = verb_show},
    {"why", "JOB", "Say why a job waits, who is ahead and what would free it", output_options, .min_args = 1,
     .max_args = 1, .run = verb_why},
    {"cancel", "JOB...", "End jobs, or take them out of the queue", .min_args = 1, .max_args = -1,
     .run = verb_cancel},
    {"claim", "JOB", "Take the GPUs that this job has the better right to", NULL,
     "Jobs of a larger ordinal are asked to stop, also those that do not make room by themselves (bare "
     "pods;\n"
     "every job with `preemption: ask`). Prints who is asked; fails, and changes nothing, if nobody is.",
     .min_args = 1, .max_args = 1, .run = verb_claim},
    {"priority", "JOB N", "Change a job's place among your own", NULL, NULL,
     "  berth priority resnet 5\n"
     "  berth priority resnet -3",
     .min_args = 2, .max_args = 2, .run = verb_priority},
    {"top", "", "Show the GPUs: who is on them, memory, use; live", top_options, .run = verb_top},
    {"login", "REGISTRY", "Give Berth your password for a registry", login_options,
     "The daemon keeps it for your pods, builds and pushes, in a file only it can read. It is asked for, or\n"
     "read from standard input; never an argument.",
     "  berth login lab:5000 -u alice\n"
     "  pass show lab | berth login lab:5000 -u alice --password-stdin",
     .min_args = 1, .max_args = 1, .run = verb_login},
    {"logout", "REGISTRY", "Let Berth forget your password for a registry", logout_options, .min_args = 1,
     .max_args = 1, .run = verb_logout},
    {"image list", "", "List the images on this machine", output_options, .run = verb_image_list},
    {"image pull", "NAME", "Fetch an image now", NULL, NULL, "  berth image pull python:3.11", .min_args = 1,
     .max_args = 1, .run = verb_image_pull},
    {"image import", "FILE NAME", "Take an archive as an image", NULL,
     "FILE is what docker save or podman save wrote, an oci-archive, the folder of an OCI layout, or a tar "
     "of\n"
     "a root file system. Read with your rights; seen by your pods, and by all when an admin imports it.",
     "  berth image import rootfs.tar.gz mybase\n"
     "  docker save net | berth image import /dev/stdin net",
     .min_args = 2, .max_args = 2, .run = verb_image_import},
    {"image rm", "NAME...", "Remove images that you built or imported", .min_args = 1, .max_args = -1,
     .run = verb_image_rm},
    {"image gc", "", "Remove unused images now (admins)", .run = verb_image_gc},
    {"build", "[DIR]", "Build an image from a Dockerfile", build_options,
     "buildah does it, as you; the result is for your pods (for all, when an admin builds).",
     "  berth build -t trainer .\n"
     "  berth build -t lab:5000/me/trainer:v2 -f docker/Dockerfile .",
     .max_args = 1, .run = verb_build},
    {"push", "NAME [DEST]", "Push what berth build made to a registry", NULL,
     "Without DEST, NAME says where; a NAME without registry goes to the daemon's pushTo.",
     "  berth push lab:5000/me/trainer:v2\n"
     "  berth push trainer lab:5000/me/trainer:v2",
     .min_args = 1, .max_args = 2, .run = verb_push},
    {"init", "PROJECT", "Write the files of a new project into this folder", init_options,
     "Dockerfile, main.sh, model.py (an existing one is kept) and deployment.yml.",
     "  mkdir awesome-project && cd awesome-project && berth init awesome-project", .min_args = 1,
     .max_args = 1, .run = verb_init},
    {"submit", "[DIR]", "Build, push and run the project in this folder", submit_options,
     "An earlier finished job of the same name is replaced. Then the log is shown until the job ends, also "
     "over\n"
     "a restart of the daemon; Ctrl-C leaves it running. The exit status is that of the job's container.\n"
     "Without a registry the image goes straight to the daemon.",
     "  berth submit\n"
     "  berth submit --force -d",
     .max_args = 1, .run = verb_submit},
    {"data put", "FILE|FOLDER [WHERE]", "Copy data to the machine that runs your jobs", NULL,
     "WHERE is below your home there, below your scratch (scratch:a/b), or absolute. What was interrupted "
     "goes\n"
     "on where it stopped; what is there already does not move again. Files appear whole, with their "
     "checksums\n"
     "right. Links to folders, and what cannot be read, are left out with a line each.",
     "  berth data put train.csv awesome-project/\n"
     "  berth data put ./images scratch:awesome-project",
     .min_args = 1, .max_args = 2, .run = verb_data_put},
    {"data get", "WHERE [PATH]", "Copy data from the machine that runs your jobs", NULL, NULL,
     "  berth data get scratch:awesome-project/model.bin\n"
     "  berth data get awesome-project/results ./results",
     .min_args = 1, .max_args = 2, .run = verb_data_get},
    {"data ls", "[WHERE]", "List your data on the machine that runs your jobs", data_ls_options, NULL,
     "  berth data ls\n"
     "  berth data ls -r scratch:awesome-project",
     .max_args = 1, .run = verb_data_ls},
    {"user add", "NAME", "Add a user and print a kubeconfig for them", user_add_options,
     "The user gets a namespace of the same name. The private key is in the kubeconfig and nowhere else.",
     "  berth user add alice --kubeconfig alice.kubeconfig\n"
     "  berth user add bob --group lab >bob.kubeconfig",
     .min_args = 1, .max_args = 1, .run = verb_user_add},
    {"backup", "FILE", "Write a backup of the daemon: objects, history, tokens, certificates", NULL,
     "Made while the daemon runs, by an admin. It holds what the daemon knows and its certificate authority; "
     "it does not\n"
     "hold the contents of volumes, logs and images. FILE - is standard output.",
     "  berth backup /mnt/safe/berth.tar.gz", .min_args = 1, .max_args = 1, .run = verb_backup},
    {"prune", "", "Let finished work go now, or say what would go (admins)", prune_options,
     "One line for each object, with the setting that it goes by. Without options what the lab's policy "
     "says, "
     "which the daemon\n"
     "does by itself. The history and the logs of what goes stay.",
     "  berth prune --dry-run --older-than 1d\n"
     "  berth prune --keep 50",
     .run = verb_prune},
    {"restore", "FILE", "Put a backup back, while no daemon runs", NULL,
     "The backup is checked first. What is there now is moved to a folder beside it. Containers that run and "
     "that the\n"
     "backup does not know are left alone by the next start.",
     "  berth down; berth restore /mnt/safe/berth.tar.gz; berth up", .min_args = 1, .max_args = 1,
     .run = verb_restore},
    {"user list", "", "List users", output_options, .run = verb_user_list},
    {"user disable", "NAME", "Keep a user out",
     .detail = "Every request of the user is refused, whatever it comes with, and open streams end. What the "
               "user runs goes on; berth user enable takes it back.",
     .min_args = 1, .max_args = -1, .run = verb_user_disable},
    {"user enable", "NAME", "Let a disabled user in again", .min_args = 1, .max_args = -1,
     .run = verb_user_enable},
    {"user remove", "NAME", "Remove a user, their credentials, their work and their namespace",
     user_remove_options,
     "Tokens, certificates and sessions end at once. The namespace of the user goes with all jobs, claims "
     "and "
     "data in it, and what the user runs in other namespaces. An account of this machine can come back by "
     "the "
     "unix socket as a new user: disable it instead, or delete the account.",
     "  berth user remove alice --yes", .min_args = 1, .max_args = -1, .run = verb_user_remove},
    {"cert list", "", "List client certificates", output_options, .run = verb_cert_list},
    {"cert renew", "ID", "Make a new certificate in place of one that ends, and print its kubeconfig",
     cert_renew_options, "'berth cert list' shows the IDs. Both certificates are revoked together.",
     "  berth cert renew 3f2a --file ~/.kube/config", .min_args = 1, .max_args = 1, .run = verb_cert_renew},
    {"cert revoke", "ID", "Make a certificate, its renewals and all they made invalid at once", .min_args = 1,
     .max_args = -1, .run = verb_cert_revoke},
    {"token create", "", "Make a bearer token and print it", token_create_options,
     "The token is shown once; Berth keeps only its hash.",
     "  berth token create --ttl 12h\n"
     "  berth token create --user ci --description 'nightly runs'",
     .run = verb_token_create},
    {"token list", "", "List tokens", output_options, .run = verb_token_list},
    {"token revoke", "ID", "Make a token invalid at once", .min_args = 1, .max_args = -1,
     .run = verb_token_revoke},
    {"token", "--web", "Print a link that signs a browser in to the page", token_options,
     "The link works once, within 15 minutes; the sign-in then lasts 14 days.",
     "  berth token --web\n"
     "  xdg-open \"$(berth token --web)\"",
     .run = verb_token},
    {"kubeconfig", "", "Print a kubeconfig for kubectl", kubeconfig_options, NULL,
     "  berth kubeconfig >~/.kube/config\n"
     "  berth kubeconfig --user alice --file alice.kubeconfig",
     .run = verb_kubeconfig},
    {"template list", "", "List task templates", output_options, .run = verb_template_list},
    {"template show", "NAME", "Print a task template's text", output_options, .min_args = 1, .max_args = 1,
     .run = verb_template_show},
    {"template put", "NAME -f FILE", "Make or replace a task template (admins)", template_put_options, NULL,
     "  berth template put bert -f bert.yaml.j2 --description 'BERT on one GPU'", .min_args = 1,
     .max_args = 1, .run = verb_template_put},
    {"template delete", "NAME...", "Delete task templates (admins)", .min_args = 1, .max_args = -1,
     .run = verb_template_delete},
    {"define add", "-f FILE", "Register a task definition", define_add_options,
     "The example values are rendered through the template: a definition that does not work is refused.",
     "  berth define add -f mnist.json\n"
     "  berth define add -f mnist.yaml --replace",
     .run = verb_define_add},
    {"define list", "", "List task definitions", task_show_options, .run = verb_define_list},
    {"define show", "NAME", "Show a task definition", task_show_options, .min_args = 1, .max_args = 1,
     .run = verb_define_show},
    {"define schema", "NAME", "Show the values a definition wants, as JSON Schema", task_show_options,
     .min_args = 1, .max_args = 1, .run = verb_define_schema},
    {"define delete", "NAME...", "Delete task definitions", task_namespace_options, .min_args = 1,
     .max_args = -1, .run = verb_define_delete},
    {"task run", "-f FILE [--set PATH=VALUE]...", "Start a task from filled values", task_run_options,
     "The member taskDef of the values names the definition.",
     "  berth task run -f values.json\n"
     "  berth task run -f values.yaml --set process.train.maxStep=100 --dry-run",
     .run = verb_task_run},
    {"task list", "", "List tasks", task_list_options, NULL, "  berth task list --status running,pending",
     .run = verb_task_list},
    {"task show", "ID", "Show a task: state, values, objects, callbacks", task_show_options, .min_args = 1,
     .max_args = 1, .run = verb_task_show},
    {"task logs", "ID", "Print what a task has written", task_logs_options, NULL,
     "  berth task logs -f mnist-softmax-cpu-1a2b3c4d", .min_args = 1, .max_args = 1, .run = verb_task_logs},
    {"task rerun", "ID [-f FILE] [--set PATH=VALUE]...", "Start a task again, with other values where given",
     task_run_options, NULL, "  berth task rerun mnist-softmax-cpu-1a2b3c4d --set process.train.maxStep=200",
     .min_args = 1, .max_args = 1, .run = verb_task_rerun},
    {"task delete", "ID...", "Delete tasks and what they made", task_namespace_options, .min_args = 1,
     .max_args = -1, .run = verb_task_delete},
    {"completion", "bash|zsh|fish", "Print a shell's completion script", NULL, NULL,
     "  source <(berth completion bash)\n"
     "  berth completion zsh >\"${fpath[1]}/_berth\"\n"
     "  berth completion fish >~/.config/fish/completions/berth.fish",
     .min_args = 1, .max_args = 1, .words = "bash zsh fish", .run = verb_completion},
    {"render", "--template FILE [--values FILE]", "Render a Jinja2 template", render_options, NULL,
     "  berth render --template job.yaml.j2 --values values.yaml --strict\n"
     "  berth render --template job.yaml.j2 --needs",
     .run = verb_render},
    {"history", "[--export FILE]", "List finished jobs, or write them as a trace", history_options, NULL,
     "  berth history --user ann\n"
     "  berth history --export jobs.csv && berth simulate --trace jobs.csv --policy fair,berth",
     .run = verb_history},
    {"simulate", "--trace DIR|FILE --policy NAME[,NAME...]", "Ask what a policy or other GPUs would change",
     simulate_options,
     "Runs the scheduler's own code over a trace under a virtual clock; needs no daemon. Formats, rules and\n"
     "what the columns mean: docs/scheduling.md.\n"
     "\n"
     "--generate lab makes the jobs of a lab: days, nights and weekends, debugging and long trainings on 1 "
     "to\n"
     "8 GPUs, some of them elastic. KEY is one of gpus (8 to 64; 32), users (10 to 50; 20), days (7), load "
     "(0.9),\n"
     "elastic (0.5), jitter (0.05) and early (0.1).",
     "  berth simulate --trace jobs.csv --cluster 2x8 --policy fair,berth\n"
     "  berth simulate --trace pollux64 --workload w6 --policy las\n"
     "  berth simulate --generate lab:gpus=16,users=12 --seed 3 --policy fair,berth\n"
     "  berth simulate --trace jobs.csv --policy fair,fifo,berth -o html >report.html",
     .run = verb_simulate},
    {"jinja-batch", "", "Render JSON requests from standard input, one a line, for tests", NULL,
     "The protocol is in tests/jinja/README.md.", .run = verb_jinja_batch},
    {"version", "", "Print the versions of this program and of the daemon", output_options,
     .run = verb_version},
    {"help", "[VERB]", "Explain a verb", .max_args = 2, .run = verb_help},
    {NULL},
};
