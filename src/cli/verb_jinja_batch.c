/* berth jinja-batch: libjinja's conformance protocol on standard input and output. */
#include "cli/cli.h"
#include "jinja/batch.h"

int verb_jinja_batch(struct cli *cli, const struct args *args)
{
    (void)cli;
    (void)args;
    return jinja_batch(stdin, stdout) < 0 ? cli_fail(CLI_FAILED, "stdout was closed") : CLI_OK;
}
