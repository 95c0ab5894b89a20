/* cp_place - what a pod's tar has sent, on its way to where it was asked for. The pod decides what is in its
 * archive, so it is unpacked into a fresh folder that nobody else can open, cleaned there, and moved. */
#pragma once

#include "cli/cli.h"

#define CP_DEPTH_MAX 200 /* folders in one another */

/* Makes a folder of mode 0700 beside the target, which goes with cp_fresh_end or when SIGINT, SIGTERM or
 * SIGHUP ends us. NULL after saying why there is none. */
const char *cp_fresh(struct cli *cli, const char *beside);
void cp_fresh_end(void);

/* Moves DIR/NAME to the path `to`; what is there already stays where nothing of the same name came. Nothing
 * of it has setuid or setgid bits afterwards. Devices, pipes, sockets and links that lead out of the copy are
 * left out, each with a line on stderr, and no link at the target is followed. An exit code, after saying
 * what is wrong. */
int cp_place(const char *dir, const char *name, const char *to);
