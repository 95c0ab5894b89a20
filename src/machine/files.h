/* files - what `berth data` says to berth-files, a process with the rights of the caller, through the daemon.
 *
 * A request is a line of JSON, an answer is one, too; bytes of files follow such a line, as many as it says.
 * Paths: absolute, or below the caller's home. An answer with "error" is a sentence; the next request may
 * follow.
 *
 *   {"op":"stat","path":P}              {"type":"file|dir|none","size":N,"mode":M,"mtime":T}
 *   {"op":"sum","path":P}               {"size":N,"sum":HEX}
 *   {"op":"list","path":P,"deep":B}     {"path":…,"type":…,"size":…,"mode":…,"mtime":…} …, {"end":true}
 *   {"op":"mkdir","path":P}             {"ok":true}
 *   {"op":"part","path":P}              {"have":N,"sum":HEX}   of what an interrupted put has left
 *   {"op":"put","path":P,"from":K,"size":N,"mode":M,"mtime":T,"sum":HEX}, N-K bytes
 *                                       {"ok":true}; "sum" is of the whole file, which appears only then
 *   {"op":"get","path":P,"from":K}      {"size":N,"mode":M,"mtime":T,"head":HEX of the first K bytes}, N-K
 *                                       bytes, {"sum":HEX}
 *
 * What is being put lies beside its place as .NAME.berth-part. */
#pragma once

#define FILES_LINE_MAX  (64 << 10)
#define FILES_DEPTH_MAX 64
#define FILES_PART      ".%s.berth-part"

int files_serve(int in, int out); /* until the end of `in`; an exit status */
