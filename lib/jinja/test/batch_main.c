/* batch_main - jinja_batch as a program of its own, for the conformance tests. */
#include "jinja/batch.h"

int main(void)
{
    return jinja_batch(stdin, stdout) < 0;
}
